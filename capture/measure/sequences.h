/* SPDX-License-Identifier: Apache-2.0
 *
 * TCP segments whose sequence went back: retransmissions, detected without the state of both ends. A fixed table holds
 * the newest flows; a flow that fell out of it starts again, so that the count is a lower bound. Segments that the
 * network reordered count as well, as they would at the receiver.
 */
#ifndef MB_SEQUENCES_H
#define MB_SEQUENCES_H

#include <stdbool.h>
#include <stdint.h>

#include "decode/decode.h"

#define MB_SEQUENCES_BUCKETS (1u << 15)

struct mb_sequences {
	struct mb_sequence_bucket {
		struct mb_sequence {
			uint64_t flow;
			uint32_t next; /* the sequence number after all seen */
		} ways[2]; /* the newer first */
	} buckets[MB_SEQUENCES_BUCKETS];
};

/* The fingerprint of the flow of PACKET in the lane INDEX: a router's segments pass two lanes, and repeat nothing. */
static inline uint64_t mb_sequences_flow(const struct mb_packet *packet, int16_t index)
{
	return packet->flow + (uint64_t)index * 0x9e3779b97f4a7c15;
}

static inline struct mb_sequence_bucket *mb_sequences_bucket(struct mb_sequences *sequences, uint64_t flow)
{
	return &sequences->buckets[flow >> 32 & (MB_SEQUENCES_BUCKETS - 1)];
}

static inline void mb_sequences_prefetch(struct mb_sequences *sequences, const struct mb_packet *packet, int16_t index)
{
	__builtin_prefetch(mb_sequences_bucket(sequences, mb_sequences_flow(packet, index)));
}

/* The state of the flow of PACKET, which is marked MB_MARK_TCP, in the lane INDEX; created from PACKET if it is new. */
static inline struct mb_sequence *mb_sequences_find(struct mb_sequences *sequences, const struct mb_packet *packet,
						    int16_t index)
{
	const uint64_t flow = mb_sequences_flow(packet, index);
	struct mb_sequence_bucket *bucket = mb_sequences_bucket(sequences, flow);
	struct mb_sequence newer = bucket->ways[1];

	if (bucket->ways[0].flow == flow)
		return &bucket->ways[0];
	if (newer.flow != flow)
		newer = (struct mb_sequence){ .flow = flow, .next = packet->tcp_seq };
	bucket->ways[1] = bucket->ways[0];
	bucket->ways[0] = newer;
	return &bucket->ways[0];
}

/* Whether a segment of the flow, with LENGTH from FIRST, repeats sequence space that it has sent. */
static inline bool mb_sequence_back(struct mb_sequence *sequence, uint32_t first, uint32_t length)
{
	uint32_t end = first + length;
	bool back = (int32_t)(first - sequence->next) < 0;

	/* A keep-alive (RFC 9293, 3.8.4) repeats at most the last octet, on purpose. */
	if (length == 0 || (length == 1 && end == sequence->next))
		return false;
	if (!back || (int32_t)(end - sequence->next) > 0)
		sequence->next = end;
	return back;
}

/* For segments up to END without a gap, the first from FIRST with LENGTH: whether none of the others repeats sequence
 * space that the flow has sent. If so, they are recorded as sent, and *IS_BACK is the result of mb_sequence_back() for
 * the first. */
static inline bool mb_sequence_continues(struct mb_sequence *sequence, uint32_t first, uint32_t length, uint32_t end,
					 bool *is_back)
{
	*is_back = false;
	if (__builtin_expect((int32_t)(first - sequence->next) < 0, 0)) {
		if ((int32_t)(first + length - sequence->next) < 0)
			return false;
		*is_back = mb_sequence_back(sequence, first, length);
	}
	if (end != first) /* pure acknowledgments take no sequence space */
		sequence->next = end;
	return true;
}

#endif

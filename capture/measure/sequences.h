/* SPDX-License-Identifier: Apache-2.0
 *
 * TCP segments whose sequence went back: retransmissions, seen without state of both ends.
 * A fixed table of the newest flows; a flow that fell out of it is begun anew, so the count
 * is a lower bound. Segments that the network reordered count, as the receiver's own would.
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
			uint32_t next; /* the sequence number behind all seen */
		} ways[2]; /* the newer first */
	} buckets[MB_SEQUENCES_BUCKETS];
};

static inline struct mb_sequence_bucket *mb_sequences_bucket(struct mb_sequences *sequences,
							     const struct mb_packet *packet)
{
	return &sequences->buckets[packet->flow >> 32 & (MB_SEQUENCES_BUCKETS - 1)];
}

static inline void mb_sequences_prefetch(struct mb_sequences *sequences, const struct mb_packet *packet)
{
	__builtin_prefetch(mb_sequences_bucket(sequences, packet));
}

/* What is known of the flow of PACKET, which is marked MB_MARK_TCP; begun with it when new. */
static inline struct mb_sequence *mb_sequences_find(struct mb_sequences *sequences, const struct mb_packet *packet)
{
	struct mb_sequence_bucket *bucket = mb_sequences_bucket(sequences, packet);
	struct mb_sequence newer = bucket->ways[1];

	if (bucket->ways[0].flow == packet->flow)
		return &bucket->ways[0];
	if (newer.flow != packet->flow)
		newer = (struct mb_sequence){ .flow = packet->flow, .next = packet->tcp_seq };
	bucket->ways[1] = bucket->ways[0];
	bucket->ways[0] = newer;
	return &bucket->ways[0];
}

/* Whether a segment of the flow, LENGTH long from FIRST, repeats sequence space that it has sent. */
static inline bool mb_sequence_back(struct mb_sequence *sequence, uint32_t first, uint32_t length)
{
	uint32_t end = first + length;
	bool back = (int32_t)(first - sequence->next) < 0;

	/* A keep-alive (RFC 9293, 3.8.4) repeats at most the last octet on purpose. */
	if (length == 0 || (length == 1 && end == sequence->next))
		return false;
	if (!back || (int32_t)(end - sequence->next) > 0)
		sequence->next = end;
	return back;
}

/* Whether of segments without a gap up to END, of which the one from FIRST is LENGTH long, no other repeats sequence
 * space that the flow has sent. If so, they were sent now, and *IS_BACK is as mb_sequence_back() says of that one. */
static inline bool mb_sequence_continues(struct mb_sequence *sequence, uint32_t first, uint32_t length, uint32_t end,
					 bool *is_back)
{
	*is_back = false;
	if (__builtin_expect((int32_t)(first - sequence->next) < 0, 0)) {
		if ((int32_t)(first + length - sequence->next) < 0)
			return false;
		*is_back = mb_sequence_back(sequence, first, length);
	}
	if (end != first) /* acknowledgments alone take no sequence space */
		sequence->next = end;
	return true;
}

#endif

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

#include "decode.h"

#define MB_SEQUENCES_BUCKETS (1u << 15)

struct mb_sequences {
	struct mb_sequence_bucket {
		struct mb_sequence {
			uint64_t flow;
			uint32_t next; /* the sequence number behind all seen */
		} ways[2]; /* the newer first */
	} buckets[MB_SEQUENCES_BUCKETS];
};

static inline struct mb_sequence_bucket *
mb_sequences_bucket(struct mb_sequences *sequences, const struct mb_packet *packet)
{
	return &sequences->buckets[packet->flow >> 32 & (MB_SEQUENCES_BUCKETS - 1)];
}

static inline void mb_sequences_prefetch(struct mb_sequences *sequences,
					 const struct mb_packet *packet)
{
	__builtin_prefetch(mb_sequences_bucket(sequences, packet));
}

/* Whether PACKET, marked MB_MARK_TCP, repeats sequence space that its flow has sent. */
static inline bool mb_sequences_back(struct mb_sequences *sequences, const struct mb_packet *packet)
{
	struct mb_sequence_bucket *bucket = mb_sequences_bucket(sequences, packet);
	struct mb_sequence *way = &bucket->ways[0];
	uint32_t end = packet->tcp_seq + packet->tcp_len;

	if (way->flow != packet->flow) {
		struct mb_sequence newer = bucket->ways[1];

		if (newer.flow != packet->flow)
			newer = (struct mb_sequence){ .flow = packet->flow, .next = packet->tcp_seq };
		bucket->ways[1] = bucket->ways[0];
		bucket->ways[0] = newer;
	}
	/* A keep-alive (RFC 9293, 3.8.4) repeats at most the last octet on purpose. */
	if (packet->tcp_len == 0 || (packet->tcp_len == 1 && end == way->next))
		return false;
	if ((int32_t)(packet->tcp_seq - way->next) < 0) {
		if ((int32_t)(end - way->next) > 0)
			way->next = end;
		return true;
	}
	way->next = end;
	return false;
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Who sent how much within one bin of time: exact bytes, packets, distinct flows, first and last stamp of each sender,
 * until the senders need more memory than the limit for all bins together. Then the smallest are folded into one row,
 * `other`, with their number.
 */
#ifndef MB_SENDERS_H
#define MB_SENDERS_H

#include <stdbool.h>
#include <stdint.h>

#include "arrow/table.h"
#include "decode/decode.h"

/* Limits that all bins of an engine share. */
struct mb_senders_limits {
	uint32_t max_rows;      /* senders with a row of their own in a closed bin */
	int64_t senders_left;   /* senders for which tables may still allocate room, in all bins together */
	int64_t flows_left;     /* the same for flows */
	struct mb_seed seed;    /* for the hashes */
	uint64_t folded_early;  /* bins in which senders were folded before the bin was over, so that a sender that
				 * came back is counted again in `members` */
	uint64_t flows_unseen;  /* packets whose flow could not be stored: `flows` is a lower bound */
};

/* The port that most of a sender's flows have, by majority vote (Boyer and Moore 1981), which stores only one
 * candidate. `flows` is the number of flows that surely have it: those since it last took the lead. */
struct mb_vote {
	uint32_t lead;
	uint32_t flows;
	uint16_t port;
};

struct mb_sender {
	struct mb_address address;
	uint32_t packets;
	uint32_t flows;
	uint64_t bytes;
	int64_t first_ns, last_ns;
	struct mb_vote source_port, destination_port;
	uint32_t cnp_packets; /* congestion notifications of RoCEv2 */
};

/* The senders of a bin. */
struct mb_sent {
	struct mb_sender *list; /* in order of appearance, until some were folded */
	uint32_t count;
	struct mb_sender other; /* packets == 0: no sender was folded */
	uint64_t other_members;
};

struct mb_flow {
	uint64_t fingerprint;
	uint32_t generation; /* slots of another generation are free */
	uint32_t sender;     /* index into the list */
};

struct mb_senders {
	struct mb_senders_limits *limits;
	struct mb_sent sent;
	uint32_t capacity; /* of the list in `sent` */
	uint32_t generation;
	struct mb_sender_slot *slots; /* 2 × capacity: address → index */
	struct mb_flow *flows;        /* a hash table: most packets find their sender by their flow */
	uint32_t n_flows, flow_capacity;
	bool folded;
};

void mb_senders_init(struct mb_senders *senders, struct mb_senders_limits *limits);
void mb_senders_deinit(struct mb_senders *senders);

/* Prefetch the slot for PACKET's flow. */
static inline void mb_senders_prefetch(const struct mb_senders *senders, const struct mb_packet *packet)
{
	uint32_t slot = (uint32_t)packet->flow & (senders->flow_capacity - 1);

	__builtin_prefetch(&senders->flows[slot]);
}

/* The sender of PACKET, which must have one; counts the packet's flow. Valid until the next call. NULL if memory is
 * out. */
struct mb_sender *mb_senders_find(struct mb_senders *senders, const struct mb_packet *packet);

/* Packets of one flow within a bin, in order of time. */
struct mb_subtotal {
	uint64_t bytes, padding; /* of L2 without FCS; and the bytes missing to the shortest Ethernet frame */
	int64_t first_ns, last_ns;
	uint32_t packets, ce_packets;
};

static inline void mb_sender_add(struct mb_sender *sender, const struct mb_subtotal *subtotal)
{
	sender->bytes += subtotal->bytes;
	sender->packets += subtotal->packets;
	sender->last_ns = subtotal->last_ns > sender->last_ns ? subtotal->last_ns : sender->last_ns;
	sender->first_ns = subtotal->first_ns < sender->first_ns ? subtotal->first_ns : sender->first_ns;
}

/* Add the sums of at most MEMBERS senders to `other`. */
void mb_senders_fold(struct mb_senders *senders, const struct mb_sender *sums, uint64_t members);

static inline bool mb_senders_has_any(const struct mb_senders *senders)
{
	return senders->sent.count || senders->sent.other_members;
}

/* End the bin. Returns its senders, with the smallest folded if there are too many for rows; valid until
 * mb_senders_begin() begins another bin. */
const struct mb_sent *mb_senders_end(struct mb_senders *senders);
void mb_senders_begin(struct mb_senders *senders);

/* Columns of the rows of senders. */
#define MB_SENDER_COLUMNS 13
extern const struct mb_column mb_sender_columns[MB_SENDER_COLUMNS];

/* The destination of rows, and the values that all rows of a bin share. */
struct mb_sender_rows {
	struct mb_table *rows;
	int16_t lane;
	uint16_t epoch;
};

/* Append a row for each sender of the bin at TS_NS, then `other`. Returns 0 or -ENOMEM. */
int mb_sent_append(const struct mb_sent *sent, const struct mb_sender_rows *to, int64_t ts_ns);

/* Make a copy; the caller frees its list. Returns 0 or -ENOMEM. */
int mb_sent_copy(struct mb_sent *copy, const struct mb_sent *sent);

/* Fold all senders with fewer flows than LEAST_FLOWS into `other`, unless that saves no row. The first and last packet
 * of `other` are then the first and last ns of the bin [START_NS, END_NS): exact stamps would take most of the space of
 * such a row. */
void mb_sent_sum_up(struct mb_sent *sent, uint32_t least_flows, int64_t start_ns, int64_t end_ns);

#endif

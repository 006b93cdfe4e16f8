/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides which bins of senders are kept sender by sender: those within reach of a busy bin, that is, one with enough
 * of the link in use. In other bins, whose senders no burst needs, they become one row, `other`, so that sums stay
 * exact. A bin of senders is decided when a busy bin within reach is closed, or when all bins within reach are.
 */
#ifndef MB_BUSY_H
#define MB_BUSY_H

#include <stdint.h>

#include "measure/senders.h"

/* The reach before and behind a bin of senders, in widths of the wider kind of bin. A burst of bins W wide, joined over
 * J, needs senders up to 2 W plus a bin of senders before its first busy bin, and up to W + J/2 from the nearest busy
 * bin within it. */
#define MB_BUSY_REACH 4

/* A sender of this host with this many flows in a bin sends requests, which bursts answer: in the outgoing direction it
 * keeps its row (analysis/cause/trigger.py). */
#define MB_FAN_OUT_FLOWS 3

/* The number of senders that may wait for a decision, at 112 bytes each; beyond it, the oldest waiting bin is kept. */
#define MB_BUSY_WAITING 262144

struct mb_busy_rule {
	uint64_t least_bytes; /* wire bytes of a busy bin; 0: all senders are kept, and none waits */
	uint32_t least_flows; /* flows from which a sender keeps its row in every bin */
	int64_t bin_ns, source_bin_ns;
};

/* A queue of items of one size. */
struct mb_busy_queue {
	void *items;
	uint32_t first, end, capacity;
};

struct mb_busy {
	struct mb_busy_rule rule;
	int64_t reach_ns;
	struct mb_busy_queue spans;   /* bins of senders near busy bins: ascending, disjoint */
	struct mb_busy_queue waiting; /* closed bins of senders, ascending */
	uint64_t senders;             /* number of senders in them */
};

/* The wire bytes that fill SHARE_PPB billionths of BIN_NS at LINK_BPS, rounded up: least_bytes() of sql/macros.sql. */
uint64_t mb_busy_least_bytes(uint64_t share_ppb, int64_t bin_ns, uint64_t link_bps);

void mb_busy_init(struct mb_busy *busy, const struct mb_busy_rule *rule);
void mb_busy_deinit(struct mb_busy *busy);

/* Record that a bin at TS_NS was closed with WIRE_BYTES; bins come in ascending order. Returns 0 or -ENOMEM. */
int mb_busy_mark(struct mb_busy *busy, int64_t ts_ns, uint64_t wire_bytes);

/* Take bin NUMBER of SENDERS, which is closed and not empty, and begin the next. Its rows go to TO, now or in
 * mb_busy_settle(). Returns 0 or -ENOMEM. */
int mb_busy_take(struct mb_busy *busy, struct mb_senders *senders, int64_t number, const struct mb_sender_rows *to);

/* Append the rows of the bins that are decided now that every bin before CLOSED_NS is closed. Returns 0 or -ENOMEM. */
int mb_busy_settle(struct mb_busy *busy, int64_t closed_ns, const struct mb_sender_rows *to);

/* The same for all waiting bins, at the end of a clock epoch. */
int mb_busy_finish(struct mb_busy *busy, const struct mb_sender_rows *to);

#endif

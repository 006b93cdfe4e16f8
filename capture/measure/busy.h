/* SPDX-License-Identifier: Apache-2.0
 *
 * Which bins of senders are kept sender by sender: those within reach of a busy bin, one that fills enough of the link.
 * Of the others, whose senders no burst has, the senders become one row, `other`, so that sums stay exact. A bin of
 * senders is decided when a busy bin within reach is closed, or all bins within reach are.
 */
#ifndef MB_BUSY_H
#define MB_BUSY_H

#include <stdint.h>

#include "measure/senders.h"

/* The reach before and behind a bin of senders, in widths of the wider kind of bin. A burst of bins W wide, joined over J,
 * asks for senders up to 2 W and a bin of senders before its first busy bin, and W + J/2 from the next within it. */
#define MB_BUSY_REACH 4

/* A sender of this host that has so many flows in a bin asks others, which is what bursts are answers to: on the way
 * out it keeps its row (analysis/cause/trigger.py). */
#define MB_FAN_OUT_FLOWS 3

/* As many senders wait for a decision, in bytes 112 each; then the oldest bin of them is kept. */
#define MB_BUSY_WAITING 262144

struct mb_busy_rule {
	uint64_t least_bytes; /* wire bytes of a busy bin; 0: all senders are kept, and none waits */
	uint32_t least_flows; /* of a sender that keeps its row in every bin */
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
	struct mb_busy_queue spans;   /* bins of senders near busy bins: ascending, apart */
	struct mb_busy_queue waiting; /* closed bins of senders, ascending */
	uint64_t senders;             /* in those */
};

/* The wire bytes that fill SHARE_PPB billionths of BIN_NS at LINK_BPS, rounded up: least_bytes() of sql/macros.sql. */
uint64_t mb_busy_least_bytes(uint64_t share_ppb, int64_t bin_ns, uint64_t link_bps);

void mb_busy_init(struct mb_busy *busy, const struct mb_busy_rule *rule);
void mb_busy_deinit(struct mb_busy *busy);

/* A bin that starts at TS_NS was closed with WIRE_BYTES, no earlier one than before. 0 or -ENOMEM. */
int mb_busy_mark(struct mb_busy *busy, int64_t ts_ns, uint64_t wire_bytes);

/* Take bin NUMBER of SENDERS, which is closed and not empty, and begin the next. Its rows go to TO, now or with
 * mb_busy_settle(). 0 or -ENOMEM. */
int mb_busy_take(struct mb_busy *busy, struct mb_senders *senders, int64_t number, const struct mb_sender_rows *to);

/* Append the rows of the bins that are decided once every bin before CLOSED_NS is closed. 0 or -ENOMEM. */
int mb_busy_settle(struct mb_busy *busy, int64_t closed_ns, const struct mb_sender_rows *to);

/* The end of a clock epoch: the same for all that wait. */
int mb_busy_finish(struct mb_busy *busy, const struct mb_sender_rows *to);

#endif

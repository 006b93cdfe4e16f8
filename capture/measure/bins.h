/* SPDX-License-Identifier: Apache-2.0
 *
 * Packets in, rows of fixed bins out. A lane is one direction of one interface: utilization
 * of a full-duplex link means one direction. No I/O; no allocation per packet.
 *
 * Packets may come out of order within a window; a bin is closed, and becomes a row, when the
 * newest stamp has left it behind by more than the window. A packet older than that is late:
 * it is counted as late and in no bin. Many late packets in a row mean that the clock went
 * back: then all bins are closed and a new epoch begins with those packets. So it does with the
 * first packet from 2000 on behind one from before: the clock had not been set, and now it is.
 */
#ifndef MB_BINS_H
#define MB_BINS_H

#include <stdbool.h>
#include <stdint.h>

#include "arrow/table.h"
#include "dates.h"
#include "decode/decode.h"
#include "measure/busy.h"
#include "measure/drop_spans.h"
#include "measure/senders.h"
#include "measure/sequences.h"
#include "measure/span.h"
#include "measure/trains.h"

/* This many late packets in a row, in order among themselves, are a step of the clock. */
#define MB_STEP_PACKETS 32

struct mb_bins_options {
	int64_t bin_ns;        /* 1 … */
	int64_t source_bin_ns; /* 1 … */
	int64_t window_ns;     /* 0 … ; (window / narrowest bin) at most MB_BINS_OPEN */
	uint64_t spread_bps;   /* lay the bytes of merged frames back over the time that they took
				* at this rate; 0: all at their stamp */
};

#define MB_BINS_OPEN (1 << 20)
#define MB_DROP_BINS (1 << 20)

/* The counters of a bin. X(name, type of the column, SUM, or BITS of a set): a line here makes the field of a bin, the
 * total of a lane, the column and its name. What a counter means is at its column in sql/schema/bins.sql: these two
 * places are all that a counter has, but for the code that counts it. */
#define MB_BIN_COUNTERS(X)              \
	X(bytes, int64_t, SUM)          \
	X(wire_bytes, int64_t, SUM)     \
	X(packets, uint32_t, SUM)       \
	X(ce_packets, uint32_t, SUM)    \
	X(retransmits, uint32_t, SUM)   \
	X(quality, uint16_t, BITS)      \
	X(cnp_packets, uint32_t, SUM)   \
	X(pause_frames, uint32_t, SUM)  \
	X(resume_frames, uint32_t, SUM) \
	X(pause_quanta, int64_t, SUM)   \
	X(pause_classes, uint16_t, BITS)

/* Columns of the rows of bins: those that name the bin, X(name, type), and the counters. */
#define MB_BIN_KEYS(X)           \
	X(lane, int16_t)         \
	X(clock_epoch, uint16_t) \
	X(ts_ns, int64_t)

enum mb_bin_column {
#define MB_ENUMERATOR(name, ...) MB_BIN_##name,
	MB_BIN_KEYS(MB_ENUMERATOR) MB_BIN_COUNTERS(MB_ENUMERATOR)
#undef MB_ENUMERATOR
		MB_BIN_COLUMNS,
};

extern const struct mb_column mb_bin_columns[MB_BIN_COLUMNS];

struct mb_lane_totals {
#define MB_TOTAL(name, ...) uint64_t name;
	MB_BIN_COUNTERS(MB_TOTAL) /* of the bins that are closed */
#undef MB_TOTAL
	uint64_t unattributed_packets, unattributed_bytes; /* in bins, with no sender */
	uint64_t late, late_bytes;           /* in no bin, misdated ones among them */
	uint64_t unparsed, merged;
	int64_t first_ns, last_ns;           /* least and largest stamp in bins, once packets > 0 */
	uint32_t epochs;
};

struct mb_bin {
#define MB_FIELD(name, type, ...) type name;
	MB_BIN_COUNTERS(MB_FIELD)
#undef MB_FIELD
};

struct mb_lane {
	/* What every packet touches. */
	int64_t newest_ns;      /* the newest stamp of this epoch */
	struct mb_bin *newest;  /* the bin that holds it, or NULL before the first packet */
	struct mb_senders *newest_senders;
	int64_t newest_end;     /* where the first of these two ends, or the time in which a clock was not set */
	struct mb_span bin_span, sender_span;
	uint32_t n_pending;     /* late packets that may be a step of the clock */
	const struct mb_bins_options *options;
	struct mb_sequences *sequences;
	struct mb_bin *bins;        /* rings of open bins */
	struct mb_senders *senders;
	struct mb_busy busy;        /* which of them are kept */
	int16_t index;
	uint16_t epoch;
	bool stepped;           /* the next bin is the first of an epoch */
	int64_t advanced_ns;    /* where time moved on without a packet (INT64_MIN: nowhere in this epoch), … */
	uint64_t advanced_packets; /* … and how many the newest bin had then */
	struct mb_packet *pending;
	struct mb_drop_spans drop_spans;
	struct mb_lane_totals totals;
	struct mb_table **bin_rows, **sender_rows; /* where closed bins go; owned by the engine */
};

/* Append bin NUMBER of LANE to ROWS, which have room for it; and add it to the totals of its lane (bin_rows.c). */
void mb_bin_append(struct mb_table *rows, const struct mb_lane *lane, int64_t number, const struct mb_bin *bin);
void mb_lane_totals_add(struct mb_lane_totals *totals, const struct mb_bin *bin);

/* Rows of senders are as BUSY says. ROWS and what they point to must outlive the lane. 0 or -ENOMEM. */
int mb_lane_init(struct mb_lane *lane, int16_t index, const struct mb_bins_options *options,
		 const struct mb_busy_rule *busy, struct mb_senders_limits *limits, struct mb_sequences *sequences,
		 struct mb_table **bin_rows, struct mb_table **sender_rows);
void mb_lane_deinit(struct mb_lane *lane);

/* Count a packet of this lane. 0, -ENOMEM, or -ERANGE when its stamp is not a date: mb_lane_misdate() counts it then. */
int mb_lane_add(struct mb_lane *lane, const struct mb_packet *packet);

/* Have the newest bins of both widths hold TS_NS, for a caller that adds to them himself. 0, -ENOMEM, or -ERANGE when
 * the lane is past it or it is not a date. */
int mb_lane_reach(struct mb_lane *lane, int64_t ts_ns);

/* Lay the bytes of a merged frame, which the bin of its stamp has counted, back over the bins in which they crossed the
 * wire: they end at the stamp, at line rate (spread_bps). The frame itself stays in that bin. */
void mb_lane_spread(struct mb_lane *lane, const struct mb_packet *packet);

/* Count a packet as one that belongs in no bin. */
void mb_lane_misdate(struct mb_lane *lane, const struct mb_packet *packet);

/* Count at once the packets of a train of several, the first of which is LEADER. 1, or 0 when they do
 * not continue what was counted before, in time or sequence, or have stamps that are not dates or begin an
 * epoch, and must be added one by one; or -ENOMEM. */
int mb_lane_add_train(struct mb_lane *lane, const struct mb_packet *leader, const struct mb_train *train);

/* Have the look-ups of LEADER's flow under way before it is added. */
static inline void mb_lane_prefetch(const struct mb_lane *lane, const struct mb_packet *leader)
{
	if (lane->newest)
		mb_senders_prefetch(lane->newest_senders, leader);
	mb_sequences_prefetch(lane->sequences, leader);
}

/* The clock was set: close all bins, and begin a new epoch with the next packet. 0 or -ENOMEM. */
int mb_lane_step(struct mb_lane *lane);

/* Packets of this lane may have been lost in FIRST_NS … LAST_NS: mark the bins of that time as
 * having drops, those that are open and those to come. Bins in it without a packet become rows, too,
 * up to MB_DROP_BINS in a row. */
void mb_lane_mark_drops(struct mb_lane *lane, int64_t first_ns, int64_t last_ns);

/* Close every bin that no packet newer than NOW_NS minus the window can change: for a source that
 * is silent. 0 or -ENOMEM. */
int mb_lane_advance(struct mb_lane *lane, int64_t now_ns);

/* Close all bins: the end of the capture. 0 or -ENOMEM. */
int mb_lane_finish(struct mb_lane *lane);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Packets in, rows of fixed bins out. A lane is one direction of one interface: utilization of a full-duplex link
 * refers to one direction. No I/O; no allocation for each packet.
 *
 * Packets may come out of order within a window. A bin is closed, and becomes a row, when the newest stamp is ahead of
 * it by more than mb_bins_open_ns(). A packet older than the window is late: it is counted as late, and in no bin. Many
 * late packets in a row mean that the clock went back: all bins are closed, and a new epoch begins with those packets.
 * A new epoch also begins with the first packet from 2000 on after one before 2000: the clock was not set, and then it
 * was.
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

/* This many late packets in a row, in order among themselves, are taken for a step of the clock. */
#define MB_STEP_PACKETS 32

struct mb_bins_options {
	int64_t bin_ns;        /* 1 … */
	int64_t source_bin_ns; /* 1 … */
	int64_t window_ns;     /* 0 … ; (window / narrowest bin) at most MB_BINS_OPEN */
	int64_t least_open_ns; /* bins stay open for so long behind the newest stamp, even if the window is shorter */
	uint64_t spread_bps;   /* spread the bytes of merged frames over the time that they take at this rate; 0:
			        * count all at their stamp */
};

#define MB_BINS_OPEN (1 << 20)
/* Most bins over which a merged frame is spread: 82 ms of 10 us, so 64 KiB at 6.4 Mb/s. On a link that is taken for a
 * slower one, each frame takes as many steps. */
#define MB_SPREAD_BINS (1 << 13)
/* Wire bytes of the largest merged frame: 8 * 65535 bytes (BIG TCP), in segments of at least 400. */
#define MB_MERGED_WIRE (640u << 10)
#define MB_DROP_BINS (1 << 20)

/* The counters of a bin. X(name, type of the column, SUM, or BITS of a set): each line defines the field of a bin, the
 * total of a lane, the column and its name. The column in sql/schema/bins.sql has the meaning of the counter. A counter
 * needs only these two places, and the code that counts it. */
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

/* Columns of the rows of bins: those that identify the bin, X(name, type), and the counters. */
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
	MB_BIN_COUNTERS(MB_TOTAL) /* sums over the closed bins */
#undef MB_TOTAL
	uint64_t unattributed_packets, unattributed_bytes; /* in bins, but without a sender */
	uint64_t late, late_bytes;           /* in no bin, including misdated packets */
	uint64_t unparsed, merged;
	uint64_t squeezed;                   /* merged frames spread over less time than they took */
	uint64_t foreign;                    /* unicast Ethernet, but neither from nor to the local addresses */
	int64_t first_ns, last_ns;           /* smallest and largest stamp in bins, once packets > 0;
			                      * the start of a frame's transmission, if it is spread */
	uint32_t epochs;
};

struct mb_bin {
#define MB_FIELD(name, type, ...) type name;
	MB_BIN_COUNTERS(MB_FIELD)
#undef MB_FIELD
};

struct mb_lane {
	/* Members that every packet uses. */
	int64_t newest_ns;      /* the newest stamp of this epoch */
	struct mb_bin *newest;  /* the bin that holds it, or NULL before the first packet */
	struct mb_senders *newest_senders;
	int64_t newest_end;     /* the earlier end of these two, or of the time in which a clock was not set */
	struct mb_span bin_span, sender_span;
	uint32_t n_pending;     /* late packets that may be a step of the clock */
	const struct mb_bins_options *options;
	struct mb_sequences *sequences;
	struct mb_bin *bins;        /* rings of open bins */
	struct mb_senders *senders;
	struct mb_busy busy;        /* selects the senders to keep */
	int16_t index;
	uint16_t epoch;
	bool stepped;           /* the next bin is the first of an epoch */
	uint32_t clock;         /* calls of mb_lane_step() */
	int64_t advanced_ns;    /* the time to which the lane moved on without a packet (INT64_MIN: not in this
				 * epoch), … */
	uint64_t advanced_packets; /* … and the packets that the newest bin had then */
	struct mb_packet *pending;
	struct mb_drop_spans drop_spans;
	struct mb_lane_totals totals;
	struct mb_table **bin_rows, **sender_rows; /* tables for closed bins; owned by the engine */
};

/* Append bin NUMBER of LANE to ROWS, which must have room for it; and add it to the totals of its lane (bin_rows.c). */
void mb_bin_append(struct mb_table *rows, const struct mb_lane *lane, int64_t number, const struct mb_bin *bin);
void mb_lane_totals_add(struct mb_lane_totals *totals, const struct mb_bin *bin);

/* How long bins stay open behind the newest stamp: for the window, and if merged frames are spread, for as long as the
 * largest one takes in addition, but at most for MB_SPREAD_BINS. */
int64_t mb_bins_open_ns(const struct mb_bins_options *options);

/* BUSY determines which senders get rows. ROWS and what they point to must outlive the lane. Returns 0 or -ENOMEM. */
int mb_lane_init(struct mb_lane *lane, int16_t index, const struct mb_bins_options *options,
		 const struct mb_busy_rule *busy, struct mb_senders_limits *limits, struct mb_sequences *sequences,
		 struct mb_table **bin_rows, struct mb_table **sender_rows);
void mb_lane_deinit(struct mb_lane *lane);

/* Count a packet of this lane. Returns 0, -ENOMEM, or -ERANGE if its stamp is not a date: mb_lane_misdate() must then
 * count it. */
int mb_lane_add(struct mb_lane *lane, const struct mb_packet *packet);

/* Move the newest bins of both widths to hold TS_NS, for a caller that adds to them itself. Returns 0, -ENOMEM, or
 * -ERANGE if the lane is past TS_NS or it is not a date. */
int mb_lane_reach(struct mb_lane *lane, int64_t ts_ns);

/* Spread the bytes of a merged frame, which the bin of its stamp has counted, over the bins in which they crossed the
 * wire: they end at the stamp, at line rate (spread_bps). The frame itself stays in the bin of its stamp. If it took
 * longer than bins are open, it is spread over those, and counted as squeezed. */
void mb_lane_spread(struct mb_lane *lane, const struct mb_packet *packet);

/* Count a packet that belongs in no bin. */
void mb_lane_misdate(struct mb_lane *lane, const struct mb_packet *packet);

/* Count all packets of a train at once; its first packet is LEADER, and it has several. Returns 1; 0 if the packets do
 * not continue those counted before, in time or sequence, or if their stamps are not dates or begin an epoch: they must
 * be added one by one; or -ENOMEM. */
int mb_lane_add_train(struct mb_lane *lane, const struct mb_packet *leader, const struct mb_train *train);

/* Prefetch the entries for LEADER's flow before it is added. */
static inline void mb_lane_prefetch(const struct mb_lane *lane, const struct mb_packet *leader)
{
	if (lane->newest)
		mb_senders_prefetch(lane->newest_senders, leader);
	mb_sequences_prefetch(lane->sequences, leader, lane->index);
}

/* The clock was set: close all bins; the next packet begins a new epoch. Drops that were marked before are of the old
 * clock: if the stamps go back, they are forgotten. Returns 0 or -ENOMEM. */
int mb_lane_step(struct mb_lane *lane);

/* Packets of this lane may have been lost in FIRST_NS … LAST_NS: mark the bins of that time, open and future ones, as
 * having drops. Bins of that time without a packet become rows, too, up to MB_DROP_BINS in a row. */
void mb_lane_mark_drops(struct mb_lane *lane, int64_t first_ns, int64_t last_ns);

/* Take over the drops that another lane of the same interface knows of. */
void mb_lane_take_drops(struct mb_lane *lane, const struct mb_lane *other);

/* Close every bin that no packet newer than NOW_NS minus the window can change: for a backend that is silent. Returns 0
 * or -ENOMEM. */
int mb_lane_advance(struct mb_lane *lane, int64_t now_ns);

/* Close all bins at the end of the capture. Returns 0 or -ENOMEM. */
int mb_lane_finish(struct mb_lane *lane);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The invariant: feeding the engine frame by frame gives the same tables. Trains only serve speed. A capture with the
 * environment variable MBURST_TRAINS=off has none, to find out whether a fault is in them;
 * tests/capture/test_trains_off.py verifies that the tables are the same with and without trains,
 * tests/capture/test_trains.py compares each train with the decoder.
 *
 * Senders send the segments of a flow one after the other, and they mostly arrive in that order. A train is a run of
 * frames whose headers are the same except for lengths, sequence numbers and congestion marks. Only the first frame,
 * the leader, is decoded; the headers of the others are compared with its headers.
 */
#ifndef MB_TRAINS_H
#define MB_TRAINS_H

#include <stdbool.h>
#include <stdint.h>

#include "decode/decode.h"
#include "frame_view.h"
#include "measure/senders.h"
#include "measure/span.h"

/* Frames of one flow, in order of time; in TCP, each begins where the previous one ended. Any single frame is a train;
 * in a train of several, each is one frame on the wire. */
struct mb_train {
	const void *at, *end; /* in the view that was divided */
	uint32_t count;
	/* The following members are valid only for trains of several frames. */
	uint32_t tcp_end; /* the sequence number behind the last frame */
	uint64_t bytes;   /* L2 bytes without FCS of all frames */
	const struct mb_subtotal *subtotals; /* the packets in each cell */
	uint32_t n_subtotals;
};

#define MB_ALIKE_BLOCK 16
#define MB_ALIKE_BLOCKS 5

/* A vector, if the processor has vectors. */
typedef uint64_t mb_block __attribute__((vector_size(MB_ALIKE_BLOCK)));

/* Bits of a frame's headers to compare, in blocks of the frame: some from its first byte on, and one at the end of the
 * compared bytes. */
struct mb_alike {
	union {
		mb_block bits;
		uint8_t bytes[MB_ALIKE_BLOCK];
	} blocks[MB_ALIKE_BLOCKS];
};

/* The time around the latest frame within which no bin ends. */
struct mb_cell {
	int64_t width_ns; /* the largest that divides both widths of bins */
	int64_t begin_ns, end_ns;
};

/* Move the cell to hold TS_NS. Mostly it or the next one already does: then no division is needed. Stamps that are not
 * sane may wrap around: the code that counts them refuses them. */
static inline void mb_cell_move(struct mb_cell *cell, int64_t ts_ns)
{
	uint64_t width = (uint64_t)cell->width_ns, begin = (uint64_t)cell->begin_ns;
	uint64_t past = (uint64_t)ts_ns - begin;

	if (past < width)
		return;
	if (__builtin_expect(past >= 2 * width, 0))
		begin = (uint64_t)mb_floor_div(ts_ns, cell->width_ns) * width;
	else
		begin += width;
	cell->begin_ns = (int64_t)begin;
	cell->end_ns = (int64_t)(begin + width);
}

/* The transports that form trains. */
enum mb_transport {
	MB_TRANSPORT_TCP,
	MB_TRANSPORT_UDP,
	MB_TRANSPORT_ROCE, /* UDP whose first byte is an opcode */
	MB_TRANSPORTS,
};

#define MB_TRAINS MB_BATCH_FRAMES
#define MB_SUBTOTALS (2 * MB_TRAINS)

struct mb_trains {
	uint32_t count, n_subtotals;
	uint64_t frames, bytes; /* in all trains; bytes with FCS, as the backend counts them */
	struct mb_train trains[MB_TRAINS];
	struct mb_packet leaders[MB_TRAINS]; /* the first frame of each train, decoded */
	struct mb_frame leader_frames[MB_TRAINS];
	struct mb_subtotal subtotals[MB_SUBTOTALS];
	struct mb_cell cell;
	struct mb_alike alike[2][2][MB_TRANSPORTS]; /* tagged, IPv6, transport: the bits that determine sender, flow,
						     * direction and MB_MARK_CNP … */
	struct mb_alike same[2][2][MB_TRANSPORTS];  /* … and the length of the packet and MB_MARK_CE */
	bool off; /* every frame is a train of its own: the slow path to the same tables */
};

/* A subtotal belongs to one bin of each width; widths are at least 1 ns. */
void mb_trains_init(struct mb_trains *trains, int64_t bin_ns, int64_t source_bin_ns);

/* Divide into trains the frames at the front of VIEW that come from the same INTERFACE as the first, and take them off
 * it, as many as there is room for. mb_decode() would give every packet of a train the values of its first frame,
 * except for stamp, lengths, sequence number and MB_MARK_CE. The frames must outlive the trains. */
void mb_trains_decode(struct mb_trains *trains, struct mb_frame_view *view, const struct mb_interface *interface,
		      const struct mb_decode_options *options);

#endif

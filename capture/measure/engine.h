/* SPDX-License-Identifier: Apache-2.0
 *
 * The complete path of a capture: frames from a backend are decoded, divided by interface and direction, and counted
 * into bins; tables come out.
 */
#ifndef MB_ENGINE_H
#define MB_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "arrow/table.h"
#include "backend/backend.h"
#include "backend/drop_queue.h"
#include "decode/decode.h"
#include "error.h"
#include "keep/keeper.h"
#include "measure/bins.h"
#include "measure/direction.h"
#include "measure/infer.h"
#include "measure/trains.h"

#define MB_LANES 1024

/* Directions that become lanes: a bit set of 1 << enum mb_direction. UNKNOWN is the lane of a mirror port, which has no
 * direction, and is always on. */
#define MB_LANE_IN (1u << MB_DIRECTION_IN)
#define MB_LANE_OUT (1u << MB_DIRECTION_OUT)

struct mb_engine_options {
	struct mb_bins_options bins;
	struct mb_decode_options decode;
	bool infer_mtu;         /* infer decode.mtu from the first frames; for an interface, use its MTU */
	uint32_t directions;    /* MB_LANE_IN | MB_LANE_OUT */
	uint32_t max_sources;   /* rows of their own for senders in a bin */
	uint64_t sources_above_ppb; /* keep senders only near bins with this share of the link speed; 0: all */
	uint64_t link_bps;      /* 0: the speed that each interface states */
	uint32_t n_locals;      /* 0: infer this host's address if the backend does not report directions */
	struct mb_address locals[MB_LOCALS];
};

/* Clocks of a live backend. */
struct mb_live_clock {
	int64_t newest_ns, newest_read_ns; /* the newest stamp, and CLOCK_MONOTONIC when it was read */
	int64_t ahead_ns;                  /* CLOCK_REALTIME minus CLOCK_MONOTONIC_RAW, … */
	int64_t checked_ns;                /* … read at this time of the latter */
	struct mb_drop_queue losses;       /* reported since then */
	int64_t stepped_ns;                /* when the last step was noticed, in the time of checked_ns, … */
	int64_t step_end_ns, step_new_ns;  /* … by the old clock and the new one; equal: there was none */
	int64_t step_first_ns;             /* the earliest time of the new clock */
	bool started;
};

/* The interface whose MTU the engine follows. */
struct mb_live_mtu {
	uint32_t index;  /* 0: none */
	uint32_t header; /* bytes of its link layer */
	int fd;          /* a socket of its network namespace */
};

struct mb_engine_lane {
	uint16_t interface;
	uint8_t direction; /* enum mb_direction; UNKNOWN is a mirror port */
	struct mb_lane lane;
};

struct mb_engine {
	struct mb_engine_options options;
	struct mb_backend *backend;
	struct mb_keeper *keeper; /* owned by the caller; NULL: packets are not kept */
	struct mb_senders_limits limits;
	struct mb_sequences *sequences;
	struct mb_inference inference;
	struct mb_locals locals;
	struct mb_live_clock clock;
	struct mb_live_mtu mtu;
	struct mb_drop_queue losses; /* of a live backend, marked in bins and not yet taken by the caller */
	struct mb_table *bin_rows, *sender_rows;
	uint32_t uncounted; /* counters of bins that the backend does not count: bits of enum mb_bin_column */
	struct mb_engine_lane **lanes;
	uint32_t n_lanes;
	uint16_t *numbers; /* number of a lane, plus 1, by interface and direction; 0: there is none */
	uint32_t n_numbered; /* interfaces in it */
	uint64_t excluded_packets, excluded_bytes; /* frames of directions that were not requested */
	uint64_t foreign_packets; /* unicast Ethernet, but neither from nor to the local addresses */
	uint64_t ethernet_packets;
	uint64_t packets; /* counted or excluded packets */
	struct mb_dates dates;
	/* The first frames, held back until the inference is complete. */
	struct mb_frame *lookahead;
	uint8_t *lookahead_bytes;
	uint32_t n_lookahead, next_lookahead;
	int lookahead_end;           /* the result of read() after these frames */
	size_t lookahead_used;       /* bytes in lookahead_bytes … */
	size_t lookahead_room;       /* … and their limit */
	int64_t silent_ns;      /* how long nothing arrived before it was complete */
	bool lookahead_done;
	bool finished;
	struct mb_error failure; /* why the backend ended early */
	int failed;
	int (*run)(struct mb_engine *engine); /* the next batch, depending on the backend; like mb_backend_ops.read */
	struct mb_counts *counts; /* of a backend that counts by itself */
	struct mb_batch batch;
	struct mb_trains trains;
};

/* BACKEND remains the caller's and must outlive the engine. Returns NULL if memory is out. */
struct mb_engine *mb_engine_create(const struct mb_engine_options *options, struct mb_backend *backend);
void mb_engine_destroy(struct mb_engine *engine);

/* The lane of INTERFACE and DIRECTION, created if it is new. Returns NULL with ERROR filled on failure. */
struct mb_engine_lane *mb_engine_find_lane(struct mb_engine *engine, uint16_t interface, uint8_t direction,
					   struct mb_error *error);

/* Count the frames of the batch. Returns 0, or a negative errno with ENGINE->failure filled. */
int mb_engine_count_batch(struct mb_engine *engine);

/* Decode a FRAME that the engine counts or has handed out, including its direction. */
void mb_engine_decode(const struct mb_engine *engine, const struct mb_frame *frame, struct mb_packet *packet);

/* Instead of counting, fill engine->batch with the next frames of a file. Returns their number; 0 if more will come; or
 * as mb_backend_ops.read. */
int mb_engine_next(struct mb_engine *engine, struct mb_error *error);

/* Work for at most BATCHES batches, or a tenth of a second, so that the caller notices a stop, or until a table holds
 * about 64 Ki rows. Returns 1 if there is more; 0 if the capture is over and every bin is closed; or a negative errno
 * with ERROR filled if the input is damaged, after every row of the frames before the fault was handed out. */
int mb_engine_run(struct mb_engine *engine, uint32_t batches, struct mb_error *error);

/* Take the rows made so far; the caller releases them. Returns 0 or -ENOMEM. */
int mb_engine_take(struct mb_engine *engine, struct mb_table **bin_rows, struct mb_table **sender_rows);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"
#include "clock.h"
#include "linktype.h"
#include "measure/counted.h"
#include "measure/live.h"
#include "measure/lookahead.h"

#define TURN_NS 100000000        /* the longest that run() takes */
#define ROWS 65536               /* the number of rows at which run() returns */
#define SENDERS_ALL_BINS 262144  /* room in all open bins together: 64 B and two slots for each */
#define FLOWS_ALL_BINS 1048576   /* 16 B each */
#define DIRECTIONS 3 /* enum mb_direction */

static int run_file(struct mb_engine *engine);

static bool has_no_trains(void)
{
	const char *word = getenv("MBURST_TRAINS");

	return word && !strcmp(word, "off");
}

static struct mb_table *make_bin_rows(const struct mb_engine *engine)
{
	struct mb_table *rows = mb_table_create(mb_bin_columns, MB_BIN_COLUMNS, &engine->limits.seed);

	if (rows)
		rows->nulls = engine->uncounted;
	return rows;
}

struct mb_engine *mb_engine_create(const struct mb_engine_options *options, struct mb_backend *backend)
{
	struct mb_engine *engine = calloc(1, sizeof(*engine));

	if (!engine)
		return NULL;
	engine->options = *options;
	if (backend->live)
		engine->options.bins.least_open_ns = MB_LOSS_DELAY_NS;
	engine->backend = backend;
	mb_trains_init(&engine->trains, options->bins.bin_ns, options->bins.source_bin_ns);
	engine->trains.off = has_no_trains();
	mb_locals_init(&engine->locals, options->locals, options->n_locals);
	engine->limits.max_rows = options->max_sources;
	engine->limits.senders_left = SENDERS_ALL_BINS;
	engine->limits.flows_left = FLOWS_ALL_BINS;
	mb_seed_init(&engine->limits.seed);
	engine->options.decode.seed = engine->limits.seed;
	engine->uncounted = backend->ops->read_counts ? MB_UNCOUNTED : 0;
	engine->run = backend->ops->read_counts ? mb_counted_run : backend->live ? mb_live_run : run_file;
	engine->sequences = calloc(1, sizeof(*engine->sequences));
	engine->bin_rows = make_bin_rows(engine);
	engine->sender_rows = mb_table_create(mb_sender_columns, MB_SENDER_COLUMNS, &engine->limits.seed);
	if (!engine->sequences || !engine->bin_rows || !engine->sender_rows) {
		mb_engine_destroy(engine);
		return NULL;
	}
	if (backend->live)
		mb_live_begin(engine);
	return engine;
}

void mb_engine_destroy(struct mb_engine *engine)
{
	if (!engine)
		return;
	for (uint32_t i = 0; i < engine->n_lanes; i++) {
		if (engine->lanes[i])
			mb_lane_deinit(&engine->lanes[i]->lane);
		free(engine->lanes[i]);
	}
	mb_live_end(engine);
	free(engine->lanes);
	free(engine->numbers);
	free(engine->sequences);
	free(engine->counts);
	mb_table_release(engine->bin_rows);
	mb_table_release(engine->sender_rows);
	mb_lookahead_drop(engine);
	free(engine);
}

/* The next batch: the lookahead's frames first. Like mb_backend_read(). */
static int next_batch(struct mb_engine *engine)
{
	uint32_t left = engine->n_lookahead - engine->next_lookahead;

	if (left) {
		engine->batch.count = left < MB_BATCH_FRAMES ? left : MB_BATCH_FRAMES;
		memcpy(engine->batch.frames, engine->lookahead + engine->next_lookahead,
		       engine->batch.count * sizeof(*engine->lookahead));
		engine->next_lookahead += engine->batch.count;
		return (int)engine->batch.count;
	}
	if (engine->lookahead_end < 0)
		return engine->lookahead_end;
	if (engine->lookahead)
		mb_lookahead_drop(engine);
	return mb_backend_read(engine->backend, &engine->batch, MB_READ_TIMEOUT_MS, &engine->failure);
}

/* Which rows of senders a lane keeps: all if the speed of its link is unknown. */
static struct mb_busy_rule busy_rule(const struct mb_engine *engine, uint16_t interface, uint8_t direction)
{
	const struct mb_engine_options *options = &engine->options;
	size_t n_interfaces;
	uint64_t link_bps = options->link_bps;

	if (!link_bps)
		link_bps = mb_backend_interfaces(engine->backend, &n_interfaces)[interface].link_bps;
	return (struct mb_busy_rule){
		.least_bytes = mb_busy_least_bytes(options->sources_above_ppb, options->bins.bin_ns, link_bps),
		.least_flows = direction == MB_DIRECTION_OUT ? MB_FAN_OUT_FLOWS : UINT32_MAX,
		.bin_ns = options->bins.bin_ns,
		.source_bin_ns = options->bins.source_bin_ns,
	};
}

static int add_lane(struct mb_engine *engine, uint16_t interface, uint8_t direction)
{
	struct mb_engine_lane **lanes = realloc(engine->lanes, (engine->n_lanes + 1) * sizeof(*engine->lanes));
	const struct mb_busy_rule busy = busy_rule(engine, interface, direction);
	struct mb_engine_lane *lane;

	if (!lanes)
		return -ENOMEM;
	engine->lanes = lanes;
	lane = calloc(1, sizeof(*lane));
	if (!lane)
		return -ENOMEM;
	lane->interface = interface;
	lane->direction = direction;
	if (mb_lane_init(&lane->lane, (int16_t)engine->n_lanes, &engine->options.bins, &busy, &engine->limits,
			 engine->sequences, &engine->bin_rows, &engine->sender_rows)) {
		free(lane);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < engine->n_lanes; i++)
		mb_lane_take_drops(&lane->lane, &engine->lanes[i]->lane);
	engine->lanes[engine->n_lanes++] = lane;
	return 0;
}

/* The entry that holds the number of the lane of INTERFACE and DIRECTION. NULL if memory is out. */
static uint16_t *number_of_lane(struct mb_engine *engine, uint16_t interface, uint8_t direction)
{
	uint32_t count = engine->n_numbered;

	if (interface >= count) {
		uint32_t more = 2 * (interface + 1u);
		uint16_t *numbers = realloc(engine->numbers, more * DIRECTIONS * sizeof(*numbers));

		if (!numbers)
			return NULL;
		memset(numbers + count * DIRECTIONS, 0, (more - count) * DIRECTIONS * sizeof(*numbers));
		engine->numbers = numbers;
		engine->n_numbered = more;
	}
	return &engine->numbers[interface * DIRECTIONS + direction];
}

struct mb_engine_lane *mb_engine_find_lane(struct mb_engine *engine, uint16_t interface, uint8_t direction,
					   struct mb_error *error)
{
	uint16_t *number = number_of_lane(engine, interface, direction);

	if (!number) {
		mb_fail(error, ENOMEM, "out of memory");
		return NULL;
	}
	if (*number)
		return engine->lanes[*number - 1];
	if (engine->n_lanes == MB_LANES) {
		mb_fail(error, E2BIG, "more than %d interfaces and directions in one capture", MB_LANES);
		return NULL;
	}
	if (add_lane(engine, interface, direction)) {
		mb_fail(error, ENOMEM, "out of memory");
		return NULL;
	}
	*number = (uint16_t)engine->n_lanes;
	return engine->lanes[engine->n_lanes - 1];
}

/* Fill in the fields of a leader that the decoder cannot know: direction and quality. Returns whether it is foreign. */
static inline bool complete_leader(const struct mb_engine *engine, const struct mb_interface *interface,
				   const struct mb_frame *frame, struct mb_packet *leader)
{
	bool is_foreign;

	leader->direction = mb_direction_of(&engine->locals, frame, leader, interface->linktype == MB_LINKTYPE_ETHERNET,
					    &is_foreign);
	leader->quality = (uint16_t)(interface->quality | frame->quality);
	if (leader->marks & (MB_MARK_MERGED | MB_MARK_TRUNCATED))
		leader->quality |= (leader->marks & MB_MARK_MERGED ? MB_QUALITY_GRO : 0) |
				   (leader->marks & MB_MARK_TRUNCATED ? MB_QUALITY_TRUNCATED : 0);
	return is_foreign && !mb_locals_may_receive(&engine->locals, frame, interface, &engine->options.decode);
}

/* Count TRAIN's packets as stamped by a clock that was not set, unless their stamps are not dates at all. */
static void note_unset(struct mb_engine *engine, struct mb_packet *leader, const struct mb_train *train)
{
	if (!mb_date_is_sane(leader->ts_ns))
		return;
	leader->quality |= MB_QUALITY_UNSYNCED;
	engine->dates.unset += train->count;
}

static void exclude(struct mb_engine *engine, const struct mb_packet *leader, const struct mb_train *train)
{
	engine->excluded_packets += train->count;
	engine->excluded_bytes += train->count == 1 ? leader->bytes : train->bytes;
}

/* Complete the leaders, and find the lanes of their interface by direction, for those directions that occur; NULL for
 * directions that were not requested. Prefetches the entries for the flows of the leaders. */
static int find_lanes(struct mb_engine *engine, const struct mb_interface *interface, uint16_t number,
		      struct mb_lane *lanes[DIRECTIONS], struct mb_error *error)
{
	struct mb_trains *trains = &engine->trains;

	for (uint32_t i = 0; i < trains->count; i++) {
		struct mb_packet *leader = &trains->leaders[i];
		const bool is_foreign = complete_leader(engine, interface, &trains->leader_frames[i], leader);
		const uint32_t foreign = is_foreign ? trains->trains[i].count : 0;
		const uint8_t side = leader->direction;

		engine->foreign_packets += foreign;
		if (!lanes[side]) {
			struct mb_engine_lane *lane;

			if (side != MB_DIRECTION_UNKNOWN && !(engine->options.directions & 1u << side))
				continue;
			lane = mb_engine_find_lane(engine, number, side, error);
			if (!lane)
				return -ENOMEM;
			lanes[side] = &lane->lane;
		}
		lanes[side]->totals.foreign += foreign;
		if (__builtin_expect(mb_date_is_unset(leader->ts_ns), 0))
			note_unset(engine, leader, &trains->trains[i]);
		mb_lane_prefetch(lanes[side], leader);
	}
	return 0;
}

/* Count the packet with number INDEX among those that the engine has not counted yet. */
static int add_packet(struct mb_engine *engine, struct mb_lane *lane, const struct mb_packet *packet, uint32_t index)
{
	int code = mb_lane_add(lane, packet);

	if (code != -ERANGE)
		return code;
	mb_lane_misdate(lane, packet);
	mb_dates_miss(&engine->dates, engine->packets + index + 1, packet->ts_ns);
	return 0;
}

/* Add the packets of a train one by one, because its lane could not take them at once. */
static int add_apart(struct mb_engine *engine, struct mb_lane *lane, const struct mb_packet *leader,
		     const struct mb_train *train, enum mb_layout layout, const struct mb_interface *interface)
{
	const uint8_t *at = train->at;
	int code = 0;

	for (uint32_t i = 0; at < (const uint8_t *)train->end && !code; i++) {
		struct mb_frame frame = mb_view_frame(layout, at);
		struct mb_packet packet;

		mb_decode(&frame, 1, interface, &engine->options.decode, &packet);
		packet.direction = leader->direction;
		packet.quality = leader->quality;
		code = add_packet(engine, lane, &packet, i);
		at += mb_view_stride(layout, frame.caplen);
	}
	return code;
}

static int add_train(struct mb_engine *engine, struct mb_lane *lane, const struct mb_packet *leader,
		     const struct mb_train *train, enum mb_layout layout, const struct mb_interface *interface)
{
	int code;

	if (train->count == 1)
		return add_packet(engine, lane, leader, 0);
	code = mb_lane_add_train(lane, leader, train);
	return code > 0 ? 0 : code ? code : add_apart(engine, lane, leader, train, layout, interface);
}

/* Count frames of one interface at the front of VIEW, at least one, and take them off it. Returns 0 or a negative
 * errno. */
static int count_frames(struct mb_engine *engine, struct mb_frame_view *view, struct mb_error *error)
{
	const uint16_t number = mb_view_frame(view->layout, view->at).interface;
	const struct mb_interface *interface;
	struct mb_lane *lanes[DIRECTIONS] = { NULL }; /* index: enum mb_direction */
	struct mb_trains *trains = &engine->trains;
	size_t n_interfaces;

	interface = &mb_backend_interfaces(engine->backend, &n_interfaces)[number];
	mb_trains_decode(trains, view, interface, &engine->options.decode);
	engine->ethernet_packets += interface->linktype == MB_LINKTYPE_ETHERNET ? trains->frames : 0;
	if (find_lanes(engine, interface, number, lanes, error))
		return -ENOMEM;
	for (uint32_t i = 0; i < trains->count; i++) {
		const struct mb_packet *leader = &trains->leaders[i];
		struct mb_lane *lane = lanes[leader->direction];

		if (!lane)
			exclude(engine, leader, &trains->trains[i]);
		else if (add_train(engine, lane, leader, &trains->trains[i], view->layout, interface))
			return mb_fail(error, ENOMEM, "out of memory");
		engine->packets += trains->trains[i].count;
	}
	return 0;
}

int mb_engine_count_batch(struct mb_engine *engine)
{
	struct mb_frame_view view = mb_view_of(engine->batch.frames, engine->batch.count);
	int code = 0;

	while (view.at < view.end && !code)
		code = count_frames(engine, &view, &engine->failure);
	return code;
}

void mb_engine_decode(const struct mb_engine *engine, const struct mb_frame *frame, struct mb_packet *packet)
{
	size_t n_interfaces;
	const struct mb_interface *interface = &mb_backend_interfaces(engine->backend, &n_interfaces)[frame->interface];
	bool is_foreign;

	mb_decode(frame, 1, interface, &engine->options.decode, packet);
	packet->direction = mb_direction_of(&engine->locals, frame, packet, interface->linktype == MB_LINKTYPE_ETHERNET,
					    &is_foreign);
}

/* Count frames in the memory of the backend. Returns 1; 0 if they must be read; or a negative errno. */
static int count_in_place(struct mb_engine *engine)
{
	struct mb_frame_view view;
	int code;

	if (engine->lookahead || engine->lookahead_end < 0 || !mb_backend_look(engine->backend, &view))
		return 0;
	code = count_frames(engine, &view, &engine->failure);
	mb_backend_take(engine->backend, &view, engine->trains.frames, engine->trains.bytes);
	return code ? code : 1;
}

static int run_file(struct mb_engine *engine)
{
	int n = count_in_place(engine);

	if (n)
		return n;
	n = next_batch(engine);
	return n > 0 && (n = mb_engine_count_batch(engine)) == 0 ? 1 : n;
}

/* An interface on which nothing arrived was recorded nevertheless. */
static int add_silent_lanes(struct mb_engine *engine)
{
	for (uint8_t side = MB_DIRECTION_IN; side <= MB_DIRECTION_OUT; side++)
		if (engine->options.directions & 1u << side && add_lane(engine, 0, side))
			return -ENOMEM;
	return 0;
}

static int finish(struct mb_engine *engine, struct mb_error *error)
{
	engine->finished = true;
	if (engine->keeper)
		mb_keeper_finish(engine->keeper);
	if (engine->backend->live && !engine->n_lanes && add_silent_lanes(engine))
		return mb_fail(error, ENOMEM, "out of memory");
	for (uint32_t i = 0; i < engine->n_lanes; i++)
		if (mb_lane_finish(&engine->lanes[i]->lane))
			return mb_fail(error, ENOMEM, "out of memory");
	return 0;
}

int mb_engine_next(struct mb_engine *engine, struct mb_error *error)
{
	int n = engine->lookahead_done ? 0 : mb_lookahead_read(engine, mb_clock_ns(CLOCK_MONOTONIC) + TURN_NS);

	if (n)
		return n > 0 ? 0 : mb_fail(error, ENOMEM, "out of memory");
	n = next_batch(engine);
	if (n < 0 && n != MB_BACKEND_END)
		*error = engine->failure;
	return n;
}

static bool is_full(const struct mb_engine *engine)
{
	return engine->bin_rows->count >= ROWS || engine->sender_rows->count >= ROWS;
}

int mb_engine_run(struct mb_engine *engine, uint32_t batches, struct mb_error *error)
{
	const bool live = engine->backend->live;
	const int64_t deadline_ns = mb_clock_ns(CLOCK_MONOTONIC) + TURN_NS;

	if (!engine->lookahead_done) {
		int more = mb_lookahead_read(engine, deadline_ns);

		if (more)
			return more > 0 ? 1 : mb_fail(error, ENOMEM, "out of memory");
	}
	for (; batches && !engine->finished && !is_full(engine); batches--) {
		int n = engine->run(engine);

		if (n >= 0 && ((live && n == 0) || mb_clock_ns(CLOCK_MONOTONIC) >= deadline_ns))
			return 1;
		if (n >= 0)
			continue;
		engine->failed = n == MB_BACKEND_END ? 0 : n;
		if (finish(engine, error))
			return -ENOMEM;
	}
	if (!engine->finished || engine->bin_rows->count || engine->sender_rows->count)
		return 1;
	if (engine->failed)
		*error = engine->failure;
	return engine->failed;
}

int mb_engine_take(struct mb_engine *engine, struct mb_table **bin_rows, struct mb_table **sender_rows)
{
	struct mb_table *next_bins = make_bin_rows(engine);
	struct mb_table *next_senders = mb_table_create(mb_sender_columns, MB_SENDER_COLUMNS, &engine->limits.seed);

	if (!next_bins || !next_senders) {
		mb_table_release(next_bins);
		mb_table_release(next_senders);
		return -ENOMEM;
	}
	*bin_rows = engine->bin_rows;
	*sender_rows = engine->sender_rows;
	mb_table_seal(*bin_rows, next_bins);
	mb_table_seal(*sender_rows, next_senders);
	engine->bin_rows = next_bins;
	engine->sender_rows = next_senders;
	return 0;
}

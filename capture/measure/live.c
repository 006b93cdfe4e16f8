/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/live.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backend/device.h"
#include "clock.h"
#include "decode/walk.h"
#include "linktype.h"
#include "measure/lookahead.h"

/* After this much silence no earlier frame can still arrive: several times the longest delay of any backend. */
#define SILENCE_NS 100000000
/* NTP slews by at most 500 ppm; between two batches that is far less. */
#define LEAST_STEP_NS 1000000
#define SHORT_STEP_NS 1000000000

void mb_live_begin(struct mb_engine *engine)
{
	size_t count;
	const struct mb_interface *interfaces = mb_backend_interfaces(engine->backend, &count);
	struct mb_device device;

	if (!engine->options.infer_mtu || !count || mb_device_read(&device, interfaces[0].name, NULL) || !device.mtu)
		return;
	engine->options.infer_mtu = false;
	engine->options.decode.mtu = device.mtu;
	engine->mtu.header = interfaces[0].linktype == MB_LINKTYPE_ETHERNET ? MB_ETHERNET_HEADER : 0;
	engine->mtu.fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	engine->mtu.index = engine->mtu.fd < 0 ? 0 : device.index;
}

void mb_live_end(struct mb_engine *engine)
{
	if (engine->mtu.index)
		close(engine->mtu.fd);
}

void mb_live_follow_mtu(struct mb_engine *engine)
{
	uint32_t mtu = engine->mtu.index ? mb_device_mtu(engine->mtu.fd, engine->mtu.index) : 0;

	if (mtu > engine->options.decode.mtu)
		engine->options.decode.mtu = mtu;
}

/* The same, if a frame of the batch is larger than the MTU and not known to be merged. */
static void check_mtu(struct mb_engine *engine)
{
	const uint32_t largest = engine->options.decode.mtu + engine->mtu.header;

	if (!engine->mtu.index)
		return;
	for (uint32_t i = 0; i < engine->batch.count; i++) {
		const struct mb_frame *frame = &engine->batch.frames[i];

		if (frame->len > largest && !frame->gso_size) {
			mb_live_follow_mtu(engine);
			return;
		}
	}
}

/* Take the losses that the backend reports; before there is a lane, it holds them. */
static void take_losses(struct mb_engine *engine)
{
	struct mb_loss loss;

	while (engine->n_lanes && mb_backend_loss(engine->backend, &loss))
		mb_drop_queue_add(&engine->clock.losses, &loss);
}

static void mark(struct mb_engine *engine, int64_t first_ns, int64_t last_ns)
{
	for (uint32_t i = 0; i < engine->n_lanes; i++)
		mb_lane_mark_drops(&engine->lanes[i]->lane, first_ns, last_ns);
}

/* The later of the times of the new clock at which it may have been set at the earliest, and at which a loss may have
 * begun that extends from BEFORE_NS of the old clock. */
static int64_t begin_in_new_clock(const struct mb_live_clock *clock, int64_t before_ns)
{
	const int64_t begun_ns = before_ns - clock->step_end_ns + clock->step_new_ns;

	return begun_ns > clock->step_first_ns ? begun_ns : clock->step_first_ns;
}

/* Cut LOSS, which was reported after the step of the clock was noticed, to the time of the new clock, if it extends from
 * the old clock's time to that. If the clock was set back, its ends are reversed, and the later one is of the old clock:
 * it is in the future. */
static struct mb_loss after_step(const struct mb_engine *engine, struct mb_loss loss)
{
	const struct mb_live_clock *clock = &engine->clock;
	const int64_t end_ns = clock->step_end_ns, new_ns = clock->step_new_ns;
	const int64_t now_ns = mb_clock_ns(CLOCK_REALTIME);
	int64_t from_ns;

	if (new_ns == end_ns || mb_clock_ns(CLOCK_MONOTONIC_RAW) - clock->stepped_ns > SHORT_STEP_NS)
		return loss;
	if (new_ns < end_ns && loss.first_ns <= now_ns && loss.last_ns > now_ns) {
		from_ns = begin_in_new_clock(clock, loss.last_ns);
		loss.last_ns = loss.first_ns > from_ns ? loss.first_ns : from_ns;
		loss.first_ns = loss.first_ns < from_ns ? loss.first_ns : from_ns;
	} else if (new_ns > end_ns && loss.first_ns <= end_ns && loss.last_ns > end_ns) {
		from_ns = begin_in_new_clock(clock, loss.first_ns);
		loss.first_ns = loss.last_ns < from_ns ? loss.last_ns : from_ns;
	}
	return loss;
}

void mb_live_mark_losses(struct mb_engine *engine)
{
	struct mb_loss loss;

	take_losses(engine);
	while (mb_drop_queue_take(&engine->clock.losses, &loss)) {
		loss = after_step(engine, loss);
		mark(engine, loss.first_ns, loss.last_ns);
		mb_drop_queue_add(&engine->losses, &loss);
	}
}

/* Whether stamps, and so the times of losses, are of the clock whose steps are noticed. */
static bool stamps_by_system_time(const struct mb_engine *engine)
{
	return engine->backend->clock == CLOCK_REALTIME;
}

/* Read one clock between two readings of the other, so that a pause in between does not look like a step. Returns false
 * if there was a pause. */
static bool read_ahead(int64_t *now_ns, int64_t *ahead_ns)
{
	int64_t real, after;

	*now_ns = mb_clock_ns(CLOCK_MONOTONIC_RAW);
	real = mb_clock_ns(CLOCK_REALTIME);
	after = mb_clock_ns(CLOCK_MONOTONIC_RAW);
	*ahead_ns = real - *now_ns;
	return after - *now_ns < LEAST_STEP_NS / 4;
}

/* The clock was set: cut LOSS, which was reported since the last check, to the time before the step, up to END_NS of the
 * old clock, if it extends from there to NEW_NS of the new clock. If the clock was set back, the ends of such a loss are
 * reversed; after a short step it may as well be a loss of the old clock alone, and keeps both. */
static struct mb_loss before_step(struct mb_loss loss, int64_t end_ns, int64_t new_ns)
{
	if (new_ns < end_ns && loss.first_ns <= new_ns && loss.last_ns > new_ns) {
		if (end_ns - loss.first_ns > SHORT_STEP_NS)
			loss.first_ns = loss.last_ns;
		loss.last_ns = loss.last_ns > end_ns ? loss.last_ns : end_ns;
	} else if (new_ns > end_ns && loss.first_ns <= end_ns && loss.last_ns > end_ns) {
		loss.last_ns = end_ns;
	}
	return loss;
}

/* The clock was set between the last check and NOW_NS. Losses that were reported since then may be from before the step
 * or after it: mark the bins of both times, and begin an epoch in between. Losses in the time of another clock, which
 * goes on, are only in that time. */
static int step(struct mb_engine *engine, int64_t now_ns, int64_t ahead_ns)
{
	struct mb_live_clock *clock = &engine->clock;
	const int64_t end_ns = now_ns + clock->ahead_ns, new_ns = now_ns + ahead_ns;
	const bool has_losses = clock->losses.count;
	const bool stamps = stamps_by_system_time(engine);
	struct mb_loss loss;

	while (mb_drop_queue_take(&clock->losses, &loss)) {
		if (stamps)
			loss = before_step(loss, end_ns, new_ns);
		mark(engine, loss.first_ns, stamps && end_ns > loss.last_ns ? end_ns : loss.last_ns);
		mb_drop_queue_add(&engine->losses, &loss);
	}
	for (uint32_t i = 0; i < engine->n_lanes; i++)
		if (mb_lane_step(&engine->lanes[i]->lane))
			return -ENOMEM;
	if (has_losses && stamps)
		mark(engine, clock->checked_ns + ahead_ns, new_ns);
	if (stamps) {
		clock->stepped_ns = now_ns;
		clock->step_first_ns = clock->checked_ns + ahead_ns;
		clock->step_end_ns = end_ns;
		clock->step_new_ns = new_ns;
	}
	return 0;
}

/* Mark the bins of the losses that the backend reports, and begin an epoch if the system clock was set since the last
 * call, that is, if it moved against CLOCK_MONOTONIC_RAW by more than a bin, and by more than NTP may slew it. Call it
 * between reading a batch and counting it: frames of that batch from before the step go into the new epoch, but no bin
 * has frames from before and after it, unless the clock was set back by less than the time for reading a batch. Returns
 * 0 or -ENOMEM. */
static int check_clock(struct mb_engine *engine)
{
	struct mb_live_clock *clock = &engine->clock;
	int64_t least = engine->options.bins.bin_ns, now_ns, ahead_ns, moved;

	if (least < LEAST_STEP_NS)
		least = LEAST_STEP_NS;
	take_losses(engine);
	if (!read_ahead(&now_ns, &ahead_ns)) {
		for (uint32_t i = 0; i < clock->losses.count; i++) {
			const struct mb_loss loss = after_step(engine, *mb_drop_queue_at(&clock->losses, i));

			mark(engine, loss.first_ns, loss.last_ns); /* the next check may show that there was a step */
		}
		return 0;
	}
	moved = ahead_ns - clock->ahead_ns;
	if (!clock->started || (moved <= least && moved >= -least))
		mb_live_mark_losses(engine);
	else if (step(engine, now_ns, ahead_ns))
		return -ENOMEM;
	clock->ahead_ns = ahead_ns;
	clock->checked_ns = now_ns;
	clock->started = true;
	return 0;
}

/* The time before which no further frame can come: silence means that time passes. Valid after the first frame. */
static int64_t passed_ns(const struct mb_engine *engine)
{
	const struct mb_live_clock *clock = &engine->clock;
	const int64_t passed = mb_clock_ns(CLOCK_MONOTONIC) - clock->newest_read_ns;

	return clock->newest_ns + (passed > SILENCE_NS ? passed - SILENCE_NS : 0);
}

/* Let time pass in every lane, whether frames came in the other direction or not at all: close the bins that it leaves
 * behind. Call it after a batch, which may be empty, is counted. Returns 0 or -ENOMEM. */
static int pass_time(struct mb_engine *engine)
{
	struct mb_live_clock *clock = &engine->clock;
	int64_t now_ns;

	if (engine->batch.count && mb_date_is_sane(engine->batch.frames[engine->batch.count - 1].ts_ns)) {
		clock->newest_ns = engine->batch.frames[engine->batch.count - 1].ts_ns;
		clock->newest_read_ns = mb_clock_ns(CLOCK_MONOTONIC);
	}
	now_ns = passed_ns(engine);
	for (uint32_t i = 0; i < engine->n_lanes; i++)
		if (mb_lane_advance(&engine->lanes[i]->lane, now_ns))
			return -ENOMEM;
	return 0;
}

/* Keep the packets of the batch, with the direction in which they are counted. */
static void keep_batch(struct mb_engine *engine)
{
	for (uint32_t i = 0; i < engine->batch.count; i++) {
		struct mb_frame *frame = &engine->batch.frames[i];
		struct mb_packet packet;

		if (frame->direction != MB_DIRECTION_UNKNOWN)
			continue;
		mb_engine_decode(engine, frame, &packet);
		frame->direction = packet.direction;
	}
	mb_keeper_add(engine->keeper, engine->batch.frames, engine->batch.count);
}

int mb_live_run(struct mb_engine *engine)
{
	const bool is_first = !engine->n_lanes;
	int n = mb_backend_read(engine->backend, &engine->batch, MB_READ_TIMEOUT_MS, &engine->failure);

	if (n < 0) {
		mb_live_mark_losses(engine);
		return n;
	}
	engine->batch.count = (uint32_t)n;
	if (check_clock(engine))
		return mb_fail(&engine->failure, ENOMEM, "out of memory");
	if (n > 0) {
		int code;

		check_mtu(engine);
		code = mb_engine_count_batch(engine);
		if (code)
			return code;
		if (engine->keeper)
			keep_batch(engine);
		if (is_first)
			mb_live_mark_losses(engine); /* earlier losses wait for a lane */
	}
	if (pass_time(engine))
		return mb_fail(&engine->failure, ENOMEM, "out of memory");
	if (engine->keeper && engine->clock.newest_ns)
		mb_keeper_pass(engine->keeper, passed_ns(engine));
	return n;
}

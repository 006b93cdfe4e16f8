/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/live.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backend/device.h"
#include "clock.h"
#include "decode/walk.h"
#include "linktype.h"

/* After this much silence no earlier frame can still arrive: several times the longest delay of any backend. */
#define SILENCE_NS 100000000
/* NTP slews by at most 500 ppm; between two batches that is far less. */
#define LEAST_STEP_NS 1000000

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

void mb_live_check_mtu(struct mb_engine *engine)
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

	while (engine->n_lanes && mb_backend_loss(engine->backend, &loss)) {
		mb_drop_queue_add(&engine->losses, &loss);
		mb_drop_spans_add(&engine->clock.losses, loss.first_ns, loss.last_ns, 0);
	}
}

static void mark_losses(struct mb_engine *engine)
{
	const struct mb_drop_spans *losses = &engine->clock.losses;

	for (uint32_t i = 0; i < losses->count; i++)
		for (uint32_t j = 0; j < engine->n_lanes; j++)
			mb_lane_mark_drops(&engine->lanes[j]->lane, losses->spans[i].first_ns,
					   losses->spans[i].last_ns);
}

void mb_live_mark_losses(struct mb_engine *engine)
{
	take_losses(engine);
	mark_losses(engine);
	engine->clock.losses.count = 0;
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

/* The clock was set between the last check and NOW_NS: begin an epoch in LANE. A loss reported since then extends from a
 * time of the old clock to one of the new, whichever is earlier; the packets were lost before the step or after it. */
static int step(struct mb_lane *lane, const struct mb_live_clock *clock, int64_t now_ns, int64_t ahead_ns)
{
	const struct mb_drop_spans *losses = &clock->losses;
	const bool is_back = ahead_ns < clock->ahead_ns;

	for (uint32_t i = 0; i < losses->count; i++) {
		const struct mb_drop_span *loss = &losses->spans[i];
		const bool is_reversed = is_back && loss->last_ns > now_ns + ahead_ns;

		mb_lane_mark_drops(lane, is_reversed ? loss->last_ns : loss->first_ns, now_ns + clock->ahead_ns);
	}
	if (mb_lane_step(lane))
		return -ENOMEM;
	if (losses->count)
		mb_lane_mark_drops(lane, clock->checked_ns + ahead_ns, now_ns + ahead_ns);
	return 0;
}

int mb_live_check_clock(struct mb_engine *engine)
{
	struct mb_live_clock *clock = &engine->clock;
	int64_t least = engine->options.bins.bin_ns, now_ns, ahead_ns, moved;

	if (least < LEAST_STEP_NS)
		least = LEAST_STEP_NS;
	take_losses(engine);
	if (!read_ahead(&now_ns, &ahead_ns)) {
		mark_losses(engine);
		return 0;
	}
	moved = ahead_ns - clock->ahead_ns;
	if (!clock->started || (moved <= least && moved >= -least))
		mark_losses(engine);
	else
		for (uint32_t i = 0; i < engine->n_lanes; i++)
			if (step(&engine->lanes[i]->lane, clock, now_ns, ahead_ns))
				return -ENOMEM;
	clock->ahead_ns = ahead_ns;
	clock->checked_ns = now_ns;
	clock->started = true;
	clock->losses.count = 0;
	return 0;
}

int64_t mb_live_passed_ns(const struct mb_engine *engine)
{
	const struct mb_live_clock *clock = &engine->clock;
	const int64_t passed = mb_clock_ns(CLOCK_MONOTONIC) - clock->newest_read_ns;

	return clock->newest_ns + (passed > SILENCE_NS ? passed - SILENCE_NS : 0);
}

int mb_live_pass_time(struct mb_engine *engine)
{
	struct mb_live_clock *clock = &engine->clock;
	int64_t passed_ns;

	if (engine->batch.count && mb_date_is_sane(engine->batch.frames[engine->batch.count - 1].ts_ns)) {
		clock->newest_ns = engine->batch.frames[engine->batch.count - 1].ts_ns;
		clock->newest_read_ns = mb_clock_ns(CLOCK_MONOTONIC);
	}
	passed_ns = mb_live_passed_ns(engine);
	for (uint32_t i = 0; i < engine->n_lanes; i++)
		if (mb_lane_advance(&engine->lanes[i]->lane, passed_ns))
			return -ENOMEM;
	return 0;
}

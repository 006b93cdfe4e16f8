/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/live.h"

#include <errno.h>

#include "clock.h"

/* Of silence, after which nothing from before it is to come: several times what the slowest backend
 * holds frames back. */
#define SILENCE_NS 100000000
/* NTP slews by 500 ppm at most; in the time between two batches that is far less. */
#define LEAST_STEP_NS 1000000

void mb_live_mark_losses(struct mb_engine *engine)
{
	struct mb_loss loss;

	while (engine->n_lanes && mb_backend_loss(engine->backend, &loss)) {
		mb_drop_queue_add(&engine->losses, &loss);
		for (uint32_t i = 0; i < engine->n_lanes; i++)
			mb_lane_mark_drops(&engine->lanes[i]->lane, loss.first_ns, loss.last_ns);
	}
}

/* Read between two readings of the other clock, so that a pause in between does not look like a
 * step. False when there was one. */
static bool read_ahead(int64_t *ahead_ns)
{
	int64_t before = mb_clock_ns(CLOCK_MONOTONIC_RAW);
	int64_t real = mb_clock_ns(CLOCK_REALTIME);
	int64_t after = mb_clock_ns(CLOCK_MONOTONIC_RAW);

	*ahead_ns = real - before;
	return after - before < LEAST_STEP_NS / 4;
}

int mb_live_check_clock(struct mb_engine *engine)
{
	struct mb_live_clock *clock = &engine->clock;
	int64_t least = engine->options.bins.bin_ns, ahead_ns, step;

	if (least < LEAST_STEP_NS)
		least = LEAST_STEP_NS;
	if (!read_ahead(&ahead_ns))
		return 0;
	step = ahead_ns - clock->ahead_ns;
	clock->ahead_ns = ahead_ns;
	if (!clock->started || (step <= least && step >= -least)) {
		clock->started = true;
		return 0;
	}
	for (uint32_t i = 0; i < engine->n_lanes; i++)
		if (mb_lane_step(&engine->lanes[i]->lane))
			return -ENOMEM;
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

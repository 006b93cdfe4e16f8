/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine on a live backend and a clock that this file simulates (linked with
 * --wrap=clock_gettime): a frame of 100 bytes each 100 us, ten a read. Arguments:
 *   READS STEP_AT_READ STEP_NS [LOSS_AT_READ LOSS_FIRST_NS LOSS_LAST_NS] [SILENT_FROM SILENT_TO] [OUT_FROM [LOSSES
 *   [BEHIND_NS]]]
 * System time steps by STEP_NS before read STEP_AT_READ. Read LOSS_AT_READ reports a loss between the
 * two times since the start. Reads from SILENT_FROM to SILENT_TO yield nothing; frames from read
 * OUT_FROM on leave. Prints the rows of bins of 1 ms, a JSON object a line, each with the read after
 * which it was complete; or, if LOSSES is 1, the losses that the engine reports. If BEHIND_NS is not 0, frames are
 * stamped by the clock of an interface, which is behind system time and does not step; losses are in its time.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "measure/engine.h"

#define START_NS INT64_C(1700000000000000000)
#define READ_NS 1000000

static int64_t now_ns, step_ns;
static long reads, arguments[11];

int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	int64_t ns = now_ns + (clock == CLOCK_REALTIME ? START_NS + step_ns : 0);

	now->tv_sec = ns / 1000000000;
	now->tv_nsec = ns % 1000000000;
	return 0;
}

static int fake_read(struct mb_backend *backend, struct mb_batch *batch, int timeout_ms, struct mb_error *error)
{
	static const uint8_t data[60] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 0x88, 0xb5 };

	(void)backend;
	(void)timeout_ms;
	(void)error;
	if (reads == arguments[0])
		return MB_BACKEND_END;
	if (reads++ == arguments[1])
		step_ns = arguments[2];
	batch->count = 0;
	for (int i = 0; i < 10; i++, now_ns += READ_NS / 10) {
		if (reads > arguments[6] && reads <= arguments[7])
			continue;
		batch->frames[batch->count++] = (struct mb_frame){
			.ts_ns = START_NS + (arguments[10] ? -arguments[10] : step_ns) + now_ns,
			.data = data,
			.caplen = sizeof(data),
			.len = 100,
			.direction = arguments[8] && reads > arguments[8] ? MB_DIRECTION_OUT : MB_DIRECTION_IN,
			.quality = MB_QUALITY_SW,
		};
	}
	return (int)batch->count;
}

static const struct mb_interface *fake_interfaces(const struct mb_backend *backend, size_t *count)
{
	static const struct mb_interface interface = { .name = "eth7", .linktype = 1 };

	(void)backend;
	*count = 1;
	return &interface;
}

static bool fake_loss(struct mb_backend *backend, struct mb_loss *loss)
{
	static bool reported;

	(void)backend;
	if (reported || !arguments[3] || reads <= arguments[3])
		return false;
	reported = true;
	*loss = (struct mb_loss){ START_NS + arguments[4], START_NS + arguments[5], 7, false };
	return true;
}

static const struct mb_backend_ops fake = {
	.name = "fake",
	.read = fake_read,
	.interfaces = fake_interfaces,
	.loss = fake_loss,
};

static void print_losses(struct mb_engine *engine)
{
	struct mb_loss loss;

	while (mb_drop_queue_take(&engine->losses, &loss))
		printf("[%" PRId64 ", %" PRId64 ", %" PRIu64 "]\n", loss.first_ns - START_NS, loss.last_ns - START_NS,
		       loss.packets);
}

static void print_rows(struct mb_engine *engine)
{
	struct mb_table *bins, *senders;

	if (mb_engine_take(engine, &bins, &senders))
		exit(1);
	for (size_t i = 0; i < bins->count && !arguments[9]; i++)
		printf("{\"read\": %ld, \"lane\": %d, \"clock_epoch\": %u, \"ts_ns\": %" PRId64
		       ", \"packets\": %u, \"quality\": %u}\n",
		       reads, ((int16_t *)bins->data[0])[i], ((uint16_t *)bins->data[1])[i],
		       ((int64_t *)bins->data[2])[i] - START_NS, ((uint32_t *)bins->data[5])[i],
		       ((uint16_t *)bins->data[8])[i]);
	mb_table_release(bins);
	mb_table_release(senders);
}

int main(int argc, char **argv)
{
	struct mb_engine_options options = {
		.bins = { .bin_ns = 1000000, .source_bin_ns = 1000000, .window_ns = 2000000 },
		.directions = MB_LANE_IN | MB_LANE_OUT,
		.max_sources = 16,
	};
	struct mb_backend backend = { .ops = &fake, .live = true };
	struct mb_error error = { "" };
	struct mb_engine *engine;

	for (int i = 1; i < argc && i < 12; i++)
		arguments[i - 1] = strtol(argv[i], NULL, 0);
	backend.clock = arguments[10] ? CLOCK_TAI : CLOCK_REALTIME; /* any other clock */
	engine = mb_engine_create(&options, &backend);
	while (engine && mb_engine_run(engine, 1, &error) > 0)
		print_rows(engine);
	if (engine && arguments[9])
		print_losses(engine);
	mb_engine_destroy(engine);
	return *error.message ? 1 : 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * One lane of the engine, with bins of 10 ns and a window of 25. Each argument is an event: a packet of 100 bytes
 * (p:STAMP), the passing of time (a:NOW), or a step of the clock (s). Prints the final totals in JSON.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "measure/bins.h"

static int happen(struct mb_lane *lane, const char *what)
{
	struct mb_packet packet = { .bytes = 100, .wire_bytes = 124, .source.family = MB_FAMILY_IPV4 };
	int64_t ns = *what == 's' ? 0 : strtoll(what + 2, NULL, 10);

	switch (*what) {
	case 'a':
		return mb_lane_advance(lane, ns);
	case 's':
		return mb_lane_step(lane);
	default:
		packet.ts_ns = ns;
		return mb_lane_add(lane, &packet);
	}
}

int main(int argc, char **argv)
{
	const struct mb_bins_options options = { .bin_ns = 10, .source_bin_ns = 10, .window_ns = 25 };
	const struct mb_busy_rule busy = { 0 };
	struct mb_senders_limits limits = { .max_rows = 10, .senders_left = 100, .flows_left = 100 };
	struct mb_table *bins = mb_table_create(mb_bin_columns, MB_BIN_COLUMNS, &limits.seed);
	struct mb_table *senders = mb_table_create(mb_sender_columns, MB_SENDER_COLUMNS, &limits.seed);
	struct mb_lane lane;
	int error = mb_lane_init(&lane, 0, &options, &busy, &limits, NULL, &bins, &senders);

	for (int i = 1; i < argc && !error; i++)
		error = happen(&lane, argv[i]);
	if (!error)
		error = mb_lane_finish(&lane);
	printf("{\"error\": %d, \"first_ns\": %" PRId64 ", \"last_ns\": %" PRId64 ", \"packets\": %" PRIu64
	       ", \"late\": %" PRIu64 ", \"epochs\": %" PRIu32 "}\n",
	       error, lane.totals.first_ns, lane.totals.last_ns, lane.totals.packets, lane.totals.late,
	       lane.totals.epochs);
	mb_lane_deinit(&lane);
	mb_table_release(bins);
	mb_table_release(senders);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * One lane of the engine, by default with bins of 10 ns and a window of 25. Each argument is an event: a packet of 100
 * bytes (p:STAMP), a merged frame (m:STAMP:WIRE_BYTES), a loss (l:FIRST:LAST), the passing of time (a:NOW), or a step of
 * the clock (s). Before these, bin=N, window=N, open=N and spread=BPS set the options. Prints the rows of bins, and then
 * the final totals, in JSON.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure/bins.h"

static struct mb_bins_options options = { .bin_ns = 10, .source_bin_ns = 10, .window_ns = 25 };

static int happen(struct mb_lane *lane, const char *what)
{
	struct mb_packet packet = { .bytes = 100, .wire_bytes = 124, .source.family = MB_FAMILY_IPV4 };
	char *more = "";
	int64_t ns = *what == 's' ? 0 : strtoll(what + 2, &more, 10);
	int64_t second = *more ? strtoll(more + 1, NULL, 10) : 0;

	packet.ts_ns = ns;
	switch (*what) {
	case 'a':
		return mb_lane_advance(lane, ns);
	case 's':
		return mb_lane_step(lane);
	case 'l':
		mb_lane_mark_drops(lane, ns, second);
		return 0;
	case 'm':
		packet.marks = MB_MARK_MERGED;
		packet.bytes = (uint32_t)second - 24;
		packet.wire_bytes = (uint32_t)second;
		break;
	}
	return mb_lane_add(lane, &packet);
}

static bool set(const char *argument)
{
	static const struct {
		const char *name;
		int64_t *value;
	} values[] = {
		{ "bin=", &options.bin_ns },
		{ "window=", &options.window_ns },
		{ "open=", &options.least_open_ns },
		{ "spread=", (int64_t *)&options.spread_bps },
	};

	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++)
		if (!strncmp(argument, values[i].name, strlen(values[i].name))) {
			*values[i].value = strtoll(argument + strlen(values[i].name), NULL, 10);
			return true;
		}
	return false;
}

static void print_rows(const struct mb_table *bins)
{
	printf("{\"rows\": [");
	for (size_t i = 0; i < bins->count; i++)
		printf("%s[%u, %" PRId64 ", %" PRId64 ", %" PRId64 ", %u, %u]", i ? ", " : "",
		       ((uint16_t *)bins->data[MB_BIN_clock_epoch])[i], ((int64_t *)bins->data[MB_BIN_ts_ns])[i],
		       ((int64_t *)bins->data[MB_BIN_bytes])[i], ((int64_t *)bins->data[MB_BIN_wire_bytes])[i],
		       ((uint32_t *)bins->data[MB_BIN_packets])[i], ((uint16_t *)bins->data[MB_BIN_quality])[i]);
}

int main(int argc, char **argv)
{
	const struct mb_busy_rule busy = { 0 };
	struct mb_senders_limits limits = { .max_rows = 10, .senders_left = 100, .flows_left = 100 };
	struct mb_table *bins = mb_table_create(mb_bin_columns, MB_BIN_COLUMNS, &limits.seed);
	struct mb_table *senders = mb_table_create(mb_sender_columns, MB_SENDER_COLUMNS, &limits.seed);
	struct mb_lane lane;
	int first = 1, error;

	while (first < argc && set(argv[first]))
		first++;
	error = mb_lane_init(&lane, 0, &options, &busy, &limits, NULL, &bins, &senders);
	for (int i = first; i < argc && !error; i++)
		error = happen(&lane, argv[i]);
	if (!error)
		error = mb_lane_finish(&lane);
	print_rows(bins);
	printf("], \"error\": %d, \"first_ns\": %" PRId64 ", \"last_ns\": %" PRId64 ", \"packets\": %" PRIu64
	       ", \"late\": %" PRIu64 ", \"epochs\": %" PRIu32 ", \"squeezed\": %" PRIu64 "}\n",
	       error, lane.totals.first_ns, lane.totals.last_ns, lane.totals.packets, lane.totals.late,
	       lane.totals.epochs, lane.totals.squeezed);
	mb_lane_deinit(&lane);
	mb_table_release(bins);
	mb_table_release(senders);
	return 0;
}

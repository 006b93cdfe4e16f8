/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/bins.h"

const struct mb_column mb_bin_columns[MB_BIN_COLUMNS] = {
#define COLUMN(name, type, ...) [MB_BIN_##name] = MB_COLUMN(name, type),
	MB_BIN_KEYS(COLUMN) MB_BIN_COUNTERS(COLUMN)
#undef COLUMN
};

void mb_bin_append(struct mb_table *rows, const struct mb_lane *lane, int64_t number, const struct mb_bin *bin)
{
	const size_t i = rows->count++;

	MB_SET(rows, MB_BIN_lane, i, int16_t, lane->index);
	MB_SET(rows, MB_BIN_clock_epoch, i, uint16_t, lane->epoch);
	MB_SET(rows, MB_BIN_ts_ns, i, int64_t, number * lane->options->bin_ns);
#define APPEND(name, type, ...) MB_SET(rows, MB_BIN_##name, i, type, bin->name);
	MB_BIN_COUNTERS(APPEND)
#undef APPEND
}

void mb_lane_totals_add(struct mb_lane_totals *totals, const struct mb_bin *bin)
{
#define COMBINE_SUM +=
#define COMBINE_BITS |=
#define COMBINE(name, type, kind) totals->name COMBINE_##kind(uint64_t) bin -> name;
	MB_BIN_COUNTERS(COMBINE)
#undef COMBINE
#undef COMBINE_SUM
#undef COMBINE_BITS
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/closing.h"

#include <errno.h>

#include "compiler.h"

static int close_bin(struct mb_lane *lane, int64_t number)
{
	struct mb_bin *bin = &lane->bins[(uint64_t)number & lane->bin_span.mask];
	struct mb_table *rows = *lane->bin_rows;

	if (mb_unlikely(lane->drop_spans.count) &&
	    mb_drop_spans_overlap(&lane->drop_spans, number * lane->options->bin_ns, lane->options->bin_ns))
		bin->quality |= MB_QUALITY_DROPS;
	else if (!bin->packets && !bin->bytes && !bin->wire_bytes) {
		bin->quality = 0;
		return 0;
	}
	if (mb_table_reserve(rows, 1))
		return -ENOMEM;
	mb_bin_append(rows, lane, number, bin);
	mb_lane_totals_add(&lane->totals, bin);
	if (mb_busy_mark(&lane->busy, number * lane->options->bin_ns, (uint64_t)bin->wire_bytes))
		return -ENOMEM;
	*bin = (struct mb_bin){ 0 };
	return 0;
}

struct mb_sender_rows mb_sender_rows_of(const struct mb_lane *lane)
{
	return (struct mb_sender_rows){ .rows = *lane->sender_rows, .lane = lane->index, .epoch = lane->epoch };
}

static int close_senders_of(struct mb_lane *lane, int64_t number)
{
	struct mb_senders *senders = &lane->senders[(uint64_t)number & lane->sender_span.mask];
	const struct mb_sender_rows to = mb_sender_rows_of(lane);

	return mb_senders_has_any(senders) ? mb_busy_take(&lane->busy, senders, number, &to) : 0;
}

int mb_close_bins(struct mb_lane *lane, int64_t number, int64_t end)
{
	int error = 0;

	for (; number < end && !error; number++)
		error = close_bin(lane, number);
	return error;
}

int mb_close_senders(struct mb_lane *lane, int64_t number, int64_t end)
{
	int error = 0;

	for (; number < end && !error; number++)
		error = close_senders_of(lane, number);
	return error;
}

int mb_close_all(struct mb_lane *lane)
{
	const struct mb_sender_rows to = mb_sender_rows_of(lane);
	int error = mb_close_bins(lane, lane->bin_span.oldest, lane->bin_span.newest + 1);

	if (!error)
		error = mb_close_senders(lane, lane->sender_span.oldest, lane->sender_span.newest + 1);
	return error ? error : mb_busy_finish(&lane->busy, &to);
}

int mb_close_dropped(struct mb_lane *lane, int64_t number, int64_t end)
{
	if (lane->drop_spans.count == 0)
		return 0;
	return mb_close_bins(lane, number, end - number < MB_DROP_BINS ? end : number + MB_DROP_BINS);
}

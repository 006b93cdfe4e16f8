/* SPDX-License-Identifier: Apache-2.0
 *
 * The open bins of one width: from the bin of the newest stamp back to the oldest one in reach of the reorder window.
 * The number of a bin is its start / width, rounded down.
 */
#ifndef MB_SPAN_H
#define MB_SPAN_H

#include <stdbool.h>
#include <stdint.h>

struct mb_span {
	int64_t width_ns;
	int64_t window, rest_ns;  /* the reorder window: this many bins, and this much more */
	int64_t newest, start_ns; /* number and start of the newest bin */
	int64_t oldest;           /* number of the oldest bin */
	int64_t due_ns;           /* the first stamp that moves the newest or the oldest bin on */
	uint64_t mask;            /* bin NUMBER is at NUMBER & mask of a ring */
};

/* Nanoseconds from one time to a later one, possibly more than INT64_MAX. */
static inline uint64_t mb_elapsed(int64_t from, int64_t to)
{
	return (uint64_t)to - (uint64_t)from;
}

static inline int64_t mb_floor_div(int64_t value, int64_t width)
{
	int64_t quotient = value / width;

	return quotient - (value % width < 0);
}

/* The largest width that divides both. */
static inline int64_t mb_common_divisor(int64_t a, int64_t b)
{
	while (b) {
		int64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

static inline void mb_span_init(struct mb_span *span, int64_t width_ns, int64_t window_ns)
{
	uint64_t size = 4; /* room for the bins in the window, the newest, and both partial ones */

	*span = (struct mb_span){
		.width_ns = width_ns,
		.window = window_ns / width_ns,
		.rest_ns = window_ns % width_ns,
	};
	while (size < (uint64_t)span->window + 3)
		size *= 2;
	span->mask = size - 1;
}

static inline void mb_span_set_oldest(struct mb_span *span, int64_t ts_ns)
{
	bool is_partial = ts_ns - span->start_ns < span->rest_ns;

	span->oldest = span->newest - span->window - is_partial;
	span->due_ns = span->start_ns + (is_partial ? span->rest_ns : span->width_ns);
}

/* Begin with TS_NS as the newest stamp. */
static inline void mb_span_begin(struct mb_span *span, int64_t ts_ns)
{
	span->newest = mb_floor_div(ts_ns, span->width_ns);
	span->start_ns = span->newest * span->width_ns;
	mb_span_set_oldest(span, ts_ns);
}

/* Move on to TS_NS, which is not before the newest bin. Mostly it is in the next bin: then no division is needed. */
static inline void mb_span_move(struct mb_span *span, int64_t ts_ns)
{
	uint64_t past = (uint64_t)ts_ns - (uint64_t)span->start_ns, width = (uint64_t)span->width_ns;

	if (__builtin_expect(past >= 2 * width, 0)) {
		mb_span_begin(span, ts_ns);
		return;
	}
	if (past >= width) {
		span->newest++;
		span->start_ns += span->width_ns;
	}
	mb_span_set_oldest(span, ts_ns);
}

#endif

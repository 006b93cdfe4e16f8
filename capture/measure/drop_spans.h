/* SPDX-License-Identifier: Apache-2.0
 *
 * Times in which packets were lost. A lane holds them until its bins have passed them: a full ring reports losses long
 * before the frames that it holds are read.
 */
#ifndef MB_DROP_SPANS_H
#define MB_DROP_SPANS_H

#include <stdbool.h>
#include <stdint.h>

#define MB_DROP_SPANS 64

struct mb_drop_span {
	int64_t first_ns, last_ns;
	uint32_t clock; /* steps of the clock that were known before the loss */
};

struct mb_drop_spans {
	struct mb_drop_span spans[MB_DROP_SPANS];
	uint32_t count;
};

/* Record that packets were lost in FIRST_NS … LAST_NS, which are the limits of bins. Spans of one clock that overlap or
 * adjoin become one. If there is no room, the newest span grows: then too many bins are marked, never too few. */
void mb_drop_spans_add(struct mb_drop_spans *drops, int64_t first_ns, int64_t last_ns, uint32_t clock);

/* Whether a span overlaps [START_NS, START_NS + WIDTH_NS). */
bool mb_drop_spans_overlap(const struct mb_drop_spans *drops, int64_t start_ns, int64_t width_ns);

/* Forget spans that end before HORIZON_NS (INT64_MIN: none), and those of clocks before CLOCK. */
void mb_drop_spans_forget(struct mb_drop_spans *drops, int64_t horizon_ns, uint32_t clock);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Times in which packets were lost, kept by a lane until its bins have passed them: a full
 * ring tells of losses long before the frames that it holds are read.
 */
#ifndef MB_DROP_SPANS_H
#define MB_DROP_SPANS_H

#include <stdbool.h>
#include <stdint.h>

#define MB_LOST_SPANS 64

struct mb_lost {
	struct { int64_t first_ns, last_ns; } spans[MB_LOST_SPANS]; /* in the order they came */
	uint32_t count;
};

/* Note that packets were lost in FIRST_NS … LAST_NS. When there is no room, the newest span
 * grows: too much is then said to be losing, never too little. */
void mb_lost_add(struct mb_lost *lost, int64_t first_ns, int64_t last_ns);

/* Whether some of [START_NS, START_NS + WIDTH_NS) is in a span. */
bool mb_lost_in(const struct mb_lost *lost, int64_t start_ns, int64_t width_ns);

/* Forget spans that end before HORIZON_NS. */
void mb_lost_forget(struct mb_lost *lost, int64_t horizon_ns);

#endif

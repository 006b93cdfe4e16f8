/* SPDX-License-Identifier: Apache-2.0
 *
 * Plausible stamps. Stamps before 1970 and from 2100 on are a fault: their packets are counted, but in no bin. Stamps
 * from 1970 to 2000 come from a clock that was never set: their bins are marked as not synchronized. What is read from
 * others may have neither (PLAUSIBLE_NS in mburst/units.py has both dates).
 */
#ifndef MB_DATES_H
#define MB_DATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MB_DATE_SET INT64_C(946684800000000000)  /* 2000-01-01 */
#define MB_DATE_END INT64_C(4102444800000000000) /* 2100-01-01; arithmetic does not overflow just after it */

static inline bool mb_date_is_sane(int64_t ts_ns)
{
	return (uint64_t)ts_ns < (uint64_t)MB_DATE_END;
}

static inline bool mb_date_is_unset(int64_t ts_ns)
{
	return ts_ns < MB_DATE_SET;
}

/* The implausible stamps of a capture. */
struct mb_dates {
	uint64_t misdated, unset; /* packets */
	uint64_t first;           /* the number of the first misdated one, from 1 … */
	int64_t first_ns;         /* … and its stamp */
};

static inline void mb_dates_miss(struct mb_dates *dates, uint64_t number, int64_t ts_ns)
{
	if (!dates->misdated++) {
		dates->first = number;
		dates->first_ns = ts_ns;
	}
}

/* Write what a user should know of them, one sentence a line. Returns its length, 0 for nothing. As snprintf(3). */
size_t mb_dates_describe(const struct mb_dates *dates, char *text, size_t size);

#endif

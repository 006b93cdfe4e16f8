/* SPDX-License-Identifier: Apache-2.0 */
#include "dates.h"

#include <inttypes.h>
#include <stdio.h>

static const char *plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

size_t mb_dates_describe(const struct mb_dates *dates, char *text, size_t size)
{
	size_t length = 0;

	if (dates->misdated)
		length = (size_t)snprintf(text, size,
					  "%" PRIu64
					  " packet%s with a stamp outside the years 1970 to 2100, in no bin: the "
					  "first is packet %" PRIu64 ", at %" PRId64 " ns",
					  dates->misdated, plural(dates->misdated), dates->first, dates->first_ns);
	if (dates->unset && length < size)
		length += (size_t)snprintf(text + length, size - length,
					   "%s%" PRIu64
					   " packet%s with a stamp before the year 2000, as of a clock that was "
					   "not set: the bins are marked unsynced",
					   length ? "\n" : "", dates->unset, plural(dates->unset));
	return length;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a clock of the kernel.
 */
#ifndef MB_CLOCK_H
#define MB_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Returns CLOCK in nanoseconds; 0 if that clock does not exist. */
static inline int64_t mb_clock_ns(clockid_t clock)
{
	struct timespec now = { 0 };

	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000ll + now.tv_nsec;
}

/* Returns CLOCK_MONOTONIC in milliseconds, rounded down: for time limits. */
static inline int64_t mb_monotonic_ms(void)
{
	return mb_clock_ns(CLOCK_MONOTONIC) / 1000000;
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The fullest windows of each second of bins that come in order of time: for each of several widths, the most that any
 * window of it holds. A window begins at a multiple of its width.
 */
#ifndef MB_FULLEST_H
#define MB_FULLEST_H

#include <stddef.h>
#include <stdint.h>

#define MB_FULLEST_WIDTHS 8
#define MB_FULLEST_SECOND 1000000000

struct mb_fullest {
	const int64_t *widths_ns; /* narrow ones first: each divides the next, and the last divides a second */
	size_t n_widths;          /* 1 to MB_FULLEST_WIDTHS */
	int64_t *most;            /* for each second with a bin, in order, n_widths numbers; the caller frees it */
	size_t seconds, room;
};

/* Fill FOUND of COUNT bins, whose times do not go back. Sums are modulo 2^64. 0 or -ENOMEM. */
int mb_fullest_find(struct mb_fullest *found, const int64_t *ts_ns, const int64_t *amounts, size_t count);

#endif

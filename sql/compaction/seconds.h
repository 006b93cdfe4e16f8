/* SPDX-License-Identifier: Apache-2.0
 *
 * What a compaction needs of the bins of one clock epoch of a recording, in one pass over them: sums of each second,
 * the most bytes in windows of several widths in it, and where bins are full.
 *
 * Bins come nearly in order of time: two seconds are open at a time.
 */
#ifndef MB_SECONDS_H
#define MB_SECONDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MB_SECOND_NS 1000000000
#define MB_MOST_COUNTERS 16
#define MB_MOST_WIDTHS 8

/* The numbers of a second. Those of counters come after them, two each: the sum, and how many bins have a value. */
enum mb_second_field {
	MB_TS_NS,    /* its start */
	MB_FIRST_NS, /* the first and the last start of a bin */
	MB_LAST_NS,
	MB_BINS,
	MB_LOSING_BINS,
	MB_BYTES,
	MB_WIRE_BYTES,
	MB_PACKETS,
	MB_QUALITY, /* bits of any bin */
	MB_PEAK, /* wire bytes of the fullest bin, and of the fullest window that begins at a multiple of its width */
	MB_OF_1MS,
	MB_OF_10MS,
	MB_OF_100MS,
	MB_SECOND_FIELDS,
};

struct mb_counter {
	const int64_t *values;
	const uint8_t *known; /* 0: NULL, and its value is 0. NULL: all are known */
	bool bits; /* joined by `or` instead of added up */
};

struct mb_bins {
	size_t count;
	const int64_t *ts_ns, *bytes, *wire_bytes;
	const uint32_t *packets;
	const uint16_t *quality;
	const struct mb_counter *counters;
};

/* Windows of several milliseconds, which divide a second: the wire bytes from which on they are full, and the
 * maximum distance of two starts in one island. */
struct mb_width {
	uint32_t ms;
	int64_t full_bytes, gap_ns;
};

struct mb_seconds_options {
	size_t n_counters; /* at most MB_MOST_COUNTERS */
	uint16_t losing; /* bits of quality that mean that packets were lost */
	int64_t full_bytes, full_gap_ns; /* of bins, like those of windows */
	size_t n_widths; /* at most MB_MOST_WIDTHS */
	struct mb_width widths[MB_MOST_WIDTHS];
};

/* Rows of numbers. */
struct mb_numbers {
	int64_t *at;
	size_t count, room; /* of numbers */
};

struct mb_second; /* an open second */

struct mb_seconds {
	struct mb_seconds_options options;
	struct mb_second *older, *newer; /* NULL: none */
	struct mb_second *spare;
	bool has_closed;
	int64_t closed; /* the number of the newest closed second */
	struct mb_numbers seconds; /* in order: MB_SECOND_FIELDS + 2 * n_counters each */
	struct mb_numbers full; /* islands of full bins: first and last start */
	struct mb_numbers wide[MB_MOST_WIDTHS]; /* of full windows of each width */
};

/* Add bins. Returns 0, -ENOMEM, or -ERANGE if one is of a closed second: two newer ones have come since. */
int mb_seconds_add(struct mb_seconds *seconds, const struct mb_bins *bins);

/* Close all seconds. Returns 0 or -ENOMEM. */
int mb_seconds_end(struct mb_seconds *seconds);

/* Free what SECONDS holds. */
void mb_seconds_free(struct mb_seconds *seconds);

#endif

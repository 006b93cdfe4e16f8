/* SPDX-License-Identifier: Apache-2.0 */
#include "seconds.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MS_NS 1000000
#define MS (MB_SECOND_NS / MS_NS)
#define FIRST_ROOM 4096
#define MOST_NUMBERS (MB_SECOND_FIELDS + 2 * MB_MOST_COUNTERS)

struct mb_second {
	int64_t number;      /* of seconds since 1970 */
	uint64_t start_ns;   /* modulo 2^64: it may lie before the first possible time */
	int64_t from, until; /* the first and last time in it */
	bool full;           /* whether it has a full bin: a full window has one */
	int64_t numbers[MOST_NUMBERS];
	uint64_t ms[MS]; /* wire bytes of each millisecond */
};

static int64_t floor_divided(int64_t value, int64_t by)
{
	return value / by - (value % by < 0);
}

/* Returns room for COUNT more numbers. NULL if there is no memory. */
static int64_t *add_numbers(struct mb_numbers *numbers, size_t count)
{
	if (numbers->room - numbers->count < count) {
		const size_t room = 2 * numbers->room + FIRST_ROOM;
		int64_t *at = realloc(numbers->at, room * sizeof(*at));

		if (!at)
			return NULL;
		numbers->at = at;
		numbers->room = room;
	}
	numbers->count += count;
	return &numbers->at[numbers->count - count];
}

/* Fill SUMS with sums of ten AMOUNTS each, COUNT of them. Returns the largest amount. */
static uint64_t sum_tens(const uint64_t *amounts, uint64_t *sums, size_t count)
{
	uint64_t most = 0;

	for (size_t i = 0; i < count; i++) {
		sums[i] = 0;
		for (size_t j = 10 * i; j < 10 * i + 10; j++) {
			sums[i] += amounts[j];
			most = amounts[j] > most ? amounts[j] : most;
		}
	}
	return most;
}

static void find_fullest(int64_t *numbers, const uint64_t *ms)
{
	uint64_t of_10ms[MS / 10], of_100ms[MS / 100], of_1s[1];

	numbers[MB_OF_1MS] = (int64_t)sum_tens(ms, of_10ms, MS / 10);
	numbers[MB_OF_10MS] = (int64_t)sum_tens(of_10ms, of_100ms, MS / 100);
	numbers[MB_OF_100MS] = (int64_t)sum_tens(of_100ms, of_1s, 1);
}

/* Note that something full begins at TS_NS: it extends the last of ISLANDS, or begins a new one. */
static int note(struct mb_numbers *islands, int64_t ts_ns, int64_t gap_ns)
{
	int64_t *row = islands->count ? &islands->at[islands->count - 2] : NULL;

	if (!row || (ts_ns > row[1] && (uint64_t)ts_ns - (uint64_t)row[1] > (uint64_t)gap_ns) ||
	    (ts_ns < row[0] && (uint64_t)row[0] - (uint64_t)ts_ns > (uint64_t)gap_ns)) {
		row = add_numbers(islands, 2);
		if (!row)
			return -ENOMEM;
		row[0] = row[1] = ts_ns;
	}
	row[0] = ts_ns < row[0] ? ts_ns : row[0];
	row[1] = ts_ns > row[1] ? ts_ns : row[1];
	return 0;
}

/* Note the full windows of a width. */
static int note_windows(struct mb_numbers *islands, const struct mb_second *second, const struct mb_width *width)
{
	for (uint32_t i = 0; i < MS; i += width->ms) {
		uint64_t bytes = 0;

		for (uint32_t j = 0; j < width->ms; j++)
			bytes += second->ms[i + j];
		if ((int64_t)bytes >= width->full_bytes &&
		    note(islands, (int64_t)(second->start_ns + (uint64_t)i * MS_NS), width->gap_ns))
			return -ENOMEM;
	}
	return 0;
}

/* Close *PLACE, the older of the open seconds. */
static int close_second(struct mb_seconds *seconds, struct mb_second **place)
{
	const size_t width = MB_SECOND_FIELDS + 2 * seconds->options.n_counters;
	struct mb_second *second = *place;
	int64_t *row = add_numbers(&seconds->seconds, width);

	if (!row)
		return -ENOMEM;
	for (size_t i = 0; second->full && i < seconds->options.n_widths; i++)
		if (note_windows(&seconds->wide[i], second, &seconds->options.widths[i]))
			return -ENOMEM;
	find_fullest(second->numbers, second->ms);
	memcpy(row, second->numbers, width * sizeof(*row));
	seconds->has_closed = true;
	seconds->closed = second->number;
	free(seconds->spare);
	seconds->spare = second;
	*place = NULL;
	return 0;
}

/* Open the second NUMBER in *PLACE, which is empty. */
static int open_second(struct mb_seconds *seconds, struct mb_second **place, int64_t number, int64_t ts_ns)
{
	const int64_t into = ts_ns % MB_SECOND_NS + (ts_ns % MB_SECOND_NS < 0 ? MB_SECOND_NS : 0);
	struct mb_second *second = seconds->spare ? seconds->spare : malloc(sizeof(*second));

	if (!second)
		return -ENOMEM;
	seconds->spare = NULL;
	memset(second, 0, sizeof(*second));
	second->number = number;
	second->start_ns = (uint64_t)ts_ns - (uint64_t)into;
	second->from = ts_ns < INT64_MIN + into ? INT64_MIN : ts_ns - into;
	second->until = ts_ns > INT64_MAX - (MB_SECOND_NS - 1 - into) ? INT64_MAX : ts_ns + (MB_SECOND_NS - 1 - into);
	second->numbers[MB_TS_NS] = (int64_t)second->start_ns;
	second->numbers[MB_FIRST_NS] = INT64_MAX;
	second->numbers[MB_LAST_NS] = INT64_MIN;
	second->numbers[MB_PEAK] = INT64_MIN;
	*place = second;
	return 0;
}

/* Returns the second of TS_NS, opened if it is not open. *CODE is 0, or the return value of mb_seconds_add(). */
static struct mb_second *second_of(struct mb_seconds *seconds, int64_t ts_ns, int *code)
{
	const int64_t number = floor_divided(ts_ns, MB_SECOND_NS);
	struct mb_second **place = &seconds->newer;

	if (*place && number < (*place)->number)
		place = &seconds->older;
	if (*place && number == (*place)->number)
		return *place;
	*code = 0;
	if (place == &seconds->newer && *place) { /* newer than both: the older one is done */
		if (seconds->older)
			*code = close_second(seconds, &seconds->older);
		if (*code)
			return NULL;
		seconds->older = *place;
		*place = NULL;
	} else if (*place && number > (*place)->number) { /* between the two */
		*code = close_second(seconds, place);
	}
	if (*place || (seconds->has_closed && number <= seconds->closed))
		*code = -ERANGE;
	if (!*code)
		*code = open_second(seconds, place, number, ts_ns);
	return *code ? NULL : *place;
}

static void add_to(int64_t *number, uint64_t value)
{
	*number = (int64_t)((uint64_t)*number + value);
}

static uint64_t sum(const int64_t *values, size_t count)
{
	uint64_t found = 0;

	for (size_t i = 0; i < count; i++)
		found += (uint64_t)values[i];
	return found;
}

static void count_values(int64_t *numbers, const struct mb_counter *counter, size_t from, size_t count)
{
	uint64_t known = count;

	if (counter->bits)
		for (size_t i = 0; i < count; i++)
			numbers[0] |= counter->values[from + i];
	else
		add_to(&numbers[0], sum(counter->values + from, count));
	for (size_t i = 0; counter->known && i < count; i++)
		known -= !counter->known[from + i];
	add_to(&numbers[1], known);
}

/* Add the bins from FROM on that are in SECOND to its milliseconds and times. Returns where they end. */
static size_t place(struct mb_second *second, const struct mb_bins *bins, size_t from)
{
	int64_t first = second->numbers[MB_FIRST_NS], last = second->numbers[MB_LAST_NS];
	size_t i;

	for (i = from; i < bins->count; i++) {
		const int64_t ts_ns = bins->ts_ns[i];

		if (ts_ns < second->from || ts_ns > second->until)
			break;
		first = ts_ns < first ? ts_ns : first;
		last = ts_ns > last ? ts_ns : last;
		second->ms[(uint32_t)((uint64_t)ts_ns - second->start_ns) / MS_NS] += (uint64_t)bins->wire_bytes[i];
	}
	second->numbers[MB_FIRST_NS] = first;
	second->numbers[MB_LAST_NS] = last;
	return i;
}

/* Add COUNT bins from FROM on, all of one second, to the numbers of that second. */
static void count_bins(int64_t *numbers, const struct mb_bins *bins, size_t from, size_t count, uint16_t losing)
{
	const uint16_t *quality = bins->quality + from;
	uint64_t packets = 0, losing_bins = 0;
	int64_t peak = numbers[MB_PEAK];
	uint16_t bits = 0;

	for (size_t i = 0; i < count; i++)
		packets += bins->packets[from + i];
	for (size_t i = 0; i < count; i++)
		bits |= quality[i];
	for (size_t i = 0; bits & losing && i < count; i++)
		losing_bins += (quality[i] & losing) != 0;
	for (size_t i = 0; i < count; i++)
		peak = bins->wire_bytes[from + i] > peak ? bins->wire_bytes[from + i] : peak;
	add_to(&numbers[MB_BINS], count);
	add_to(&numbers[MB_LOSING_BINS], losing_bins);
	add_to(&numbers[MB_BYTES], sum(bins->bytes + from, count));
	add_to(&numbers[MB_WIRE_BYTES], sum(bins->wire_bytes + from, count));
	add_to(&numbers[MB_PACKETS], packets);
	numbers[MB_QUALITY] |= bits;
	numbers[MB_PEAK] = peak;
}

/* Note the full bins among COUNT bins from FROM on. */
static int note_bins(struct mb_seconds *seconds, struct mb_second *second, const struct mb_bins *bins, size_t from,
		     size_t count)
{
	for (size_t i = from; i < from + count; i++) {
		if (bins->wire_bytes[i] < seconds->options.full_bytes)
			continue;
		second->full = true;
		if (note(&seconds->full, bins->ts_ns[i], seconds->options.full_gap_ns))
			return -ENOMEM;
	}
	return 0;
}

int mb_seconds_add(struct mb_seconds *seconds, const struct mb_bins *bins)
{
	const struct mb_seconds_options *options = &seconds->options;

	for (size_t i = 0, end; i < bins->count; i = end) {
		int code;
		struct mb_second *second = second_of(seconds, bins->ts_ns[i], &code);

		if (!second)
			return code;
		end = place(second, bins, i);
		count_bins(second->numbers, bins, i, end - i, options->losing);
		for (size_t j = 0; j < options->n_counters; j++)
			count_values(&second->numbers[MB_SECOND_FIELDS + 2 * j], &bins->counters[j], i, end - i);
		if (second->numbers[MB_PEAK] >= options->full_bytes && note_bins(seconds, second, bins, i, end - i))
			return -ENOMEM;
	}
	return 0;
}

int mb_seconds_end(struct mb_seconds *seconds)
{
	if (seconds->older && close_second(seconds, &seconds->older))
		return -ENOMEM;
	return seconds->newer ? close_second(seconds, &seconds->newer) : 0;
}

void mb_seconds_free(struct mb_seconds *seconds)
{
	free(seconds->older);
	free(seconds->newer);
	free(seconds->spare);
	free(seconds->seconds.at);
	free(seconds->full.at);
	for (size_t i = 0; i < MB_MOST_WIDTHS; i++)
		free(seconds->wide[i].at);
}

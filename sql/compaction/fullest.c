/* SPDX-License-Identifier: Apache-2.0 */
#include "fullest.h"

#include <errno.h>
#include <stdlib.h>

#define FIRST_ROOM 1024

/* The window of one width that is open. Times are from the start of its second: a division of 32 bits is a cheap one. */
struct window {
	uint32_t width, end; /* where it ends */
	uint64_t sum;
	int64_t most; /* of those that were closed in this second */
};

/* How far TS_NS is into its second. */
static uint32_t into_second(int64_t ts_ns)
{
	const int64_t into = ts_ns % MB_FULLEST_SECOND;

	return (uint32_t)(into < 0 ? into + MB_FULLEST_SECOND : into);
}

/* Close the windows that do not hold AT, the narrowest first: each is a part of the next. */
static void move(struct window *windows, size_t count, uint32_t at)
{
	for (size_t i = 0; i < count && at >= windows[i].end; i++) {
		struct window *window = &windows[i];

		if ((int64_t)window->sum > window->most)
			window->most = (int64_t)window->sum;
		if (i + 1 < count)
			windows[i + 1].sum += window->sum;
		window->sum = 0;
		window->end = (at / window->width + 1) * window->width;
	}
}

/* Close all windows. */
static void close_second(struct window *windows, size_t count, int64_t *most)
{
	for (size_t i = 0; i < count; i++) {
		if ((int64_t)windows[i].sum > windows[i].most)
			windows[i].most = (int64_t)windows[i].sum;
		if (i + 1 < count)
			windows[i + 1].sum += windows[i].sum;
		most[i] = windows[i].most;
	}
}

static void open_second(struct window *windows, const struct mb_fullest *found, uint32_t at)
{
	for (size_t i = 0; i < found->n_widths; i++) {
		const uint32_t width = (uint32_t)found->widths_ns[i];

		windows[i] = (struct window){ .width = width, .end = (at / width + 1) * width, .most = INT64_MIN };
	}
}

/* Room for one second more. */
static int64_t *next_row(struct mb_fullest *found)
{
	if (found->seconds == found->room) {
		const size_t room = found->room ? 2 * found->room : FIRST_ROOM;
		int64_t *most = realloc(found->most, room * found->n_widths * sizeof(*most));

		if (!most)
			return NULL;
		found->most = most;
		found->room = room;
	}
	return &found->most[found->seconds++ * found->n_widths];
}

int mb_fullest_find(struct mb_fullest *found, const int64_t *ts_ns, const int64_t *amounts, size_t count)
{
	struct window windows[MB_FULLEST_WIDTHS];

	for (size_t i = 0; i < count;) {
		const uint64_t first_ns = (uint64_t)ts_ns[i];
		const uint32_t into = into_second(ts_ns[i]);
		int64_t *most = next_row(found);

		if (!most)
			return -ENOMEM;
		open_second(windows, found, into);
		for (; i < count && (uint64_t)ts_ns[i] - first_ns < MB_FULLEST_SECOND - into; i++) {
			const uint32_t at = into + (uint32_t)((uint64_t)ts_ns[i] - first_ns);

			if (at >= windows[0].end)
				move(windows, found->n_widths, at);
			windows[0].sum += (uint64_t)amounts[i];
		}
		close_second(windows, found->n_widths, most);
	}
	return 0;
}

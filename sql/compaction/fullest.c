/* SPDX-License-Identifier: Apache-2.0 */
#include "fullest.h"

#include <errno.h>
#include <stdlib.h>

#define FIRST_ROOM 1024

/* The window of one width that is open. */
struct window {
	int64_t width_ns, last_ns; /* the last time that is in it */
	uint64_t sum;
	int64_t most; /* of those that were closed in this second */
};

/* The last time of the window of WIDTH_NS that TS_NS is in, or of all time. */
static int64_t last_of(int64_t ts_ns, int64_t width_ns)
{
	int64_t past = ts_ns % width_ns, last;

	if (past < 0)
		past += width_ns;
	return __builtin_add_overflow(ts_ns, width_ns - 1 - past, &last) ? INT64_MAX : last;
}

/* Close the windows that do not hold TS_NS, the narrowest first: each is a part of the next. */
static void move(struct window *windows, size_t count, int64_t ts_ns)
{
	for (size_t i = 0; i < count && ts_ns > windows[i].last_ns; i++) {
		struct window *window = &windows[i];

		if ((int64_t)window->sum > window->most)
			window->most = (int64_t)window->sum;
		if (i + 1 < count)
			windows[i + 1].sum += window->sum;
		window->sum = 0;
		window->last_ns = last_of(ts_ns, window->width_ns);
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

static void open_second(struct window *windows, const struct mb_fullest *found, int64_t ts_ns)
{
	for (size_t i = 0; i < found->n_widths; i++)
		windows[i] = (struct window){
			.width_ns = found->widths_ns[i],
			.last_ns = last_of(ts_ns, found->widths_ns[i]),
			.most = INT64_MIN,
		};
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
		const int64_t last_ns = last_of(ts_ns[i], MB_FULLEST_SECOND);
		int64_t *most = next_row(found);

		if (!most)
			return -ENOMEM;
		open_second(windows, found, ts_ns[i]);
		for (; i < count && ts_ns[i] <= last_ns; i++) {
			if (ts_ns[i] > windows[0].last_ns)
				move(windows, found->n_widths, ts_ns[i]);
			windows[0].sum += (uint64_t)amounts[i];
		}
		close_second(windows, found->n_widths, most);
	}
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * telemetry/probe/exchange.c on a socket that this program inherits. Arguments:
 *   FD FLAGS SIZE NUMBER_AT NUMBER_BYTES SHORT_AT TIME_AT COUNT GAP_NS ROOM
 * COUNT probes are due GAP_NS apart; ROOM notes are taken at a time. Writes the raw notes until a while
 * after the last probe.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>

#include "exchange.h"

#define AFTER_NS 300000000

static int64_t monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static int watch(int epoll, int fd, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.fd = fd };

	return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

/* Reacts to a note like the Python code. */
static void look_after(struct mb_exchange *x, const struct mb_note *note)
{
	struct mb_path *path = x->paths;

	if (note->what == MB_DUE)
		path->next++;
	if ((note->what == MB_TROUBLE && path->flags & MB_STREAM) || note->what == MB_READY) {
		epoll_ctl(x->epoll, EPOLL_CTL_DEL, path->fd, NULL);
		path->flags = 0;
	}
}

int main(int argc, char **argv)
{
	long number[11] = { 0 };

	for (int i = 1; i < argc && i < 11; i++)
		number[i] = atol(argv[i]);
	struct mb_path path = {
		.fd = (int)number[1],
		.flags = (uint32_t)number[2],
		.size = (uint32_t)number[3],
		.number_at = (uint8_t)number[4],
		.number_bytes = (uint8_t)number[5],
		.short_at = (uint8_t)number[6],
		.time_at = (uint8_t)number[7],
	};
	size_t count = (size_t)number[8];
	int32_t *owners = malloc((size_t)(path.fd + 1) * sizeof(*owners));
	struct mb_due *due = malloc(count * sizeof(*due));
	struct mb_exchange x = {
		.epoll = epoll_create1(0),
		.timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK),
		.owners = owners,
		.owner_count = (size_t)path.fd + 1,
		.paths = &path,
		.path_count = 1,
		.due = due,
		.due_count = count,
		.room = (size_t)number[10],
	};
	int64_t begin = monotonic_ns(), end = begin + (int64_t)count * number[9] + AFTER_NS;

	x.notes = malloc(x.room * sizeof(*x.notes));
	for (int fd = 0; fd <= path.fd; fd++)
		owners[fd] = fd == path.fd ? 0 : -1;
	for (size_t i = 0; i < count; i++)
		due[i] = (struct mb_due){ .at_ns = begin + (int64_t)i * number[9] };
	if (watch(x.epoll, x.timer, EPOLLIN | EPOLLET) || watch(x.epoll, path.fd, EPOLLIN))
		return 1;
	while (monotonic_ns() < end) {
		if (mb_exchange(&x, end))
			return 1;
		for (size_t i = 0; i < x.count; i++)
			look_after(&x, &x.notes[i]);
		fwrite(x.notes, sizeof(*x.notes), x.count, stdout);
		x.count = 0;
	}
	free(x.notes);
	free(due);
	free(owners);
	return x.done != count;
}

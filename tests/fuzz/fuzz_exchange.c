/* SPDX-License-Identifier: Apache-2.0
 *
 * The prober's exchange (telemetry/probe/exchange.c) with a peer that sends, reads and ends as the input states. Input:
 *   flags 1 | size 2 | number_at, number_bytes, short_at, time_at 1 each | room 1
 *   | steps: kind 1, argument 2, and for a SAY so many bytes
 * Layouts stay within the contract of exchange.h. Every note is checked for the promises of exchange.h.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "exchange.h"

#define HEADER 8
#define MOST_DUE 64
#define MOST_ROOM 64
#define MOST_STEPS 24
#define LONGEST_NS 30000

enum step { SAY, DUE, READ, END, RUN, STEPS };

struct world {
	int ours, theirs;
	struct mb_path path;
	struct mb_due due[MOST_DUE];
	struct mb_note notes[MOST_ROOM];
	struct mb_exchange x;
	uint64_t sent;
};

static void demand(bool holds, const char *what)
{
	if (!holds) {
		fprintf(stderr, "exchange: %s\n", what);
		abort();
	}
}

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* Makes two sockets that are connected to each other over loopback. */
static bool pair(struct world *w, bool stream)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) }, b = a;
	socklen_t size = sizeof(a);
	int kind = stream ? SOCK_STREAM : SOCK_DGRAM, listener;

	w->ours = socket(AF_INET, kind, 0);
	w->theirs = socket(AF_INET, kind, 0);
	if (w->ours < 0 || w->theirs < 0 || bind(w->theirs, (struct sockaddr *)&a, size) ||
	    getsockname(w->theirs, (struct sockaddr *)&a, &size))
		return false;
	if (!stream)
		return !bind(w->ours, (struct sockaddr *)&b, size) &&
		       !getsockname(w->ours, (struct sockaddr *)&b, &size) &&
		       !connect(w->ours, (struct sockaddr *)&a, size) &&
		       !connect(w->theirs, (struct sockaddr *)&b, size);
	if (listen(w->theirs, 1) || connect(w->ours, (struct sockaddr *)&a, size))
		return false;
	listener = w->theirs;
	w->theirs = accept(listener, NULL, NULL);
	close(listener);
	return w->theirs >= 0;
}

static void layout(struct world *w, const uint8_t *data)
{
	uint32_t size = (uint32_t)(data[1] << 8 | data[2]);

	w->path = (struct mb_path){
		.fd = w->ours,
		.flags = data[0] & 15,
		.size = size < 96 ? 96 : size,
		.number_at = data[3] % (MB_HEAD_BYTES - 8),
		.number_bytes = (uint8_t)(1 + data[4] % 8),
		.short_at = data[5] % (MB_HEAD_BYTES - 2),
		.time_at = data[6] % (MB_HEAD_BYTES - 8),
	};
	w->x = (struct mb_exchange){
		.epoll = epoll_create1(0),
		.timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK),
		.paths = &w->path,
		.path_count = 1,
		.due = w->due,
		.notes = w->notes,
		.room = data[7] % (MOST_ROOM + 1),
	};
}

static void watch(int epoll, int fd, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.fd = fd };

	epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

/* Checks the promises of the notes of one call, and reacts to them like the Python code. */
static void look(struct world *w)
{
	demand(w->x.count <= w->x.room, "more notes than room");
	demand(w->x.done <= w->x.due_count, "more done than were due");
	for (size_t i = 0; i < w->x.count; i++) {
		const struct mb_note *note = &w->notes[i];

		demand(note->path == 0 && note->what >= MB_SENT && note->what <= MB_READY, "an unknown note");
		if (note->what == MB_SENT || note->what == MB_PARTLY || note->what == MB_FAILED)
			demand(note->number == w->sent++, "numbers are not in order");
		if (note->what == MB_DUE)
			w->path.next = ++w->sent;
		if (note->what == MB_PARTLY)
			demand(note->value < w->path.size, "a whole probe is a part");
		if (note->what == MB_ANSWER && w->path.flags & MB_STREAM)
			demand(note->value == w->path.size, "a message of another size");
		if (note->what == MB_READY || (note->what == MB_TROUBLE && w->path.flags & MB_STREAM)) {
			epoll_ctl(w->x.epoll, EPOLL_CTL_DEL, w->ours, NULL);
			w->path.flags = 0;
		}
	}
	demand(w->path.have < w->path.size, "a message is longer than it is");
	w->x.count = 0;
}

static void run(struct world *w)
{
	if (mb_exchange(&w->x, now_ns() + LONGEST_NS))
		abort();
	look(w);
}

/* Takes one step. Returns the number of bytes of the input that it consumed. */
static size_t step(struct world *w, const uint8_t *data, size_t size)
{
	size_t argument = (size_t)(data[1] << 8 | data[2]), given = size - 3 < argument ? size - 3 : argument;
	static uint8_t taken[65536];

	switch (data[0] % STEPS) {
	case SAY:
		(void)!send(w->theirs, data + 3, given, MSG_NOSIGNAL | MSG_DONTWAIT);
		return 3 + given;
	case DUE:
		if (w->x.due_count < MOST_DUE)
			w->due[w->x.due_count++] = (struct mb_due){ .at_ns = now_ns() - (int64_t)argument * 100 };
		break;
	case READ:
		(void)!recv(w->theirs, taken, argument, MSG_DONTWAIT);
		break;
	case END:
		shutdown(w->theirs, argument % 3 == 0 ? SHUT_RD : argument % 3 == 1 ? SHUT_WR : SHUT_RDWR);
		break;
	default:
		run(w);
	}
	return 3;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct world w = { .ours = -1, .theirs = -1 };
	int32_t *owners;

	if (size < HEADER || !pair(&w, data[0] & MB_STREAM))
		return size >= HEADER ? -1 : 0;
	layout(&w, data);
	w.x.owner_count = (size_t)w.ours + 1;
	owners = malloc(w.x.owner_count * sizeof(*owners)); /* exactly this size, so that a read beyond it shows */
	for (int fd = 0; fd <= w.ours; fd++)
		owners[fd] = fd == w.ours ? 0 : -1;
	w.x.owners = owners;
	watch(w.x.epoll, w.x.timer, EPOLLIN | EPOLLET);
	watch(w.x.epoll, w.ours, EPOLLIN);
	for (size_t at = HEADER, steps = 0; at + 3 <= size && steps < MOST_STEPS; steps++)
		at += step(&w, data + at, size - at);
	run(&w);
	free(owners);
	close(w.x.epoll);
	close(w.x.timer);
	close(w.ours);
	close(w.theirs);
	return 0;
}

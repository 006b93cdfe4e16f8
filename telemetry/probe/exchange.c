/* SPDX-License-Identifier: Apache-2.0 */
#include "exchange.h"

#include <endian.h>
#include <errno.h>
#include <time.h>
#include <linux/errqueue.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#define NS_PER_S 1000000000LL
#define NTP_UNIX_S 2208988800ULL /* from 1900 to 1970 */
#define MOST_BYTES 65536
#define AT_ONCE 16       /* overdue probes that are sent before answers are received, */
#define ROUNDS 32        /* and how often answers are looked for before more are sent */
#define EVENTS 32
#define NOTES_A_SEND 3   /* an error of an earlier probe, the probe, its departure */
#define NOTES_AN_EVENT 2 /* a departure or an error, an answer */
#define TOGETHER_NS 20000 /* two clocks read within this time count as read at one moment, */
#define TRIES 3           /* and the number of attempts at that */

static uint8_t zeros[MOST_BYTES];

static int64_t clock_ns(clockid_t id)
{
	struct timespec now;

	clock_gettime(id, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

static uint64_t to_ntp(int64_t ns)
{
	uint64_t fraction = ((uint64_t)(ns % NS_PER_S) << 32) + NS_PER_S - 1;

	return (((uint64_t)(ns / NS_PER_S) + NTP_UNIX_S) << 32) + fraction / NS_PER_S;
}

static struct mb_note *note(struct mb_exchange *x, uint32_t path, enum mb_what what)
{
	struct mb_note *made = &x->notes[x->count++];

	memset(made, 0, offsetof(struct mb_note, data));
	made->path = path;
	made->what = what;
	return made;
}

/* Returns true if a stream needs attention now. */
static bool trouble(struct mb_exchange *x, uint32_t index, int code)
{
	note(x, index, MB_TROUBLE)->value = code;
	return x->paths[index].flags & MB_STREAM;
}

/* Keep the hardware stamp if there is one, otherwise that of the kernel. */
static void keep_stamp(struct mb_note *made, const struct cmsghdr *message)
{
	struct scm_timestamping stamps;
	const struct timespec *best = &stamps.ts[0];

	memcpy(&stamps, CMSG_DATA(message), sizeof(stamps));
	made->hardware = stamps.ts[2].tv_sec != 0;
	if (made->hardware)
		best = &stamps.ts[2];
	made->stamp_ns = best->tv_sec * NS_PER_S + best->tv_nsec;
}

static bool is_stamp(const struct cmsghdr *message)
{
	return message->cmsg_level == SOL_SOCKET && message->cmsg_type == SO_TIMESTAMPING;
}

int mb_next_departure(int fd, struct mb_note *note)
{
	char control[512] __attribute__((aligned(8)));
	struct msghdr header = { .msg_control = control, .msg_controllen = sizeof(control) };
	struct sock_extended_err error = { 0 };

	if (recvmsg(fd, &header, MSG_ERRQUEUE) < 0)
		return 0;
	for (struct cmsghdr *each = CMSG_FIRSTHDR(&header); each; each = CMSG_NXTHDR(&header, each)) {
		if (is_stamp(each))
			keep_stamp(note, each);
		else if ((each->cmsg_level == SOL_IP && each->cmsg_type == IP_RECVERR) ||
			 (each->cmsg_level == SOL_IPV6 && each->cmsg_type == IPV6_RECVERR))
			memcpy(&error, CMSG_DATA(each), sizeof(error));
	}
	note->number = error.ee_data;
	note->value = error.ee_errno;
	note->what = error.ee_origin == SO_EE_ORIGIN_TIMESTAMPING ? MB_LEFT : MB_TROUBLE;
	return 1;
}

/* Note the next entry of the error queue. Returns 0 if it is empty, 2 if a note needs attention, otherwise 1. */
static int learn(struct mb_exchange *x, uint32_t index)
{
	struct mb_note *made = note(x, index, MB_LEFT);

	if (!mb_next_departure(x->paths[index].fd, made)) {
		x->count--;
		return 0;
	}
	return made->what == MB_TROUBLE && x->paths[index].flags & MB_STREAM ? 2 : 1;
}

/* Put the next number and a time into the head. */
static void fill(struct mb_path *path, int64_t now_ns)
{
	uint64_t number = htobe64(path->next);
	uint64_t time = htobe64(path->flags & MB_NTP ? to_ntp(now_ns) : (uint64_t)now_ns);

	memcpy(path->head + path->number_at, (uint8_t *)&number + 8 - path->number_bytes, path->number_bytes);
	if (path->short_at)
		memcpy(path->head + path->short_at, (uint8_t *)&number + 6, 2);
	memcpy(path->head + path->time_at, &time, 8);
}

static ssize_t transmit(const struct mb_path *path)
{
	size_t head = path->size < MB_HEAD_BYTES ? path->size : MB_HEAD_BYTES;
	struct iovec parts[] = { { (void *)path->head, head }, { zeros, path->size - head } };
	struct msghdr header = { .msg_iov = parts, .msg_iovlen = path->size > head ? 2 : 1 };

	return sendmsg(path->fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Note the time of both clocks. A pause between the two readings would change their distance. */
static void look_at_clocks(struct mb_note *made)
{
	for (int tries = 0; tries < TRIES; tries++) {
		int64_t before = clock_ns(CLOCK_MONOTONIC);

		made->now_ns = clock_ns(CLOCK_REALTIME);
		made->apart_ns = made->now_ns - before;
		if (clock_ns(CLOCK_MONOTONIC) - before < TOGETHER_NS)
			break;
	}
}

/* Note a probe that was due at DUE_NS. */
static struct mb_note *begin(struct mb_exchange *x, uint32_t index, int64_t due_ns)
{
	struct mb_note *made = note(x, index, MB_SENT);

	look_at_clocks(made);
	made->stamp_ns = due_ns + made->apart_ns;
	return made;
}

/* Send the probe that is due next. Returns true if a note needs attention. */
static bool send_one(struct mb_exchange *x)
{
	uint32_t index = (uint32_t)x->due[x->done].path;
	struct mb_path *path = &x->paths[index];
	struct mb_note *made = begin(x, index, x->due[x->done++].at_ns);
	ssize_t sent = -1;

	made->number = path->next;
	if (!(path->flags & MB_SENDS)) {
		made->what = MB_DUE;
		return true;
	}
	fill(path, made->now_ns);
	path->next++;
	sent = transmit(path);
	if (sent < 0 && errno == ECONNREFUSED && !(path->flags & MB_STREAM)) { /* of an earlier probe; reported once */
		note(x, index, MB_TROUBLE)->value = ECONNREFUSED;
		sent = transmit(path);
	}
	if (sent < 0 && (errno != EAGAIN || !(path->flags & MB_STREAM))) {
		made->what = MB_FAILED;
		made->value = errno;
		return true;
	}
	if (sent < (ssize_t)path->size) {
		path->flags &= ~MB_SENDS;
		made->what = MB_PARTLY;
		made->value = sent < 0 ? 0 : sent;
		return true;
	}
	return learn(x, index) == 2;
}

/* Receive a datagram, or the rest of a stream's message. Returns true if a note needs attention. */
static bool receive(struct mb_exchange *x, uint32_t index)
{
	struct mb_path *path = &x->paths[index];
	bool stream = path->flags & MB_STREAM;
	uint8_t rest[MOST_BYTES];
	char control[512] __attribute__((aligned(8)));
	struct mb_note *made = note(x, index, MB_ANSWER);
	size_t had = !stream ? 0 : path->have < MB_HEAD_BYTES ? path->have : MB_HEAD_BYTES;
	size_t wanted = stream ? path->size - path->have : MB_HEAD_BYTES;
	size_t head = wanted < MB_HEAD_BYTES - had ? wanted : MB_HEAD_BYTES - had;
	struct iovec parts[] = { { (stream ? path->came : made->data) + had, head }, { rest, wanted - head } };
	struct msghdr header = { .msg_iov = parts,
				 .msg_iovlen = wanted > head ? 2 : 1,
				 .msg_control = control,
				 .msg_controllen = sizeof(control) };
	ssize_t got = recvmsg(path->fd, &header, stream ? MSG_DONTWAIT : MSG_DONTWAIT | MSG_TRUNC);

	look_at_clocks(made);
	if (got < 0 || (stream && got == 0)) {
		x->count--;
		return got < 0 && errno == EAGAIN ? false : trouble(x, index, got < 0 ? errno : ECONNRESET);
	}
	for (struct cmsghdr *each = CMSG_FIRSTHDR(&header); each; each = CMSG_NXTHDR(&header, each))
		if (is_stamp(each))
			keep_stamp(made, each);
	made->value = (uint32_t)got;
	if (!stream)
		return false;
	path->have += (uint32_t)got;
	if (path->have < path->size) {
		x->count--;
		return false;
	}
	made->value = path->size;
	path->have = 0;
	memcpy(made->data, path->came, MB_HEAD_BYTES);
	return false;
}

/* Take the entries of the error queue, or an error outside of it. Returns true if a note needs attention. */
static bool take_error(struct mb_exchange *x, uint32_t index)
{
	int code = 0, learnt = learn(x, index);
	socklen_t size = sizeof(code);

	if (learnt)
		return learnt == 2;
	/* reading it clears it */
	return !getsockopt(x->paths[index].fd, SOL_SOCKET, SO_ERROR, &code, &size) && code && trouble(x, index, code);
}

/* Returns true if a note needs attention. */
static bool handle(struct mb_exchange *x, const struct epoll_event *event)
{
	size_t fd = (size_t)event->data.fd;
	uint32_t index;

	if (fd >= x->owner_count || x->owners[fd] < 0 || (size_t)x->owners[fd] >= x->path_count)
		return false; /* the timer */
	index = (uint32_t)x->owners[fd];
	if (!(x->paths[index].flags & MB_TAKES) || event->events & EPOLLOUT) {
		note(x, index, MB_READY)->value = event->events;
		return true;
	}
	if (event->events & EPOLLERR && take_error(x, index))
		return true;
	return event->events & (EPOLLIN | EPOLLHUP) && receive(x, index);
}

/* Send the probes that are due by now, a few at once. Returns true if a note needs attention. */
static bool send_due(struct mb_exchange *x, int64_t now_ns)
{
	for (int i = 0; i < AT_ONCE && x->done < x->due_count && x->due[x->done].at_ns <= now_ns &&
			x->count + NOTES_A_SEND <= x->room;
	     i++)
		if (send_one(x))
			return true;
	return false;
}

/* Set the timer to end a wait at AT_NS. The time-out of the wait itself would be set again for every earlier answer. */
static int set_timer(int timer, int64_t at_ns)
{
	struct itimerspec spec = { .it_value = { at_ns / NS_PER_S, at_ns % NS_PER_S } };

	return timerfd_settime(timer, TFD_TIMER_ABSTIME, &spec, NULL) ? -errno : 0;
}

/* Wait unless more is due, and handle what is ready. Returns 1 if a note needs attention, or a signal came. */
static int take_ready(struct mb_exchange *x, bool more_due)
{
	struct epoll_event events[EVENTS];

	for (int round = 0; round < (more_due ? ROUNDS : 1); round++) {
		size_t room = (x->room - x->count) / NOTES_AN_EVENT;
		int ready;

		if (!room)
			return 0;
		ready = epoll_wait(x->epoll, events, room < EVENTS ? (int)room : EVENTS, more_due ? 0 : -1);
		if (ready < 0)
			return errno == EINTR ? 1 : -errno;
		for (int i = 0; i < ready; i++)
			if (handle(x, &events[i]))
				return 1; /* anything else that is ready still is at the next call */
		if (!ready)
			break;
	}
	return 0;
}

int mb_exchange(struct mb_exchange *x, int64_t until_ns)
{
	int64_t set_to = 0;

	while (x->count + NOTES_A_SEND <= x->room) {
		int64_t now = clock_ns(CLOCK_MONOTONIC), next = until_ns;
		int code;

		if (send_due(x, now) || now >= until_ns)
			return 0;
		if (x->done < x->due_count && x->due[x->done].at_ns < next)
			next = x->due[x->done].at_ns;
		if (next > now && next != set_to) {
			code = set_timer(x->timer, next);
			if (code)
				return code;
			set_to = next;
		}
		code = take_ready(x, next <= now);
		if (code)
			return code < 0 ? code : 0;
	}
	return 0;
}

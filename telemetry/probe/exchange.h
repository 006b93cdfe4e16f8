/* SPDX-License-Identifier: Apache-2.0
 *
 * Sends probes that are due and receives answers, over the sockets that are ready for either: the time-critical part
 * of the prober. It knows nothing of a protocol except where the number and time of a probe are, keeps nothing between
 * calls, and notes what happened with its stamps. telemetry/probe/pacer.py has the same structures, and interprets
 * the notes.
 *
 * Stamps: Documentation/networking/timestamping.rst of Linux.
 */
#ifndef MB_EXCHANGE_H
#define MB_EXCHANGE_H

#include <stddef.h>
#include <stdint.h>

#define MB_HEAD_BYTES 80 /* of a probe or an answer that are read */

/* Flags of a path. Without any, each event of its socket is noted (MB_READY). */
enum {
	MB_TAKES = 1,  /* answers are received, and stamps of departure */
	MB_SENDS = 2,  /* probes are sent; without it they are noted as MB_DUE */
	MB_STREAM = 4, /* a stream of messages of `size` bytes, not datagrams */
	MB_NTP = 8,    /* the time in a probe is an NTP timestamp (RFC 5905, rounded up), not Unix ns */
};

struct mb_path {
	int32_t fd;
	uint32_t flags;
	uint64_t next;        /* number of the next probe */
	uint32_t size;        /* bytes of a probe, up to 65,536; those beyond its head are zero */
	uint32_t have;        /* bytes received of the current message of a stream */
	uint8_t number_at;    /* where in the head the number is, big endian, */
	uint8_t number_bytes; /* and how many of its lower bytes are there */
	uint8_t short_at;     /* where its lower 16 bits are repeated; 0: nowhere */
	uint8_t time_at;      /* where the 8 bytes of the time are */
	uint8_t unused[4];
	uint8_t head[MB_HEAD_BYTES]; /* of the probe */
	uint8_t came[MB_HEAD_BYTES]; /* of the message that is being received */
};

/* A probe that is due, at a time of CLOCK_MONOTONIC. */
struct mb_due {
	int64_t at_ns;
	uint64_t path;
};

enum mb_what {
	MB_SENT = 1, /* a probe: number, stamp_ns = when it was due (Unix), now_ns = when it was sent */
	MB_DUE,      /* the same for a probe that was not sent, since the path does not send (any more) */
	MB_PARTLY,   /* the same for a probe of which a stream took `value` bytes; the path sends no more */
	MB_FAILED,   /* the same for a probe that could not be sent; value = errno */
	MB_LEFT,     /* departure: number = the kernel's count of datagrams or bytes, stamp_ns */
	MB_ANSWER,   /* value = length, data = its head, stamp_ns = arrival, now_ns = when it was received */
	MB_TROUBLE,  /* value = errno that the network reported, or the reason why nothing can be received */
	MB_READY,    /* value = events of epoll, for a path that does not take answers, or that waits to write */
};

struct mb_note {
	int64_t now_ns;   /* Unix, of the application */
	int64_t stamp_ns; /* Unix, of the kernel or the interface; 0: no stamp */
	int64_t apart_ns; /* by how much Unix time was ahead of CLOCK_MONOTONIC at now_ns, to 20 µs */
	uint64_t number;
	uint32_t path;
	uint32_t value;
	uint16_t what;
	uint16_t hardware; /* whether the interface made the stamp */
	uint8_t unused[4];
	uint8_t data[MB_HEAD_BYTES];
};

struct mb_exchange {
	int epoll;
	int timer;             /* a timerfd of CLOCK_MONOTONIC that the epoll watches, edge-triggered */
	const int32_t *owners; /* index of the path of each descriptor, -1: none */
	size_t owner_count;
	struct mb_path *paths;
	size_t path_count;
	const struct mb_due *due; /* in order of time */
	size_t due_count;
	size_t done; /* of `due`: noted as MB_SENT, MB_DUE, MB_PARTLY or MB_FAILED */
	struct mb_note *notes;
	size_t room;
	size_t count; /* of notes */
};

/* Put the next entry of a socket's error queue into NOTE: MB_LEFT, or MB_TROUBLE with what the network reported
 * about something that was sent. Returns 0 if the queue is empty, and leaves NOTE unchanged. */
int mb_next_departure(int fd, struct mb_note *note);

/* Exchange until `until_ns` of CLOCK_MONOTONIC. Returns 0, earlier if the notes are nearly full, a signal came, or a
 * note needs an answer: MB_DUE, MB_PARTLY, MB_FAILED, MB_READY, and MB_TROUBLE of a stream. `done` and `count` are
 * increased from their values at the call. Returns -errno if epoll or the timer fails. */
int mb_exchange(struct mb_exchange *x, int64_t until_ns);

#endif

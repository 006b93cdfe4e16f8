/* SPDX-License-Identifier: Apache-2.0
 *
 * The contract of a backend: what frames come from, a file or a kind of interface. A backend is one file of this folder that fills a
 * struct mb_backend_ops; backend.c holds the table of them and nothing else. There are two kinds: most yield frames
 * (read); one that counts by itself yields closed bins and their senders (read_counts).
 *
 * Life: open → read … read → close. One thread at a time; mb_backend_stop() alone may be
 * called from another thread or a signal handler.
 */
#ifndef MB_BACKEND_H
#define MB_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/counts.h"
#include "error.h"
#include "frame.h"
#include "frame_view.h"

struct mb_device_counts;
struct mb_backend;

/* Which stamps a live backend should ask for. What each frame had is in its quality. */
enum mb_stamps {
	MB_STAMPS_AUTO = 0, /* the interface's where it can and its clock keeps system time, else software */
	MB_STAMPS_HW,       /* the interface's, or fail */
	MB_STAMPS_SW,       /* the kernel's */
};

/* Where the kernel counts frames that arrive (ebpf). */
enum mb_hook {
	MB_HOOK_TC = 0,      /* behind the driver and GRO */
	MB_HOOK_XDP,         /* in the driver, or fail */
	MB_HOOK_XDP_GENERIC, /* there, or else behind it */
};

struct mb_backend_options {
	const char *target;  /* file name, "-" for standard input, or interface name */
	const char *backend; /* name of an entry of the table, or NULL / "auto" */
	const char *filter;  /* pcap filter expression, or NULL */

	/* The rest is for live backends. Zero is their default throughout. */
	uint32_t snaplen;        /* bytes of each frame to keep; 0: MB_LIVE_SNAPLEN */
	uint32_t threads;        /* rings that share the load, each drained by a thread of its own;
				  * 0 or 1: one ring that the reader drains (afpacket alone has more) */
	uint64_t ring_bytes;     /* kernel buffer, of each ring; 0: MB_LIVE_RING_BYTES */
	enum mb_stamps stamps;
	uint8_t direction;       /* enum mb_direction: frames of this one alone; UNKNOWN: both */
	bool own_traffic;        /* leave promiscuous mode off: frames to and from this host alone */
	uint32_t cluster;        /* pfring: share the load with other processes of this id; 0: alone */
	uint32_t beside;         /* other interfaces of this process: the memory of all of them is bounded */

	/* What the engine is to make of the frames, for a backend that counts by itself. */
	int64_t bin_ns, source_bin_ns;
	bool inner;          /* senders are those of the innermost IP header */
	bool splits_merged;  /* merged frames are to be yielded one by one: their bytes are spread over time */
	bool keeps;          /* frames are to be kept (keep/keeper.h) */
	bool merges;         /* frames of several backends are to be in one order */
	enum mb_hook hook;
	bool pins;           /* the kernel is to count on when this process has ended, for the next one */
	uint32_t pin_group;  /* which may remove that, beside root */
};

#define MB_LIVE_SNAPLEN 128
#define MB_LIVE_SNAPLEN_MAX 262144
#define MB_LIVE_RING_BYTES (64u << 20)
#define MB_LIVE_THREADS_MAX 64

struct mb_backend_stats {
	uint64_t frames;     /* frames that read() has yielded */
	uint64_t bytes;      /* sum of their `len` */
	uint64_t filtered;   /* frames that the filter left out, where the backend can count them */
	uint64_t dropped;    /* frames lost before read(), as the backend or the file's own statistics say */
	int64_t drop_first_ns, drop_last_ns; /* the span in which they fell; 0 when not known */
};

/* Lost packets in all, at most as many as a row can hold: a file may say any number of its own. */
static inline uint64_t mb_add_saturating(uint64_t some, uint64_t more)
{
	return some >= INT64_MAX || more >= INT64_MAX - some ? INT64_MAX : some + more;
}

/* Packets lost before read(), and when: each of them fell in [first_ns, last_ns] of the clock
 * that stamps the frames. */
struct mb_loss {
	int64_t first_ns, last_ns;
	uint64_t packets;
};

/* A loss is reported before any frame stamped more than this after its first_ns. */
#define MB_LOSS_DELAY_NS 1000000

/* What read() returns instead of a number of frames. */
#define MB_BACKEND_END (-0x10000) /* no more frames will come */

/* What a backend that counts by itself takes of this host. */
struct mb_backend_cost {
	uint32_t packet_ns;    /* of a processor, for each packet */
	uint64_t memory_bytes; /* of the kernel, with default widths */
};

struct mb_backend_ops {
	const char *name;
	/* One line: what it reads, for `mburst doctor`. */
	const char *description;
	/* Whether `auto` should try this backend for TARGET. */
	bool (*accepts)(const char *target);
	/* Where it does not open, `auto` tries the next. */
	bool gives_way;
	/* Bytes of backend->state, which mb_backend_open() allocates, all 0, and mb_backend_close() frees. */
	size_t state_size;
	/* Fill in backend->state. 0, or a negative errno with ERROR filled: close() is then called. */
	int (*open)(struct mb_backend *backend, const struct mb_backend_options *options, struct mb_error *error);
	/* Fill BATCH with up to MB_BATCH_FRAMES frames and return how many; 0 when none came
	 * within TIMEOUT_MS (of a file, when it has passed over much else); MB_BACKEND_END at the end; a negative errno
	 * with ERROR filled when the input is bad. Frames before the fault are yielded first:
	 * the error comes on a call of its own and stays (further calls repeat it).
	 * Frames stay valid until the next call on this backend. */
	int (*read)(struct mb_backend *backend, struct mb_batch *batch, int timeout_ms, struct mb_error *error);
	/* As read(), of a live backend that counts by itself and has no read(): fill COUNTS and return how many there
	 * are. NULL for a backend that yields frames. */
	int (*read_counts)(struct mb_backend *backend, struct mb_counts *counts, int timeout_ms,
			   struct mb_error *error);
	/* Where the next frames lie in memory, so that read() would only copy them out: set VIEW to
	 * frames of the first interface, one at least, that stay there until the next call on this
	 * backend. False when they do not: read() them. NULL: never. */
	bool (*look)(struct mb_backend *backend, struct mb_frame_view *view);
	/* Go on where VIEW now begins: FRAMES of BYTES before that, since look(), were taken off it. */
	void (*take)(struct mb_backend *backend, const struct mb_frame_view *view, uint64_t frames, uint64_t bytes);
	/* The interfaces seen so far. Grows while reading; entries never change once listed. */
	const struct mb_interface *(*interfaces)(const struct mb_backend *backend, size_t *count);
	void (*stats)(const struct mb_backend *backend, struct mb_backend_stats *stats);
	/* Take the oldest loss that was not taken yet; false when there is none. Ask after every
	 * read(), also one that yielded nothing, until it says false, before the frames of that
	 * read go into bins. Frames older than a loss's first_ns may still come (a full ring holds
	 * them), so its span may lie ahead of the frames: keep it until they have passed it.
	 * Every lost packet is in exactly one loss, and stats' `dropped` is their sum.
	 * NULL for a backend that cannot say when. */
	bool (*loss)(struct mb_backend *backend, struct mb_loss *loss);
	/* Whether this backend could capture from TARGET here and now (NULL: from any), for
	 * `mburst doctor`: 0, or a negative errno with the reason and the remedy in ERROR.
	 * Leaves nothing changed. NULL for a backend of files. */
	int (*check)(const char *target, struct mb_error *error);
	/* Measure COST here and now, where check() has nothing against it: 0 or a negative errno. NULL: not measured. */
	int (*cost)(struct mb_backend_cost *cost);
	/* Remarks that are not errors (a truncated end, say), a sentence a line, or NULL. */
	const char *(*notice)(const struct mb_backend *backend);
	/* What the interface had counted just before the first frame could come in. NULL for a backend that
	 * does not know. */
	const struct mb_device_counts *(*begun)(const struct mb_backend *backend);
	/* From when on it counts what it yields, in system time: another process had it counted before this one. 0: from
	 * open() on. NULL for a backend for which that is so. */
	int64_t (*since)(const struct mb_backend *backend);
	/* Undo what open() did, however far it came; what the kernel is to count on with (`pins`) stays. */
	void (*close)(struct mb_backend *backend);
};

struct mb_backend {
	const struct mb_backend_ops *ops;
	void *state;
	bool live;          /* open() says: frames come as they happen, silence is time passing, and
			     * reading ahead would wait */
	bool restores;      /* close() puts an interface back as it was, which needs CAP_NET_ADMIN */
	struct mb_error passed_over; /* why `auto` took none that gives way, or empty */
	bool starved;       /* the latest read() yielded nothing because nothing more had been written */
	volatile bool leaves; /* set before `stop`: what is pinned stays, for another process to go on from there */
	volatile bool stop; /* MB_BACKEND_END comes soon after this is set: from a file at once, live when
			     * the frames that had arrived by then are read */
};

/* NULL-terminated, in the order in which `auto` tries them. */
extern const struct mb_backend_ops *const mb_backends[];

extern const struct mb_backend_ops mb_backend_file;
extern const struct mb_backend_ops mb_backend_afpacket;
extern const struct mb_backend_ops mb_backend_libpcap;
extern const struct mb_backend_ops mb_backend_pfring;
extern const struct mb_backend_ops mb_backend_ebpf;

/* Open OPTIONS->target with the named backend or, by `auto`, the first that accepts it and does not give way. 0, or a negative errno with ERROR
 * filled. */
int mb_backend_open(struct mb_backend *backend, const struct mb_backend_options *options, struct mb_error *error);
void mb_backend_close(struct mb_backend *backend);

/* Whether nobody has named a backend. */
bool mb_backend_is_auto(const struct mb_backend_options *options);

static inline int mb_backend_read(struct mb_backend *backend, struct mb_batch *batch, int timeout_ms,
				  struct mb_error *error)
{
	return backend->ops->read(backend, batch, timeout_ms, error);
}

/* mb_backend_ops.look, for every backend. */
static inline bool mb_backend_look(struct mb_backend *backend, struct mb_frame_view *view)
{
	return backend->ops->look && backend->ops->look(backend, view);
}

static inline void mb_backend_take(struct mb_backend *backend, const struct mb_frame_view *view, uint64_t frames,
				   uint64_t bytes)
{
	backend->ops->take(backend, view, frames, bytes);
}

/* mb_backend_ops.loss, for every backend. */
static inline bool mb_backend_loss(struct mb_backend *backend, struct mb_loss *loss)
{
	return backend->ops->loss && backend->ops->loss(backend, loss);
}

static inline const struct mb_interface *mb_backend_interfaces(const struct mb_backend *backend, size_t *count)
{
	return backend->ops->interfaces(backend, count);
}

static inline void mb_backend_stop(struct mb_backend *backend)
{
	backend->stop = true;
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The contract of a backend, which yields the frames of a file or of a kind of interface. A backend is one file of this
 * folder that fills a struct mb_backend_ops; backend.c holds only the table of backends. There are two kinds: most
 * yield frames (read); one that counts by itself yields closed bins and their senders (read_counts).
 *
 * Life cycle: open → read … read → close. Only one thread at a time may use a backend; only mb_backend_stop() may be
 * called from another thread or a signal handler.
 */
#ifndef MB_BACKEND_H
#define MB_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "backend/counts.h"
#include "error.h"
#include "frame.h"
#include "frame_view.h"

struct mb_device_counts;
struct mb_backend;

/* Which stamps a live backend should request. The quality of each frame has the kind that it got. */
enum mb_stamps {
	MB_STAMPS_AUTO = 0, /* of the interface if it can stamp and its clock keeps system time, else software */
	MB_STAMPS_HW,       /* of the interface, or fail */
	MB_STAMPS_SW,       /* of the kernel */
};

/* Where the kernel counts frames that arrive (ebpf). */
enum mb_hook {
	MB_HOOK_TC = 0,      /* behind the driver and GRO */
	MB_HOOK_XDP,         /* in the driver, or fail */
	MB_HOOK_XDP_GENERIC, /* in the driver if possible, else behind it */
};

struct mb_backend_options {
	const char *target;  /* file name, "-" for standard input, or interface name */
	const char *backend; /* name of an entry of the table, or NULL / "auto" */
	const char *filter;  /* pcap filter expression, or NULL */

	/* The remaining options are for live backends. Zero is the default of each. */
	uint32_t snaplen;        /* bytes of each frame to keep; 0: MB_LIVE_SNAPLEN */
	uint32_t threads;        /* rings that share the load, each drained by its own thread; 0 or 1: one ring that
				  * the reader drains (only afpacket has more) */
	uint64_t ring_bytes;     /* kernel buffer of each ring; 0: MB_LIVE_RING_BYTES */
	enum mb_stamps stamps;
	uint8_t direction;       /* enum mb_direction: only frames of this direction; UNKNOWN: both */
	bool own_traffic;        /* leave promiscuous mode off: only frames to and from this host */
	uint32_t cluster;        /* pfring: share the load with other processes of this id; 0: alone */
	uint32_t beside;         /* other interfaces of this process: the memory of all together is bounded */

	/* How the engine uses the frames, for a backend that counts by itself. */
	int64_t bin_ns, source_bin_ns;
	bool inner;          /* a packet's sender is the source of the innermost IP header */
	bool splits_merged;  /* merged frames must be yielded one by one: their bytes are spread over time */
	bool keeps;          /* frames must be available for keeping (keep/keeper.h) */
	bool merges;         /* frames of several backends must be merged into one order */
	enum mb_hook hook;
	bool pins;           /* the kernel must continue to count after this process ends, for the next process */
	uint32_t pin_group;  /* the group that, like root, may remove the pinned program */
};

#define MB_LIVE_SNAPLEN 128
#define MB_LIVE_SNAPLEN_MAX 262144
#define MB_LIVE_RING_BYTES (64u << 20)
#define MB_LIVE_THREADS_MAX 64
#define MB_LIVE_REST_NS 100000000 /* how long a device that cannot be shut is read after a stop */

struct mb_backend_stats {
	uint64_t frames;     /* frames that read() has yielded */
	uint64_t bytes;      /* sum of their `len` */
	uint64_t filtered;   /* frames that the filter excluded, if the backend can count them */
	uint64_t dropped;    /* frames lost before read(), as the backend or the statistics in the file report */
	int64_t drop_first_ns, drop_last_ns; /* the span in which they were lost; 0 if unknown */
};

/* The sum of lost packets, limited to the largest number that a row can hold: the number in a file may be arbitrary. */
static inline uint64_t mb_add_saturating(uint64_t some, uint64_t more)
{
	return some >= INT64_MAX || more >= INT64_MAX - some ? INT64_MAX : some + more;
}

/* Packets lost before read(), and when: each was lost in [first_ns, last_ns] of the clock that stamps the frames. */
struct mb_loss {
	int64_t first_ns, last_ns;
	uint64_t packets;
	bool is_split; /* around a step of the clock: its parts before and after the step are two losses, and the
			* packets of both are in one of them; the other has 0 */
};

/* A loss is reported before any frame with a stamp more than this after the loss's first_ns. */
#define MB_LOSS_DELAY_NS 1000000

/* Returned by read() in place of a number of frames. */
#define MB_BACKEND_END (-0x10000) /* no more frames will come */

/* What a backend that counts by itself costs this host. */
struct mb_backend_cost {
	uint32_t packet_ns;    /* processor time for each packet */
	uint64_t memory_bytes; /* kernel memory, with default widths */
};

/* A function may be NULL if its comment says so. Where a function mb_backend_NAME() below checks that, others call it. */
struct mb_backend_ops {
	const char *name;
	/* One line for `mburst doctor`: what the backend reads. */
	const char *description;
	/* Whether `auto` should try this backend for TARGET. */
	bool (*accepts)(const char *target);
	/* If it cannot open the target, `auto` tries the next. */
	bool gives_way;
	/* Size of backend->state, which mb_backend_open() allocates and zeroes, and mb_backend_close() frees. */
	size_t state_size;
	/* Fill in backend->state. Returns 0, or a negative errno with ERROR filled: close() is then called. */
	int (*open)(struct mb_backend *backend, const struct mb_backend_options *options, struct mb_error *error);
	/* Fill BATCH with up to MB_BATCH_FRAMES frames and return their number. Returns 0 if none came within
	 * TIMEOUT_MS (for a file, if it skipped much other data), MB_BACKEND_END at the end, or a negative errno with
	 * ERROR filled if the input is damaged. Frames before the fault are yielded first: a later call returns the
	 * error, and all further calls repeat it. Frames stay valid until the next call on this backend. */
	int (*read)(struct mb_backend *backend, struct mb_batch *batch, int timeout_ms, struct mb_error *error);
	/* Like read(), for a live backend that counts by itself and has no read(): fill COUNTS and return their number.
	 * NULL for a backend that yields frames. */
	int (*read_counts)(struct mb_backend *backend, struct mb_counts *counts, int timeout_ms,
			   struct mb_error *error);
	/* Point VIEW at the next frames in memory, so that read() need not copy them: at least one frame, all of the
	 * first interface, valid until the next call on this backend. Returns false if they are not in memory: use
	 * read(). NULL: never. */
	bool (*look)(struct mb_backend *backend, struct mb_frame_view *view);
	/* Continue where VIEW now begins: since look(), the caller took FRAMES frames of BYTES bytes off its front. */
	void (*take)(struct mb_backend *backend, const struct mb_frame_view *view, uint64_t frames, uint64_t bytes);
	/* The interfaces seen so far. The list grows while reading; its entries never change. */
	const struct mb_interface *(*interfaces)(const struct mb_backend *backend, size_t *count);
	void (*stats)(const struct mb_backend *backend, struct mb_backend_stats *stats);
	/* Take the oldest loss that was not taken yet; returns false if there is none. Call it after every read(), even
	 * one that yielded nothing, until it returns false, before the frames of that read go into bins. Frames older
	 * than a loss's first_ns may still come (a full ring holds them), so the span of a loss may lie ahead of the
	 * frames: keep the loss until the frames have passed it. Every lost packet is in exactly one loss, and
	 * `dropped` of the statistics is their sum. NULL for a backend that does not know when packets were lost. */
	bool (*loss)(struct mb_backend *backend, struct mb_loss *loss);
	/* Whether this backend could capture from TARGET here and now (NULL: from any target), for `mburst doctor`.
	 * Returns 0, or a negative errno with the reason and the remedy in ERROR. It changes nothing permanently. NULL
	 * for a backend of files. */
	int (*check)(const char *target, struct mb_error *error);
	/* Measure COST here and now, if check() succeeded. Returns 0 or a negative errno. NULL: not measured. */
	int (*cost)(struct mb_backend_cost *cost);
	/* Returns remarks that are not errors (a truncated end, for example), one sentence a line, or NULL. NULL for a
	 * backend that has none. */
	const char *(*notice)(const struct mb_backend *backend);
	/* Counters of the interface just before the first frame could come in; NULL if they are not known. NULL for a
	 * backend that does not know them. */
	const struct mb_device_counts *(*begun)(const struct mb_backend *backend);
	/* The start of the yielded counts, in system time, if another process had the kernel count before this one. 0:
	 * the time of open(). NULL for a backend that always begins at open(). */
	int64_t (*since)(const struct mb_backend *backend);
	/* Undo open(), however far it came; a program that is pinned (`pins`) stays in the kernel. */
	void (*close)(struct mb_backend *backend);
};

struct mb_backend {
	const struct mb_backend_ops *ops;
	void *state;
	bool live;          /* set by open(): frames arrive in real time, so that silence means that time passes, and
			     * reading ahead would wait */
	clockid_t clock;    /* set by open() of a live backend: what stamps, CLOCK_REALTIME (0) or the clock of an
			     * interface */
	bool restores;      /* close() restores the settings of an interface, which needs CAP_NET_ADMIN */
	struct mb_error passed_over; /* the reason why `auto` skipped a backend that gives way, or empty */
	bool starved;       /* the latest read() yielded nothing because nothing more had been written */
	volatile bool leaves; /* set before `stop`: a pinned program stays, so that another process can continue
			       * there */
	volatile bool stop; /* after this is set, MB_BACKEND_END follows soon: from a file at once, live after the
			     * frames that had arrived by then */
};

/* NULL-terminated, in the order in which `auto` tries them. */
extern const struct mb_backend_ops *const mb_backends[];

extern const struct mb_backend_ops mb_backend_file;
extern const struct mb_backend_ops mb_backend_afpacket;
extern const struct mb_backend_ops mb_backend_libpcap;
extern const struct mb_backend_ops mb_backend_pfring;
extern const struct mb_backend_ops mb_backend_ebpf;

/* Open OPTIONS->target with the named backend or, with `auto`, with the first backend that accepts it and does not give
 * way. Returns 0, or a negative errno with ERROR filled. */
int mb_backend_open(struct mb_backend *backend, const struct mb_backend_options *options, struct mb_error *error);
void mb_backend_close(struct mb_backend *backend);

/* Whether no backend was named. */
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

/* mb_backend_ops.notice, for every backend. */
static inline const char *mb_backend_notice(const struct mb_backend *backend)
{
	return backend->ops->notice ? backend->ops->notice(backend) : NULL;
}

/* mb_backend_ops.begun, for every backend. */
static inline const struct mb_device_counts *mb_backend_begun(const struct mb_backend *backend)
{
	return backend->ops->begun ? backend->ops->begun(backend) : NULL;
}

/* mb_backend_ops.since, for every backend. */
static inline int64_t mb_backend_since(const struct mb_backend *backend)
{
	return backend->ops->since ? backend->ops->since(backend) : 0;
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

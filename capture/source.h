/* SPDX-License-Identifier: Apache-2.0
 *
 * The contract of a source of frames. A source is one file (source_*.c) that fills a
 * struct mb_source_ops; source.c holds the table of them and nothing else.
 *
 * Life: open → read … read → close. One thread at a time; mb_source_stop() alone may be
 * called from another thread or a signal handler.
 */
#ifndef MB_SOURCE_H
#define MB_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "frame.h"

struct mb_source;

struct mb_source_options {
	const char *target;  /* file name, "-" for standard input, or interface name */
	const char *backend; /* name of an entry of the table, or NULL / "auto" */
	const char *filter;  /* pcap filter expression, or NULL */
	uint32_t snaplen;    /* live sources: bytes of each frame to keep; 0 for their default */
};

struct mb_source_stats {
	uint64_t frames;     /* frames that read() has yielded */
	uint64_t bytes;      /* sum of their `len` */
	uint64_t filtered;   /* frames that the filter left out, where the source can count them */
	uint64_t dropped;    /* frames lost before read(), as the source or the file's own statistics say */
	int64_t drop_first_ns, drop_last_ns; /* the span in which they fell; 0 when not known */
};

/* What read() returns besides a number of frames. */
#define MB_SOURCE_END (-0x10000) /* no more frames will come */

struct mb_source_ops {
	const char *name;
	/* One line: what it reads, for `mburst doctor`. */
	const char *description;
	/* Whether `auto` should take this source for TARGET. */
	bool (*accepts)(const char *target);
	/* Allocate the source's state (source->state). 0, or a negative errno with ERROR filled. */
	int (*open)(struct mb_source *source, const struct mb_source_options *options,
		    struct mb_error *error);
	/* Fill BATCH with up to MB_BATCH_FRAMES frames and return how many; 0 when none came
	 * within TIMEOUT_MS (files never return 0); MB_SOURCE_END at the end; a negative errno
	 * with ERROR filled when the input is bad. Frames before the fault are yielded first:
	 * the error comes on a call of its own and stays (further calls repeat it).
	 * Frames stay valid until the next call on this source. */
	int (*read)(struct mb_source *source, struct mb_batch *batch, int timeout_ms,
		    struct mb_error *error);
	/* The interfaces seen so far. Grows while reading; entries never change once listed. */
	const struct mb_interface *(*interfaces)(const struct mb_source *source, size_t *count);
	void (*stats)(const struct mb_source *source, struct mb_source_stats *stats);
	/* Something a user should know that is no failure (a cut tail, say), or NULL. */
	const char *(*notice)(const struct mb_source *source);
	void (*close)(struct mb_source *source);
};

struct mb_source {
	const struct mb_source_ops *ops;
	void *state;
	volatile bool stop; /* read() returns MB_SOURCE_END soon after this is set */
};

/* NULL-terminated. */
extern const struct mb_source_ops *const mb_sources[];

extern const struct mb_source_ops mb_source_file;

/* Open OPTIONS->target with the named backend or the first that accepts it. */
int mb_source_open(struct mb_source *source, const struct mb_source_options *options,
		   struct mb_error *error);
void mb_source_close(struct mb_source *source);

static inline int mb_source_read(struct mb_source *source, struct mb_batch *batch,
				 int timeout_ms, struct mb_error *error)
{
	return source->ops->read(source, batch, timeout_ms, error);
}

static inline const struct mb_interface *mb_source_interfaces(const struct mb_source *source,
							       size_t *count)
{
	return source->ops->interfaces(source, count);
}

static inline void mb_source_stop(struct mb_source *source)
{
	source->stop = true;
}

#endif

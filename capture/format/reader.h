/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parsers of the file formats have in common: bytes in, frames and interfaces out.
 */
#ifndef MB_READER_H
#define MB_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/backend.h"
#include "error.h"
#include "format/input.h"
#include "format/interfaces.h"
#include "frame.h"

#define MB_FORMAT_MAGIC 4
/* A batch spans no more of the input than this (one frame may), so that memory stays bounded
 * however long the frames are. */
#define MB_BATCH_SPAN ((size_t)4 << 20)
/* A view spans less: it is looked at twice, and should still be in the cache then. Twice and half as
 * much measured the same. */
#define MB_VIEW_SPAN ((size_t)128 << 10)

struct mb_reader {
	struct mb_input input;
	struct mb_interfaces interfaces;
	bool swapped; /* the file's (or section's) byte order is not this machine's */
	char notice[MB_ERROR_LENGTH]; /* see struct mb_backend_ops; "" for none */
	const struct mb_format *format; /* NULL until the magic was seen */
	void *state;   /* the format's own */
};

struct mb_format {
	const char *name;
	bool (*matches)(const uint8_t magic[MB_FORMAT_MAGIC]);
	/* Read the file header, at which the input stands. enum mb_supply (never SHORT), of
	 * which LATE means to try again; or a negative errno. */
	int (*open)(struct mb_reader *reader, struct mb_error *error);
	/* As struct mb_backend_ops says of read(). */
	int (*read)(struct mb_reader *reader, struct mb_batch *batch, struct mb_error *error);
	/* As struct mb_backend_ops says of look(), where the input's window holds such frames. NULL: never. */
	bool (*look)(struct mb_reader *reader, struct mb_frame_view *view);
	/* Fill in `dropped` and the span of it. */
	void (*stats)(const struct mb_reader *reader, struct mb_backend_stats *stats);
	void (*close)(struct mb_reader *reader);
};

extern const struct mb_format mb_format_pcap;
extern const struct mb_format mb_format_pcapng;

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The common part of the parsers of file formats: bytes in, frames and interfaces out.
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
/* The input of a batch spans no more than this (except for one frame), so that memory stays bounded however long the
 * frames are. */
#define MB_BATCH_SPAN ((size_t)4 << 20)
/* A view spans less: it is read twice, and should still be in the cache the second time. Twice and half as much
 * measured the same. */
#define MB_VIEW_SPAN ((size_t)128 << 10)
/* How far ahead of a record or block the loops over them prefetch. 2 KiB measured best: 7.0 against 9.1 ns a packet of
 * 96 bytes (pcap). */
#define MB_PREFETCH 2048

struct mb_reader {
	struct mb_input input;
	struct mb_interfaces interfaces;
	bool swapped; /* the byte order of the file (or section) is not that of this machine */
	char notice[MB_ERROR_LENGTH]; /* see struct mb_backend_ops; "" for none */
	const struct mb_format *format; /* NULL until the magic was read */
	void *state;   /* owned by the format */
};

struct mb_format {
	const char *name;
	bool (*matches)(const uint8_t magic[MB_FORMAT_MAGIC]);
	/* Read the file header at the position of the input. Returns enum mb_supply (never SHORT; LATE means to try
	 * again), or a negative errno. */
	int (*open)(struct mb_reader *reader, struct mb_error *error);
	/* Like read() of struct mb_backend_ops. */
	int (*read)(struct mb_reader *reader, struct mb_batch *batch, struct mb_error *error);
	/* Like look() of struct mb_backend_ops, if the input's window holds such frames. NULL: never. */
	bool (*look)(struct mb_reader *reader, struct mb_frame_view *view);
	/* Fill in `dropped` and its time span. */
	void (*stats)(const struct mb_reader *reader, struct mb_backend_stats *stats);
	void (*close)(struct mb_reader *reader);
};

extern const struct mb_format mb_format_pcap;
extern const struct mb_format mb_format_pcapng;

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * gzip (RFC 1952), zstd (RFC 8878) and xz as a stream: bytes in, bytes out. Which of them
 * are compiled in is up to MB_HAVE_ZLIB, MB_HAVE_ZSTD and MB_HAVE_LZMA.
 */
#ifndef MB_DECOMPRESS_H
#define MB_DECOMPRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"

#define MB_COMPRESSION_MAGIC 6 /* bytes that distinguish the kinds */

enum mb_decompress {
	MB_DECOMPRESS_MORE, /* wants more input, or more room */
	MB_DECOMPRESS_DONE, /* complete; the input that is left is not part of it */
	MB_DECOMPRESS_CUT,  /* the input ended before the data did */
};

struct mb_decompressor {
	const struct mb_compression *kind;
	void *state;
	bool between; /* a member or frame is complete, and another may follow */
};

struct mb_compression {
	const char *name;    /* "gzip" */
	const char *tool;    /* command that writes the plain data to standard output */
	const char *package; /* the library that mburst has to be built with */
	bool (*matches)(const uint8_t *head, size_t length);
	/* NULL where the library was not there at build time. */
	int (*open)(struct mb_decompressor *decompressor);
	/* Take from IN, put to OUT; the lengths go in as room and come back as bytes used.
	 * LAST: nothing follows IN. enum mb_decompress, or -EBADMSG with REASON set. */
	int (*run)(struct mb_decompressor *decompressor, const uint8_t *in, size_t *in_length, uint8_t *out,
		   size_t *out_length, bool last, const char **reason);
	void (*close)(struct mb_decompressor *decompressor);
};

/* The compression whose magic HEAD begins with, or NULL. */
const struct mb_compression *mb_compression_find(const uint8_t *head, size_t length);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * gzip (RFC 1952), zstd (RFC 8878) and xz as streams: bytes in, bytes out. MB_HAVE_ZLIB, MB_HAVE_ZSTD and MB_HAVE_LZMA
 * determine which of them are compiled in.
 */
#ifndef MB_DECOMPRESS_H
#define MB_DECOMPRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"

#define MB_COMPRESSION_MAGIC 6 /* bytes that distinguish the kinds */

enum mb_decompress {
	MB_DECOMPRESS_MORE, /* needs more input, or more room */
	MB_DECOMPRESS_DONE, /* complete; the remaining input is not part of it */
	MB_DECOMPRESS_CUT,  /* the input ended before the data did */
};

struct mb_decompressor {
	const struct mb_compression *kind;
	void *state;
	bool between; /* a member or frame is complete, and another may follow */
};

struct mb_compression {
	const char *name;    /* "gzip" */
	const char *tool;    /* command that writes the decompressed data to standard output */
	const char *package; /* the library with which mburst must be built */
	bool (*matches)(const uint8_t *head, size_t length);
	/* NULL if the library did not exist at build time. */
	int (*open)(struct mb_decompressor *decompressor);
	/* Decompress from IN to OUT; the lengths are room on input and bytes used on return. LAST: nothing follows IN.
	 * Returns enum mb_decompress, or -EBADMSG with REASON set. */
	int (*run)(struct mb_decompressor *decompressor, const uint8_t *in, size_t *in_length, uint8_t *out,
		   size_t *out_length, bool last, const char **reason);
	void (*close)(struct mb_decompressor *decompressor);
};

/* The compression whose magic is at the start of HEAD, or NULL. */
const struct mb_compression *mb_compression_find(const uint8_t *head, size_t length);

#endif

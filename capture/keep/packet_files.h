/* SPDX-License-Identifier: Apache-2.0
 *
 * A rotating ring of pcapng files in a folder that nobody else writes to: NUMBER-FIRST.pcapng, a count and the stamp of
 * the first packet (Unix ns). A file gets this name once its header is written, and is named `.NUMBER.new` before. The
 * files of the folder together, including those of earlier rings, never exceed the limit: the oldest are removed before
 * a new one is begun. Only one thread at a time may use it.
 */
#ifndef MB_PACKET_FILES_H
#define MB_PACKET_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "frame.h"

#define MB_PACKET_FILES 16 /* the least number of files among which the limit is divided */

struct mb_packet_files_options {
	int folder;             /* a descriptor, owned by the caller */
	uint64_t most_bytes;    /* of all files together */
	uint64_t reserve_bytes; /* free bytes of the disk below which files are removed, then nothing is written */
};

struct mb_packet_file {
	uint64_t number, bytes;
	int64_t first_ns;
};

struct mb_packet_files {
	struct mb_packet_files_options options;
	struct mb_interface interface;
	char session[24]; /* differs from ring to ring */
	int file; /* -1: none is open */
	struct mb_packet_file *list; /* oldest first; the last is open if there is a `file` */
	size_t count, room;
	uint64_t file_bytes, total_bytes, next_number;
	int64_t looked_ns; /* CLOCK_MONOTONIC of the last check of the disk */
	bool is_short; /* whether space was short then */
};

/* Returns 0, or a negative errno with ERROR filled: close() is then called, too. */
int mb_packet_files_open(struct mb_packet_files *files, const struct mb_packet_files_options *options,
			 const struct mb_interface *interface, struct mb_error *error);

/* Open a file with room for LENGTH more bytes, which begin with a packet stamped FIRST_NS; *IS_NEW: a file with only
 * its header. Returns 0, or a negative errno with the reason in ERROR: nothing can be written now. */
int mb_packet_files_prepare(struct mb_packet_files *files, size_t length, int64_t first_ns, bool *is_new,
			    struct mb_error *error);

/* Write BYTES completely or not at all, after a mb_packet_files_prepare() for the same length. Returns the same
 * values. */
int mb_packet_files_write(struct mb_packet_files *files, const void *bytes, size_t length, struct mb_error *error);

void mb_packet_files_close(struct mb_packet_files *files);

#endif

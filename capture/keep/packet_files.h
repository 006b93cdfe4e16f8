/* SPDX-License-Identifier: Apache-2.0
 *
 * A rotating ring of pcapng files in a folder that nobody else writes to meanwhile: NUMBER-FIRST.pcapng, a count and the
 * stamp of the first packet (Unix ns). A file has that name once its header is written, and is `.NUMBER.new` before.
 * What the files of the folder take together, those of earlier rings included, never exceeds the limit: the oldest are
 * removed before a new one is begun. One thread at a time.
 */
#ifndef MB_PACKET_FILES_H
#define MB_PACKET_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "frame.h"

#define MB_PACKET_FILES 16 /* that the limit is divided into, or more */

struct mb_packet_files_options {
	int folder;             /* a descriptor, the caller's */
	uint64_t most_bytes;    /* of all files together */
	uint64_t reserve_bytes; /* free bytes of the disk below which files are given up, and then nothing is written */
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
	struct mb_packet_file *list; /* oldest first; the last is open where there is a `file` */
	size_t count, room;
	uint64_t file_bytes, total_bytes, next_number;
	int64_t looked_ns; /* CLOCK_MONOTONIC, when the room on the disk was last looked at */
	bool is_short; /* of room, then */
};

/* 0, or a negative errno with ERROR filled: close() is then called likewise. */
int mb_packet_files_open(struct mb_packet_files *files, const struct mb_packet_files_options *options,
			 const struct mb_interface *interface, struct mb_error *error);

/* Have a file that takes LENGTH more bytes, the first of a packet stamped FIRST_NS; *IS_NEW: one with its header alone.
 * 0, or a negative errno with the reason in ERROR: nothing can be written now. */
int mb_packet_files_prepare(struct mb_packet_files *files, size_t length, int64_t first_ns, bool *is_new,
			    struct mb_error *error);

/* Write BYTES whole or not at all behind a mb_packet_files_prepare() of as many. As that. */
int mb_packet_files_write(struct mb_packet_files *files, const void *bytes, size_t length, struct mb_error *error);

void mb_packet_files_close(struct mb_packet_files *files);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps the last packets of a live capture on the disk: what the engine has read goes into chunks of memory, and a thread
 * writes these to a ring of files (packet_files.h). The engine never waits for the disk. Where all chunks are full,
 * packets are not kept; they are counted, here and in the files: a chunk ends with the statistics of the interface in its
 * file (isb_ifrecv, isb_ifdrop), stamped with the time up to which all that came was kept or counted, and a comment
 * "not kept: N packets from NS to NS" where there are new ones.
 */
#ifndef MB_KEEPER_H
#define MB_KEEPER_H

#include <stdint.h>

#include "error.h"
#include "frame.h"
#include "keep/packet_files.h"

struct mb_keeper;

/* So far. */
struct mb_kept {
	uint64_t packets, bytes; /* that were written, with the bytes of their blocks */
	uint64_t lost;           /* packets that were not kept */
	char trouble[MB_ERROR_LENGTH]; /* why nothing can be written now; empty: it can */
};

/* NULL with ERROR filled. INTERFACE is that of all frames. */
struct mb_keeper *mb_keeper_open(const struct mb_packet_files_options *options, const struct mb_interface *interface,
				 struct mb_error *error);

/* Keep copies of FRAMES. */
void mb_keeper_add(struct mb_keeper *keeper, const struct mb_frame *frames, uint32_t count);

/* Nothing stamped before UNTIL_NS is to come. Call it ten times a second: chunks are handed over by time, too. */
void mb_keeper_pass(struct mb_keeper *keeper, int64_t until_ns);

void mb_keeper_state(struct mb_keeper *keeper, struct mb_kept *kept);

/* Write what is in memory. Nothing is added behind that; the state holds. */
void mb_keeper_finish(struct mb_keeper *keeper);

/* Finish, and release all. NULL is allowed. */
void mb_keeper_close(struct mb_keeper *keeper);

#endif

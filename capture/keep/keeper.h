/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps the last packets of a live capture on the disk: the engine copies the frames that it has read to chunks of
 * memory, and a thread writes these to a ring of files (packet_files.h). The engine never waits for the disk. If all
 * chunks are full, packets are not kept, but counted, here and in the files: a chunk ends with the statistics of the
 * interface in its file (isb_ifrecv, isb_ifdrop), stamped with the time up to which all packets were kept or counted. A
 * comment "not kept: N packets from NS to NS" is added if there are new ones that were not kept.
 */
#ifndef MB_KEEPER_H
#define MB_KEEPER_H

#include <stdint.h>

#include "error.h"
#include "frame.h"
#include "keep/packet_files.h"

struct mb_keeper;

/* Totals so far. */
struct mb_kept {
	uint64_t packets, bytes; /* written packets, and the bytes of their blocks */
	uint64_t lost;           /* packets that were not kept */
	char trouble[MB_ERROR_LENGTH]; /* why nothing can be written now; empty if writing works */
};

/* Returns NULL with ERROR filled on failure. All frames are of INTERFACE. */
struct mb_keeper *mb_keeper_open(const struct mb_packet_files_options *options, const struct mb_interface *interface,
				 struct mb_error *error);

/* Keep copies of FRAMES. */
void mb_keeper_add(struct mb_keeper *keeper, const struct mb_frame *frames, uint32_t count);

/* No frame with a stamp before UNTIL_NS will come. Call it ten times a second: chunks are handed over by time, too. */
void mb_keeper_pass(struct mb_keeper *keeper, int64_t until_ns);

void mb_keeper_state(struct mb_keeper *keeper, struct mb_kept *kept);

/* Write the frames in memory. No frame may be added after this; the totals stay available. */
void mb_keeper_finish(struct mb_keeper *keeper);

/* Finish, and release everything. NULL is allowed. */
void mb_keeper_close(struct mb_keeper *keeper);

#endif

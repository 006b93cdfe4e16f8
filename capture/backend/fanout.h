/* SPDX-License-Identifier: Apache-2.0
 *
 * Several rings on one interface that share its frames (PACKET_FANOUT). Each is drained by its own thread, pinned to a
 * CPU, and their frames are merged by time into one order. A frame waits until the other rings have yielded later
 * frames, or were found empty MB_FANOUT_BLOCK_TIMEOUT_NS after the frame was read. A thread that does not get to run is
 * awaited, but for no longer than MB_FANOUT_STALL_TIMEOUT_NS: its frames are then out of order.
 */
#ifndef MB_FANOUT_H
#define MB_FANOUT_H

#include "backend/drop_queue.h"
#include "backend/ring.h"

/* Twice the time for which the kernel keeps a block open. */
#define MB_FANOUT_BLOCK_TIMEOUT_NS (2 * MB_RING_RETIRE_MS * 1000000ll)
/* On a busy machine a thread may wait for its CPU for a large part of a second. The frames of the others wait in their
 * rings. */
#define MB_FANOUT_STALL_TIMEOUT_NS 1000000000ll

struct mb_fanout;

/* Have the kernel distribute frames over COUNT bound RINGS: by CPU if the interface has that many receive queues, else
 * in turn; if a ring is full, to the next. */
int mb_fanout_join(struct mb_ring *rings, uint32_t count, const struct mb_device *device, enum mb_direction direction,
		   struct mb_error *error);

/* Start the threads that drain COUNT RINGS, whose frames have up to SNAPLEN bytes. */
int mb_fanout_start(struct mb_fanout **fanout, struct mb_ring *rings, uint32_t count, uint32_t snaplen,
		    struct mb_error *error);
/* End the threads and free everything except the rings. NULL is allowed. */
void mb_fanout_stop(struct mb_fanout *fanout);

/* Have the threads read the rings to their end; nothing more may come into the rings. */
void mb_fanout_finish(struct mb_fanout *fanout);

/* Whether a ring failed. Let no more frames in, and call mb_fanout_finish(): after the last frame, read() returns the
 * failure. */
bool mb_fanout_has_failed(const struct mb_fanout *fanout);

/* Like mb_backend_ops.read, except for errors: returns -errno if the capture broke off. Losses that the threads noticed
 * go to LOSSES. */
int mb_fanout_read(struct mb_fanout *fanout, struct mb_batch *batch, int timeout_ms, struct mb_drop_queue *losses);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Several rings on one interface that share its frames (PACKET_FANOUT), each drained by a
 * thread of its own, pinned to a CPU, and merged by time into one order. A frame waits for
 * the other rings until they have shown later ones, or are found empty MB_FANOUT_BLOCK_TIMEOUT_NS after
 * it was read. A thread that does not get to run is waited for, but not for ever
 * (MB_FANOUT_STALL_TIMEOUT_NS): what it brings later is out of order.
 */
#ifndef MB_FANOUT_H
#define MB_FANOUT_H

#include "backend/drop_queue.h"
#include "backend/ring.h"

/* Twice the time that the kernel keeps a block open. */
#define MB_FANOUT_BLOCK_TIMEOUT_NS (2 * MB_RING_RETIRE_MS * 1000000ll)
/* On a busy machine a thread may wait for its CPU for a good part of a second. The frames of the others wait in their rings. */
#define MB_FANOUT_STALL_TIMEOUT_NS 1000000000ll

struct mb_fanout;

/* Have the kernel share out frames over COUNT bound RINGS: by CPU where the interface has
 * that many receive queues, else in turn; to the next ring when one is full. */
int mb_fanout_join(struct mb_ring *rings, uint32_t count, const struct mb_device *device, enum mb_direction direction,
		   struct mb_error *error);

/* Start the threads that drain COUNT RINGS, whose frames have up to SNAPLEN bytes. */
int mb_fanout_start(struct mb_fanout **fanout, struct mb_ring *rings, uint32_t count, uint32_t snaplen,
		    struct mb_error *error);
/* End the threads and free everything but the rings. NULL is fine. */
void mb_fanout_stop(struct mb_fanout *fanout);

/* Have the threads read to their end rings into which nothing more comes. */
void mb_fanout_finish(struct mb_fanout *fanout);

/* As mb_backend_ops.read, but for the error: -errno when the capture broke off. Losses that
 * the threads noticed go to LOSSES. */
int mb_fanout_read(struct mb_fanout *fanout, struct mb_batch *batch, int timeout_ms, struct mb_drop_queue *losses);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The losses of a live backend that were not taken yet: a short queue that never forgets a
 * packet. When it is full, the newest entry grows instead. Not for several threads at once.
 */
#ifndef MB_DROP_QUEUE_H
#define MB_DROP_QUEUE_H

#include "backend/backend.h"

#define MB_DROP_QUEUE_CAPACITY 64

struct mb_drop_queue {
	struct mb_loss losses[MB_DROP_QUEUE_CAPACITY];
	uint32_t oldest, count;
	uint64_t dropped;          /* packets of all losses ever added */
	int64_t first_ns, last_ns; /* what they span; 0 when there were none */
};

/* PACKETS lost between two readings of a counter, BEFORE and NOW. A clock that was set back
 * in between turns them around. */
static inline struct mb_loss mb_loss_between(int64_t before, int64_t now, uint64_t packets)
{
	return (struct mb_loss){
		.first_ns = before < now ? before : now,
		.last_ns = before < now ? now : before,
		.packets = packets,
	};
}

void mb_drop_queue_add(struct mb_drop_queue *queue, const struct mb_loss *loss);
/* As mb_backend_ops.loss. */
bool mb_drop_queue_take(struct mb_drop_queue *queue, struct mb_loss *loss);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The losses of a live backend that were not taken yet: a short queue that never forgets a packet. If it is full, the
 * newest entry grows instead. Only one thread at a time may use it.
 */
#ifndef MB_DROP_QUEUE_H
#define MB_DROP_QUEUE_H

#include "backend/backend.h"

#define MB_DROP_QUEUE_CAPACITY 64

struct mb_drop_queue {
	struct mb_loss losses[MB_DROP_QUEUE_CAPACITY];
	uint32_t oldest, count;
	uint64_t dropped;          /* packets of all losses ever added */
	int64_t first_ns, last_ns; /* the time that they span; 0 if there were none */
};

/* PACKETS lost between two readings of a counter, at BEFORE and NOW. If the clock was set back in between, they are
 * swapped. */
static inline struct mb_loss mb_loss_between(int64_t before, int64_t now, uint64_t packets)
{
	return (struct mb_loss){
		.first_ns = before < now ? before : now,
		.last_ns = before < now ? now : before,
		.packets = packets,
	};
}

void mb_drop_queue_add(struct mb_drop_queue *queue, const struct mb_loss *loss);
/* The loss that is taken after I others. */
static inline const struct mb_loss *mb_drop_queue_at(const struct mb_drop_queue *queue, uint32_t i)
{
	return &queue->losses[(queue->oldest + i) % MB_DROP_QUEUE_CAPACITY];
}
/* Like mb_backend_ops.loss. */
bool mb_drop_queue_take(struct mb_drop_queue *queue, struct mb_loss *loss);

#endif

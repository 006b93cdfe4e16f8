/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/drop_queue.h"

static void extend(int64_t *first_ns, int64_t *last_ns, const struct mb_loss *loss)
{
	if (loss->first_ns < *first_ns)
		*first_ns = loss->first_ns;
	if (loss->last_ns > *last_ns)
		*last_ns = loss->last_ns;
}

void mb_drop_queue_add(struct mb_drop_queue *queue, const struct mb_loss *loss)
{
	if (!queue->dropped) {
		queue->first_ns = loss->first_ns;
		queue->last_ns = loss->last_ns;
	}
	extend(&queue->first_ns, &queue->last_ns, loss);
	queue->dropped = mb_add_saturating(queue->dropped, loss->packets);
	if (queue->count == MB_DROP_QUEUE_CAPACITY) {
		uint32_t newest = (queue->oldest + queue->count - 1) % MB_DROP_QUEUE_CAPACITY;
		struct mb_loss *last = &queue->losses[newest];

		extend(&last->first_ns, &last->last_ns, loss);
		last->packets += loss->packets;
		last->is_split |= loss->is_split;
		return;
	}
	queue->losses[(queue->oldest + queue->count++) % MB_DROP_QUEUE_CAPACITY] = *loss;
}

bool mb_drop_queue_take(struct mb_drop_queue *queue, struct mb_loss *loss)
{
	if (!queue->count)
		return false;
	*loss = queue->losses[queue->oldest];
	queue->oldest = (queue->oldest + 1) % MB_DROP_QUEUE_CAPACITY;
	queue->count--;
	return true;
}

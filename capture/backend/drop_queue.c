/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/drop_queue.h"

static void extend(int64_t *first_ns, int64_t *last_ns, const struct mb_loss *loss)
{
	if (loss->first_ns < *first_ns)
		*first_ns = loss->first_ns;
	if (loss->last_ns > *last_ns)
		*last_ns = loss->last_ns;
}

void mb_losses_add(struct mb_losses *losses, const struct mb_loss *loss)
{
	if (!losses->dropped) {
		losses->first_ns = loss->first_ns;
		losses->last_ns = loss->last_ns;
	}
	extend(&losses->first_ns, &losses->last_ns, loss);
	losses->dropped = mb_lost_in_all(losses->dropped, loss->packets);
	if (losses->count == MB_LOSSES_CAPACITY) {
		uint32_t newest = (losses->oldest + losses->count - 1) % MB_LOSSES_CAPACITY;
		struct mb_loss *last = &losses->queue[newest];

		extend(&last->first_ns, &last->last_ns, loss);
		last->packets += loss->packets;
		return;
	}
	losses->queue[(losses->oldest + losses->count++) % MB_LOSSES_CAPACITY] = *loss;
}

bool mb_losses_take(struct mb_losses *losses, struct mb_loss *loss)
{
	if (!losses->count)
		return false;
	*loss = losses->queue[losses->oldest];
	losses->oldest = (losses->oldest + 1) % MB_LOSSES_CAPACITY;
	losses->count--;
	return true;
}

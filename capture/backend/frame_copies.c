/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/frame_copies.h"

#include <stdlib.h>

#define VLAN_TAG_SIZE 4
#define ALIGNMENT 16

bool mb_slots_init(struct mb_slots *slots, uint32_t snaplen, uint32_t budget)
{
	slots->size = (snaplen + VLAN_TAG_SIZE + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	slots->count = budget / slots->size;
	if (slots->count > MB_BATCH_FRAMES)
		slots->count = MB_BATCH_FRAMES;
	if (slots->count < 1)
		slots->count = 1;
	slots->bytes = malloc((size_t)slots->size * slots->count);
	return slots->bytes;
}

void mb_slots_deinit(struct mb_slots *slots)
{
	free(slots->bytes);
	slots->bytes = NULL;
}

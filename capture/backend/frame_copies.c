/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/frame_copies.h"

#include <stdlib.h>

#include "protocols.h"

#define ALIGNMENT 16

bool mb_frame_copies_init(struct mb_frame_copies *copies, uint32_t snaplen, uint32_t budget)
{
	copies->size = (snaplen + MB_VLAN_TAG + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	copies->count = budget / copies->size;
	if (copies->count > MB_BATCH_FRAMES)
		copies->count = MB_BATCH_FRAMES;
	if (copies->count < 1)
		copies->count = 1;
	copies->bytes = malloc((size_t)copies->size * copies->count);
	return copies->bytes;
}

void mb_frame_copies_deinit(struct mb_frame_copies *copies)
{
	free(copies->bytes);
	copies->bytes = NULL;
}

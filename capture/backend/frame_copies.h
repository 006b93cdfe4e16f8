/* SPDX-License-Identifier: Apache-2.0
 *
 * Room for the captured bytes of a batch, for sources whose own go stale while the rest of
 * the batch is read: a slot of fixed size for each frame.
 */
#ifndef MB_FRAME_COPIES_H
#define MB_FRAME_COPIES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "frame.h"

struct mb_slots {
	uint8_t *bytes;
	uint32_t size;  /* of a slot: the snap length, and a VLAN tag that is put back */
	uint32_t count; /* at most MB_BATCH_FRAMES, at least 1 */
};

/* Slots for frames of up to SNAPLEN bytes, as many as fit in BUDGET bytes. False when memory
 * is short. */
bool mb_slots_init(struct mb_slots *slots, uint32_t snaplen, uint32_t budget);
void mb_slots_deinit(struct mb_slots *slots);

/* Keep FRAME's bytes in slot INDEX, cut to its size, and have FRAME point there. */
static inline void mb_slots_keep(const struct mb_slots *slots, uint32_t index, struct mb_frame *frame)
{
	uint8_t *slot = slots->bytes + (size_t)index * slots->size;

	if (frame->caplen > slots->size)
		frame->caplen = slots->size;
	memcpy(slot, frame->data, frame->caplen);
	frame->data = slot;
}

#endif

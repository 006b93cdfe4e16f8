/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory for the captured bytes of a batch, for backends whose own bytes become invalid while the rest of the batch is
 * read: a copy of fixed size for each frame.
 */
#ifndef MB_FRAME_COPIES_H
#define MB_FRAME_COPIES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "frame.h"

/* The usual budget: captured bytes in a batch, unless a single frame has more. */
#define MB_FRAME_COPIES_BYTES (1u << 20)

struct mb_frame_copies {
	uint8_t *bytes;
	uint32_t size;  /* of a copy: the snap length, and room for a VLAN tag that is put back */
	uint32_t count; /* at most MB_BATCH_FRAMES, at least 1 */
};

/* Allocate slots for frames of up to SNAPLEN bytes, as many as fit in BUDGET bytes. Returns false if memory is out. */
bool mb_frame_copies_init(struct mb_frame_copies *copies, uint32_t snaplen, uint32_t budget);
void mb_frame_copies_deinit(struct mb_frame_copies *copies);

/* Copy FRAME's bytes to copy INDEX, cut to its size, and have FRAME point there. */
static inline void mb_frame_copies_keep(const struct mb_frame_copies *copies, uint32_t index, struct mb_frame *frame)
{
	uint8_t *copy = copies->bytes + (size_t)index * copies->size;

	if (frame->caplen > copies->size)
		frame->caplen = copies->size;
	memcpy(copy, frame->data, frame->caplen);
	frame->data = copy;
}

#endif

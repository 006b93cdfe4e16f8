/* SPDX-License-Identifier: Apache-2.0
 *
 * A number for each interface that has a name, found without a search however many there are.
 */
#ifndef MB_INTERFACE_INDEX_H
#define MB_INTERFACE_INDEX_H

#include <stdint.h>

#include "frame.h"
#include "seed.h"

/* All 0 is an empty one. */
struct mb_interface_index {
	struct mb_interface_entry *entries; /* a hash table */
	uint32_t capacity, count;
	uint32_t generation; /* entries of another generation are free */
	struct mb_seed seed;
};

/* The number that is kept for the interface called NAME that means by its frames what INTERFACE does (link type, FCS,
 * quality), and is the ORDINAL-th such: 0 when it is new. Good until the next call. NULL when memory is out. */
uint32_t *mb_interface_index_at(struct mb_interface_index *index, const char *name,
				const struct mb_interface *interface, uint32_t ordinal);

/* Forget all of them. */
void mb_interface_index_clear(struct mb_interface_index *index);
void mb_interface_index_deinit(struct mb_interface_index *index);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * A number for each interface that has a name, found by hashing, however many interfaces there are.
 */
#ifndef MB_INTERFACE_INDEX_H
#define MB_INTERFACE_INDEX_H

#include <stdint.h>

#include "frame.h"
#include "seed.h"

/* All 0 is an empty index. */
struct mb_interface_index {
	struct mb_interface_entry *entries; /* a hash table */
	uint32_t capacity, count;
	uint32_t generation; /* entries of another generation are free */
	struct mb_seed seed;
};

/* The number of the ORDINAL-th interface that is called NAME and whose frames have the same meaning as those of
 * INTERFACE (link type, FCS, quality): 0 if it is new. Valid until the next call. NULL if memory is out. */
uint32_t *mb_interface_index_at(struct mb_interface_index *index, const char *name,
				const struct mb_interface *interface, uint32_t ordinal);

/* Remove all entries. */
void mb_interface_index_clear(struct mb_interface_index *index);
void mb_interface_index_deinit(struct mb_interface_index *index);

#endif

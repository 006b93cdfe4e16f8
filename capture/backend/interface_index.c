/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/interface_index.h"

#include <stdlib.h>
#include <string.h>

#include "hash.h"

#define FIRST_ENTRIES 16
#define KEY_WORDS (sizeof(struct key) / sizeof(uint64_t))

struct key {
	char name[MB_INTERFACE_NAME];
	uint32_t linktype, fcs_len, quality, ordinal;
};

struct mb_interface_entry {
	struct key key;
	uint32_t number, generation;
};

static uint64_t hash_key(const struct mb_interface_index *index, const struct key *key)
{
	uint64_t words[KEY_WORDS], hash = index->seed.words[0];

	memcpy(words, key, sizeof(words));
	for (size_t i = 0; i < KEY_WORDS; i++)
		hash = mb_hash_fold(hash ^ words[i], index->seed.words[1] ^ hash);
	return mb_hash_again(hash, &index->seed);
}

/* The entry of KEY, or the free entry where it belongs. There must be one. */
static struct mb_interface_entry *find_entry(const struct mb_interface_index *index, const struct key *key)
{
	uint32_t mask = index->capacity - 1, i = (uint32_t)hash_key(index, key) & mask;

	mb_hash_step();
	while (index->entries[i].generation == index->generation && memcmp(&index->entries[i].key, key, sizeof(*key))) {
		i = (i + 1) & mask;
		mb_hash_step();
	}
	return &index->entries[i];
}

static bool grow(struct mb_interface_index *index)
{
	uint32_t old_capacity = index->capacity;
	struct mb_interface_entry *old = index->entries;
	uint32_t capacity = old_capacity ? 2 * old_capacity : FIRST_ENTRIES;
	struct mb_interface_entry *entries = calloc(capacity, sizeof(*entries));

	if (!entries)
		return false;
	if (!old) {
		mb_seed_init(&index->seed);
		index->generation = 1;
	}
	index->entries = entries;
	index->capacity = capacity;
	for (uint32_t i = 0; i < old_capacity; i++)
		if (old[i].generation == index->generation)
			*find_entry(index, &old[i].key) = old[i];
	free(old);
	return true;
}

uint32_t *mb_interface_index_at(struct mb_interface_index *index, const char *name,
				const struct mb_interface *interface, uint32_t ordinal)
{
	struct key key = {
		.linktype = interface->linktype,
		.fcs_len = interface->fcs_len,
		.quality = interface->quality,
		.ordinal = ordinal,
	};
	struct mb_interface_entry *entry;

	strncpy(key.name, name, sizeof(key.name) - 1);
	if (2 * index->count >= index->capacity && !grow(index))
		return NULL;
	entry = find_entry(index, &key);
	if (entry->generation != index->generation) {
		*entry = (struct mb_interface_entry){ .key = key, .generation = index->generation };
		index->count++;
	}
	return &entry->number;
}

void mb_interface_index_clear(struct mb_interface_index *index)
{
	if (index->generation == UINT32_MAX)
		mb_interface_index_deinit(index);
	index->generation += index->entries != NULL;
	index->count = 0;
}

void mb_interface_index_deinit(struct mb_interface_index *index)
{
	free(index->entries);
	*index = (struct mb_interface_index){ 0 };
}

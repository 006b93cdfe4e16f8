/* SPDX-License-Identifier: Apache-2.0 */
#include "arrow/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hash.h"

#define FIRST_ROWS 73728 /* the rows that an engine makes between two takes */

/* Address → index of its text, while the table is being filled. */
struct mb_interned {
	uint32_t mask, count;
	struct slot {
		struct mb_address address;
		int32_t index; /* -1: free */
	} slots[];
};

struct mb_table *mb_table_create(const struct mb_column *columns, uint32_t n_columns, const struct mb_seed *seed)
{
	struct mb_table *table = calloc(1, sizeof(*table));

	if (!table)
		return NULL;
	table->columns = columns;
	table->n_columns = n_columns;
	table->seed = *seed;
	table->references = 1;
	return table;
}

struct mb_table *mb_table_acquire(struct mb_table *table)
{
	__atomic_add_fetch(&table->references, 1, __ATOMIC_RELAXED);
	return table;
}

static void free_columns(void **data, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		free(data[i]);
}

void mb_table_release(struct mb_table *table)
{
	if (!table || __atomic_sub_fetch(&table->references, 1, __ATOMIC_ACQ_REL))
		return;
	free_columns(table->data, table->n_columns);
	free(table->texts.offsets);
	free(table->texts.bytes);
	free(table->interned);
	free(table);
}

/* Arrow requires an alignment of 8 bytes and recommends 64. But in glibc, memory from aligned_alloc() does not fit
 * another request of its own size after it was freed: the heap grew with every table. */
static int move_column(void **data, size_t width, size_t count, size_t capacity)
{
	void *moved = malloc(capacity * width);

	if (!moved)
		return -ENOMEM;
	if (count)
		memcpy(moved, *data, count * width);
	free(*data);
	*data = moved;
	return 0;
}

/* Move all columns to buffers of CAPACITY rows. */
static int resize(struct mb_table *table, size_t capacity)
{
	for (uint32_t i = 0; i < table->n_columns; i++)
		if (move_column(&table->data[i], table->columns[i].width, table->count, capacity))
			return -ENOMEM;
	table->capacity = capacity;
	return 0;
}

int mb_table_grow(struct mb_table *table, size_t rows)
{
	size_t capacity = table->capacity ? table->capacity : FIRST_ROWS;

	while (capacity < rows)
		capacity *= 2;
	return resize(table, capacity);
}

static struct mb_interned *interned_create(uint32_t slots)
{
	struct mb_interned *interned = malloc(sizeof(*interned) + slots * sizeof(interned->slots[0]));

	if (!interned)
		return NULL;
	interned->mask = slots - 1;
	interned->count = 0;
	for (uint32_t i = 0; i < slots; i++)
		interned->slots[i].index = -1;
	return interned;
}

static struct slot *find_slot(struct mb_interned *interned, const struct mb_address *address,
			      const struct mb_seed *seed)
{
	uint32_t i = (uint32_t)mb_hash_address(address, seed) & interned->mask;

	mb_hash_step();
	while (interned->slots[i].index >= 0 && !mb_address_equal(&interned->slots[i].address, address)) {
		i = (i + 1) & interned->mask;
		mb_hash_step();
	}
	return &interned->slots[i];
}

static int grow_interned(struct mb_table *table)
{
	struct mb_interned *old = table->interned;
	struct mb_interned *grown = interned_create(old ? 2 * (old->mask + 1) : 1024);

	if (!grown)
		return -ENOMEM;
	for (uint32_t i = 0; old && i <= old->mask; i++) {
		if (old->slots[i].index < 0)
			continue;
		*find_slot(grown, &old->slots[i].address, &table->seed) = old->slots[i];
		grown->count++;
	}
	free(old);
	table->interned = grown;
	return 0;
}

static int32_t add_text(struct mb_texts *texts, const char *text, size_t length)
{
	if (texts->count == texts->capacity) {
		uint32_t capacity = texts->capacity ? 2 * texts->capacity : 1024;
		int32_t *offsets = realloc(texts->offsets, (capacity + 1) * sizeof(*offsets));

		if (!offsets)
			return -ENOMEM;
		texts->offsets = offsets;
		texts->capacity = capacity;
		if (!texts->count)
			offsets[0] = 0;
	}
	size_t end = texts->offsets[texts->count] + length;
	if (end > texts->bytes_capacity) {
		size_t capacity = texts->bytes_capacity ? 2 * texts->bytes_capacity : 16384;
		char *bytes = realloc(texts->bytes, capacity);

		if (!bytes)
			return -ENOMEM;
		texts->bytes = bytes;
		texts->bytes_capacity = capacity;
	}
	memcpy(texts->bytes + texts->offsets[texts->count], text, length);
	texts->offsets[texts->count + 1] = (int32_t)end;
	return (int32_t)texts->count++;
}

int32_t mb_table_intern(struct mb_table *table, const struct mb_address *address)
{
	char text[MB_ADDRESS_TEXT] = "other";
	int length = 5;
	struct slot *slot;

	if ((!table->interned || 2 * table->interned->count > table->interned->mask) && grow_interned(table))
		return -ENOMEM;
	slot = find_slot(table->interned, address, &table->seed);
	if (slot->index >= 0)
		return slot->index;
	if (address->family != MB_FAMILY_NONE)
		length = mb_address_format(address, text);
	int32_t index = add_text(&table->texts, text, (size_t)length);
	if (index < 0)
		return index;
	slot->address = *address;
	slot->index = index;
	table->interned->count++;
	return index;
}

/* Copy the columns to buffers of COUNT rows, and pass the buffers in which they were filled on to NEXT, so that it need
 * not ask the system for memory again. If there is no memory for the copies, the columns stay where they are. */
static void pass_on(struct mb_table *table, struct mb_table *next)
{
	void *copies[MB_TABLE_COLUMNS];

	for (uint32_t i = 0; i < table->n_columns; i++) {
		const size_t size = table->count * table->columns[i].width;

		copies[i] = malloc(size);
		if (!copies[i] && size) {
			free_columns(copies, i);
			return;
		}
		if (size)
			memcpy(copies[i], table->data[i], size);
	}
	free_columns(next->data, next->n_columns);
	memcpy(next->data, table->data, sizeof(next->data));
	memcpy(table->data, copies, table->n_columns * sizeof(copies[0]));
	next->capacity = table->capacity;
	table->capacity = table->count;
}

void mb_table_seal(struct mb_table *table, struct mb_table *next)
{
	free(table->interned);
	table->interned = NULL;
	/* A table with few rows that is kept for long should not keep memory for many. */
	if (table->count < table->capacity / 4)
		pass_on(table, next);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows on their way to Arrow: fixed-width columns that grow together, and one optional
 * column of texts, dictionary-encoded. A table is filled by one owner and then shared,
 * read-only, by reference.
 */
#ifndef MB_TABLE_H
#define MB_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "decode/decode.h"

#define MB_TABLE_COLUMNS 16

struct mb_column {
	const char *name;
	const char *format; /* Arrow C data interface: "l" int64, "I" uint32, "S" uint16, "s" int16;
			     * "i" with `dictionary` set: index into the table's texts */
	uint8_t width;      /* bytes of a value */
	uint8_t dictionary;
};

/* An index into the table's texts. */
typedef int32_t mb_text;

/* The struct mb_column of a column of the C type TYPE, which must have a format here. */
#define MB_COLUMN(name, type) { #name, MB_FORMAT_##type, sizeof(type), MB_DICTIONARY_##type }
#define MB_FORMAT_int64_t "l"
#define MB_FORMAT_uint32_t "I"
#define MB_FORMAT_uint16_t "S"
#define MB_FORMAT_int16_t "s"
#define MB_FORMAT_mb_text "i"
#define MB_DICTIONARY_int64_t 0
#define MB_DICTIONARY_uint32_t 0
#define MB_DICTIONARY_uint16_t 0
#define MB_DICTIONARY_int16_t 0
#define MB_DICTIONARY_mb_text 1

/* Set row ROW of column COLUMN of a table that has room for it; TYPE is the C type of the column. */
#define MB_SET(table, column, row, type, value) (((type *)(table)->data[column])[row] = (type)(value))

/* Texts of a table's dictionary column, in Arrow's utf8 layout. */
struct mb_texts {
	uint32_t count, capacity;
	int32_t *offsets; /* count + 1 */
	char *bytes;
	size_t bytes_capacity;
};

struct mb_table {
	const struct mb_column *columns;
	uint32_t n_columns;
	size_t count, capacity;
	void *data[MB_TABLE_COLUMNS];
	uint32_t nulls; /* bit i: column i is NULL in every row; its data is 0 nevertheless */
	struct mb_texts texts;
	struct mb_interned *interned;
	struct mb_seed seed;
	int references;
};

/* A table with one reference; NULL if memory is out. COLUMNS remains the caller's. SEED is used for the hashes. */
struct mb_table *mb_table_create(const struct mb_column *columns, uint32_t n_columns, const struct mb_seed *seed);
struct mb_table *mb_table_acquire(struct mb_table *table);
/* Drop a reference; the last one frees the table. NULL is allowed. */
void mb_table_release(struct mb_table *table);

/* Make room for at least ROWS rows. Returns 0 or -ENOMEM. */
int mb_table_grow(struct mb_table *table, size_t rows);

/* Make room for MORE rows after `count`. Returns 0 or -ENOMEM. */
static inline int mb_table_reserve(struct mb_table *table, size_t more)
{
	return table->count + more <= table->capacity ? 0 : mb_table_grow(table, table->count + more);
}

/* Returns the index of the text of ADDRESS, which is added if it is new; family NONE stands for "other". Negative:
 * -ENOMEM. */
int32_t mb_table_intern(struct mb_table *table, const struct mb_address *address);

/* Release the memory that only filling needs. If that is much more than the rows take, it passes to NEXT, which has the
 * same columns and no rows, and is filled next. Call this before the table is shared. */
void mb_table_seal(struct mb_table *table, struct mb_table *next);

#endif

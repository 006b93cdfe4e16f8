/* SPDX-License-Identifier: Apache-2.0 */
#include "arrow/arrow.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Every schema and array owns its memory and holds its own reference to the table, so that a consumer may move children
 * out and release them after their parent. */

struct schema_node {
	struct ArrowSchema dictionary;
	struct ArrowSchema *pointers[MB_TABLE_COLUMNS];
	struct ArrowSchema children[];
};

struct array_node {
	struct mb_table *table;
	const void *buffers[3];
	struct ArrowArray dictionary;
	struct ArrowArray *pointers[MB_TABLE_COLUMNS];
	struct ArrowArray children[];
};

struct stream_state {
	struct mb_table *table;
	bool done;
};

static void release_schema(struct ArrowSchema *schema)
{
	for (int64_t i = 0; i < schema->n_children; i++)
		if (schema->children[i]->release)
			schema->children[i]->release(schema->children[i]);
	if (schema->dictionary && schema->dictionary->release)
		schema->dictionary->release(schema->dictionary);
	free(schema->private_data);
	schema->release = NULL;
}

static struct schema_node *make_schema(struct ArrowSchema *schema, const char *format, const char *name,
				       uint32_t n_children)
{
	struct schema_node *node = calloc(1, sizeof(*node) + n_children * sizeof(*node->children));

	if (!node)
		return NULL;
	for (uint32_t i = 0; i < n_children; i++)
		node->pointers[i] = &node->children[i];
	*schema = (struct ArrowSchema){
		.format = format,
		.name = name,
		.n_children = n_children,
		.children = n_children ? node->pointers : NULL,
		.release = release_schema,
		.private_data = node,
	};
	return node;
}

static int make_column_schema(struct ArrowSchema *schema, const struct mb_column *column)
{
	struct schema_node *node = make_schema(schema, column->format, column->name, 0);

	if (!node)
		return ENOMEM;
	if (!column->dictionary)
		return 0;
	schema->dictionary = &node->dictionary;
	return make_schema(&node->dictionary, "u", "", 0) ? 0 : ENOMEM;
}

int mb_arrow_schema(const struct mb_table *table, struct ArrowSchema *schema)
{
	struct schema_node *node = make_schema(schema, "+s", "", table->n_columns);

	if (!node)
		return ENOMEM;
	for (uint32_t i = 0; i < table->n_columns; i++) {
		if (make_column_schema(&node->children[i], &table->columns[i])) {
			release_schema(schema);
			return ENOMEM;
		}
		if (table->nulls >> i & 1)
			node->children[i].flags = ARROW_FLAG_NULLABLE;
	}
	return 0;
}

static void release_array(struct ArrowArray *array)
{
	struct array_node *node = array->private_data;

	for (int64_t i = 0; i < array->n_children; i++)
		if (array->children[i]->release)
			array->children[i]->release(array->children[i]);
	if (array->dictionary && array->dictionary->release)
		array->dictionary->release(array->dictionary);
	mb_table_release(node->table);
	free(node);
	array->release = NULL;
}

/* An array over LENGTH rows of TABLE; the caller fills its buffers. */
static struct array_node *make_array(struct ArrowArray *array, struct mb_table *table, size_t length, int64_t n_buffers,
				     uint32_t n_children)
{
	struct array_node *node = calloc(1, sizeof(*node) + n_children * sizeof(*node->children));

	if (!node)
		return NULL;
	node->table = mb_table_acquire(table);
	for (uint32_t i = 0; i < n_children; i++)
		node->pointers[i] = &node->children[i];
	*array = (struct ArrowArray){
		.length = (int64_t)length,
		.n_buffers = n_buffers,
		.buffers = node->buffers,
		.n_children = n_children,
		.children = n_children ? node->pointers : NULL,
		.release = release_array,
		.private_data = node,
	};
	return node;
}

static int make_texts(struct ArrowArray *array, struct mb_table *table)
{
	static const int32_t no_texts[1] = { 0 };
	struct array_node *node = make_array(array, table, table->texts.count, 3, 0);

	if (!node)
		return ENOMEM;
	node->buffers[1] = table->texts.offsets ? table->texts.offsets : no_texts;
	node->buffers[2] = table->texts.bytes ? table->texts.bytes : "";
	return 0;
}

static int make_column(struct ArrowArray *array, struct mb_table *table, uint32_t i)
{
	struct array_node *node = make_array(array, table, table->count, 2, 0);

	if (!node)
		return ENOMEM;
	node->buffers[1] = table->data[i];
	if (table->nulls >> i & 1) {
		node->buffers[0] = table->data[i]; /* its zeros are more than a bit for each row, and no bit is set */
		array->null_count = array->length;
	}
	if (!table->columns[i].dictionary)
		return 0;
	array->dictionary = &node->dictionary;
	return make_texts(&node->dictionary, table);
}

static int make_rows(struct ArrowArray *array, struct mb_table *table)
{
	struct array_node *node = make_array(array, table, table->count, 1, table->n_columns);

	if (!node)
		return ENOMEM;
	for (uint32_t i = 0; i < table->n_columns; i++) {
		if (make_column(&node->children[i], table, i)) {
			release_array(array);
			return ENOMEM;
		}
	}
	return 0;
}

static int stream_schema(struct ArrowArrayStream *stream, struct ArrowSchema *schema)
{
	struct stream_state *state = stream->private_data;

	return mb_arrow_schema(state->table, schema);
}

static int stream_next(struct ArrowArrayStream *stream, struct ArrowArray *array)
{
	struct stream_state *state = stream->private_data;

	if (state->done || !state->table->count) {
		memset(array, 0, sizeof(*array));
		return 0;
	}
	state->done = true;
	return make_rows(array, state->table);
}

/* The only error is ENOMEM, which needs no message. */
static const char *stream_error(struct ArrowArrayStream *stream)
{
	(void)stream;
	return NULL;
}

static void stream_release(struct ArrowArrayStream *stream)
{
	struct stream_state *state = stream->private_data;

	mb_table_release(state->table);
	free(state);
	stream->release = NULL;
}

int mb_arrow_stream(struct mb_table *table, struct ArrowArrayStream *stream)
{
	struct stream_state *state = calloc(1, sizeof(*state));

	if (!state)
		return ENOMEM;
	state->table = mb_table_acquire(table);
	*stream = (struct ArrowArrayStream){
		.get_schema = stream_schema,
		.get_next = stream_next,
		.get_last_error = stream_error,
		.release = stream_release,
		.private_data = state,
	};
	return 0;
}

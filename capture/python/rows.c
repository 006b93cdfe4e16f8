/* SPDX-License-Identifier: Apache-2.0
 *
 * The type Rows: a table with the Arrow PyCapsule protocol.
 */
#include "python/module.h"

#include <stdlib.h>

#include "arrow/arrow.h"

struct rows_object {
	PyObject_HEAD struct mb_table *table;
};

static void rows_dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);

	mb_table_release(((struct rows_object *)self)->table);
	PyObject_Free(self);
	Py_DECREF(type);
}

static Py_ssize_t rows_length(PyObject *self)
{
	return (Py_ssize_t)((struct rows_object *)self)->table->count;
}

static void free_stream(PyObject *capsule)
{
	struct ArrowArrayStream *stream = PyCapsule_GetPointer(capsule, "arrow_array_stream");

	if (stream->release)
		stream->release(stream);
	free(stream);
}

static void free_schema(PyObject *capsule)
{
	struct ArrowSchema *schema = PyCapsule_GetPointer(capsule, "arrow_schema");

	if (schema->release)
		schema->release(schema);
	free(schema);
}

static PyObject *rows_stream(PyObject *self, PyObject *args, PyObject *keywords)
{
	static char *names[] = { "requested_schema", NULL };
	PyObject *requested = Py_None;
	struct ArrowArrayStream *stream;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O", names, &requested))
		return NULL;
	stream = calloc(1, sizeof(*stream));
	if (!stream || mb_arrow_stream(((struct rows_object *)self)->table, stream)) {
		free(stream);
		return PyErr_NoMemory();
	}
	return PyCapsule_New(stream, "arrow_array_stream", free_stream);
}

static PyObject *rows_schema(PyObject *self, PyObject *unused)
{
	struct ArrowSchema *schema = calloc(1, sizeof(*schema));

	(void)unused;
	if (!schema || mb_arrow_schema(((struct rows_object *)self)->table, schema)) {
		free(schema);
		return PyErr_NoMemory();
	}
	return PyCapsule_New(schema, "arrow_schema", free_schema);
}

static PyMethodDef rows_methods[] = {
	{ "__arrow_c_stream__", (PyCFunction)(void (*)(void))rows_stream, METH_VARARGS | METH_KEYWORDS, NULL },
	{ "__arrow_c_schema__", rows_schema, METH_NOARGS, NULL },
	{ 0 },
};

static PyType_Slot rows_slots[] = {
	{ Py_tp_dealloc, rows_dealloc },
	{ Py_tp_methods, rows_methods },
	{ Py_sq_length, rows_length },
	{ 0, NULL },
};

PyType_Spec mb_rows_spec = {
	.name = "mburst.capture._engine.Rows",
	.basicsize = sizeof(struct rows_object),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = rows_slots,
};

PyObject *mb_make_rows(struct mb_module_state *state, struct mb_table *table)
{
	struct rows_object *rows = PyObject_New(struct rows_object, state->rows_type);

	if (!rows) {
		mb_table_release(table);
		return NULL;
	}
	rows->table = table;
	return (PyObject *)rows;
}

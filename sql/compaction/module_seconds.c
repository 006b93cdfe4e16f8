/* SPDX-License-Identifier: Apache-2.0
 *
 * The Python module mburst.sql.compaction._seconds.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>

#include "seconds.h"

#define COLUMNS 5 /* of bins, before the counters */

struct seconds_object {
	PyObject_HEAD struct mb_seconds seconds;
	bool bits[MB_MOST_COUNTERS];
};

/* The buffers of one call. */
struct buffers {
	Py_buffer of[COLUMNS + 2 * MB_MOST_COUNTERS];
	size_t count;
};

static void release(struct buffers *buffers)
{
	while (buffers->count)
		PyBuffer_Release(&buffers->of[--buffers->count]);
}

/* Returns the COUNT values of OBJECT, of SIZE bytes each. NULL with an exception set. */
static const void *values(struct buffers *buffers, PyObject *object, size_t count, size_t size)
{
	Py_buffer *buffer = &buffers->of[buffers->count];

	if (!object || PyObject_GetBuffer(object, buffer, PyBUF_SIMPLE))
		return NULL;
	buffers->count++;
	if ((size_t)buffer->len == count * size)
		return buffer->buf;
	PyErr_SetString(PyExc_ValueError, "columns of bins differ in length, or in type");
	return NULL;
}

/* Returns item I of LIST, a tuple, borrowed. NULL with an exception set. */
static PyObject *tuple_of(PyObject *list, Py_ssize_t i)
{
	PyObject *item = PyList_GetItem(list, i);

	if (item && PyTuple_Check(item))
		return item;
	if (item)
		PyErr_SetString(PyExc_TypeError, "not a tuple");
	return NULL;
}

/* Read the counters of LIST: pairs of values and which of them are known, or None. -1 with an exception set. */
static int read_counters(struct seconds_object *self, struct buffers *buffers, PyObject *list, size_t count,
			 struct mb_counter *counters)
{
	if (PyList_Size(list) != (Py_ssize_t)self->seconds.options.n_counters) {
		PyErr_SetString(PyExc_ValueError, "not as many counters as were announced");
		return -1;
	}
	for (Py_ssize_t i = 0; i < PyList_Size(list); i++) {
		PyObject *pair = tuple_of(list, i), *known = pair ? PyTuple_GetItem(pair, 1) : NULL;

		if (!known)
			return -1;
		counters[i].bits = self->bits[i];
		counters[i].values = values(buffers, PyTuple_GetItem(pair, 0), count, sizeof(int64_t));
		counters[i].known = known == Py_None ? NULL : values(buffers, known, count, 1);
		if (!counters[i].values || (known != Py_None && !counters[i].known))
			return -1;
	}
	return 0;
}

/* (ts_ns, bytes, wire_bytes, packets, quality, counters) */
static int read_bins(struct seconds_object *self, struct buffers *buffers, PyObject *args, struct mb_bins *bins,
		     struct mb_counter *counters)
{
	PyObject *ts_ns, *bytes, *wire_bytes, *packets, *quality, *list;
	Py_ssize_t length;

	if (!PyArg_ParseTuple(args, "OOOOOO!", &ts_ns, &bytes, &wire_bytes, &packets, &quality, &PyList_Type, &list))
		return -1;
	length = PyObject_Size(ts_ns);
	if (length < 0)
		return -1;
	bins->count = (size_t)length;
	bins->ts_ns = values(buffers, ts_ns, bins->count, sizeof(*bins->ts_ns));
	bins->bytes = bins->ts_ns ? values(buffers, bytes, bins->count, sizeof(*bins->bytes)) : NULL;
	bins->wire_bytes = bins->bytes ? values(buffers, wire_bytes, bins->count, sizeof(*bins->wire_bytes)) : NULL;
	bins->packets = bins->wire_bytes ? values(buffers, packets, bins->count, sizeof(*bins->packets)) : NULL;
	bins->quality = bins->packets ? values(buffers, quality, bins->count, sizeof(*bins->quality)) : NULL;
	bins->counters = counters;
	return bins->quality ? read_counters(self, buffers, list, bins->count, counters) : -1;
}

static PyObject *seconds_add(PyObject *object, PyObject *args)
{
	struct seconds_object *self = (struct seconds_object *)object;
	struct mb_counter counters[MB_MOST_COUNTERS];
	struct buffers buffers = { .count = 0 };
	struct mb_bins bins;
	int code;

	if (read_bins(self, &buffers, args, &bins, counters)) {
		release(&buffers);
		return NULL;
	}
	Py_BEGIN_ALLOW_THREADS;
	code = mb_seconds_add(&self->seconds, &bins);
	Py_END_ALLOW_THREADS;
	release(&buffers);
	return code == -ENOMEM ? PyErr_NoMemory() : PyBool_FromLong(!code);
}

static PyObject *taken(const struct mb_numbers *numbers)
{
	return PyBytes_FromStringAndSize((const char *)numbers->at,
					 (Py_ssize_t)(numbers->count * sizeof(*numbers->at)));
}

static PyObject *seconds_end(PyObject *object, PyObject *unused)
{
	struct mb_seconds *seconds = &((struct seconds_object *)object)->seconds;
	PyObject *wide;

	(void)unused;
	if (mb_seconds_end(seconds))
		return PyErr_NoMemory();
	wide = PyList_New((Py_ssize_t)seconds->options.n_widths);
	for (size_t i = 0; wide && i < seconds->options.n_widths; i++)
		PyList_SetItem(wide, (Py_ssize_t)i, taken(&seconds->wide[i]));
	return Py_BuildValue("NNN", taken(&seconds->seconds), taken(&seconds->full), wide);
}

/* Read the widths of LIST: milliseconds, bytes and gap each. -1 with an exception set. */
static int read_widths(struct mb_seconds_options *options, PyObject *list)
{
	if (PyList_Size(list) > MB_MOST_WIDTHS) {
		PyErr_SetString(PyExc_ValueError, "too many widths");
		return -1;
	}
	for (Py_ssize_t i = 0; i < PyList_Size(list); i++) {
		struct mb_width *width = &options->widths[options->n_widths++];
		PyObject *item = tuple_of(list, i);
		long long full_bytes, gap_ns;

		if (!item || !PyArg_ParseTuple(item, "ILL", &width->ms, &full_bytes, &gap_ns))
			return -1;
		width->full_bytes = full_bytes;
		width->gap_ns = gap_ns;
		if (!width->ms || 1000 % width->ms || gap_ns < 0) {
			PyErr_SetString(PyExc_ValueError,
					"a width that does not divide a second, or a gap that is negative");
			return -1;
		}
	}
	return 0;
}

/* (bits: list[bool], losing, full_bytes, full_gap_ns, widths) */
static PyObject *seconds_new(PyTypeObject *type, PyObject *args, PyObject *unused)
{
	struct mb_seconds_options options = { 0 };
	struct seconds_object *self;
	long long full_bytes, full_gap_ns;
	PyObject *bits, *widths;

	(void)unused;
	if (!PyArg_ParseTuple(args, "O!HLLO!", &PyList_Type, &bits, &options.losing, &full_bytes, &full_gap_ns,
			      &PyList_Type, &widths) ||
	    read_widths(&options, widths))
		return NULL;
	options.n_counters = (size_t)PyList_Size(bits);
	if (options.n_counters > MB_MOST_COUNTERS || full_gap_ns < 0) {
		PyErr_SetString(PyExc_ValueError, "too many counters, or a gap that is negative");
		return NULL;
	}
	options.full_bytes = full_bytes;
	options.full_gap_ns = full_gap_ns;
	self = (struct seconds_object *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
	if (!self)
		return NULL;
	self->seconds.options = options;
	for (size_t i = 0; i < options.n_counters; i++)
		self->bits[i] = PyObject_IsTrue(PyList_GetItem(bits, (Py_ssize_t)i)) == 1;
	return (PyObject *)self;
}

static void seconds_dealloc(PyObject *object)
{
	PyTypeObject *type = Py_TYPE(object);

	mb_seconds_free(&((struct seconds_object *)object)->seconds);
	((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
	Py_DECREF(type);
}

static PyMethodDef methods[] = {
	{ "add", seconds_add, METH_VARARGS, NULL },
	{ "end", seconds_end, METH_NOARGS, NULL },
	{ NULL, NULL, 0, NULL },
};

static PyType_Slot type_slots[] = {
	{ Py_tp_new, seconds_new },
	{ Py_tp_dealloc, seconds_dealloc },
	{ Py_tp_methods, methods },
	{ 0, NULL },
};

static PyType_Spec type_spec = {
	.name = "mburst.sql.compaction._seconds.Seconds",
	.basicsize = sizeof(struct seconds_object),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = type_slots,
};

static const char *const fields[MB_SECOND_FIELDS] = {
	[MB_TS_NS] = "ts_ns",
	[MB_FIRST_NS] = "first_ns",
	[MB_LAST_NS] = "last_ns",
	[MB_BINS] = "bins",
	[MB_LOSING_BINS] = "losing_bins",
	[MB_BYTES] = "bytes",
	[MB_WIRE_BYTES] = "wire_bytes",
	[MB_PACKETS] = "packets",
	[MB_QUALITY] = "quality",
	[MB_PEAK] = "peak_bytes",
	[MB_OF_1MS] = "of_1ms",
	[MB_OF_10MS] = "of_10ms",
	[MB_OF_100MS] = "of_100ms",
};

static int module_exec(PyObject *module)
{
	PyObject *type = PyType_FromSpec(&type_spec), *names = PyTuple_New(MB_SECOND_FIELDS);
	int failed = !type || !names;

	for (Py_ssize_t i = 0; !failed && i < MB_SECOND_FIELDS; i++) {
		PyObject *name = PyUnicode_FromString(fields[i]);

		failed = !name || PyTuple_SetItem(names, i, name);
	}
	failed = failed || PyModule_AddObjectRef(module, "Seconds", type) ||
		 PyModule_AddObjectRef(module, "FIELDS", names);
	Py_XDECREF(type);
	Py_XDECREF(names);
	return failed ? -1 : 0;
}

static PyModuleDef_Slot slots[] = {
	{ Py_mod_exec, module_exec },
	{ 0, NULL },
};

static struct PyModuleDef definition = {
	PyModuleDef_HEAD_INIT,
	.m_name = "mburst.sql.compaction._seconds",
	.m_slots = slots,
};

PyMODINIT_FUNC PyInit__seconds(void)
{
	return PyModuleDef_Init(&definition);
}

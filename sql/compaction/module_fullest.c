/* SPDX-License-Identifier: Apache-2.0
 *
 * The Python module mburst.sql.compaction._fullest.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdlib.h>

#include "fullest.h"

/* Whether the widths are as mb_fullest wants them. */
static int are_widths(const struct mb_fullest *found)
{
	if (!found->n_widths || found->n_widths > MB_FULLEST_WIDTHS || found->widths_ns[0] <= 0)
		return 0;
	for (size_t i = 1; i < found->n_widths; i++)
		if (found->widths_ns[i] <= 0 || found->widths_ns[i] % found->widths_ns[i - 1])
			return 0;
	return MB_FULLEST_SECOND % found->widths_ns[found->n_widths - 1] == 0;
}

static PyObject *find(const Py_buffer *times, const Py_buffer *amounts, const Py_buffer *widths)
{
	struct mb_fullest found = {
		.widths_ns = widths->buf,
		.n_widths = (size_t)widths->len / sizeof(int64_t),
	};
	PyObject *rows = NULL;
	int error;

	if (times->len != amounts->len || times->len % (Py_ssize_t)sizeof(int64_t) ||
	    widths->len % (Py_ssize_t)sizeof(int64_t) || !are_widths(&found)) {
		PyErr_SetString(PyExc_ValueError, "not 64-bit times, as many amounts, and widths that divide a second");
		return NULL;
	}
	Py_BEGIN_ALLOW_THREADS error =
		mb_fullest_find(&found, times->buf, amounts->buf, (size_t)times->len / sizeof(int64_t));
	Py_END_ALLOW_THREADS if (error) PyErr_NoMemory();
	else rows = PyBytes_FromStringAndSize((const char *)found.most,
					      (Py_ssize_t)(found.seconds * found.n_widths * sizeof(int64_t)));
	free(found.most);
	return rows;
}

static PyObject *fullest(PyObject *module, PyObject *args)
{
	Py_buffer times, amounts, widths;
	PyObject *rows;

	(void)module;
	if (!PyArg_ParseTuple(args, "y*y*y*", &times, &amounts, &widths))
		return NULL;
	rows = find(&times, &amounts, &widths);
	PyBuffer_Release(&times);
	PyBuffer_Release(&amounts);
	PyBuffer_Release(&widths);
	return rows;
}

static PyMethodDef methods[] = {
	{ "fullest", fullest, METH_VARARGS, NULL },
	{ NULL, NULL, 0, NULL },
};

static PyModuleDef_Slot slots[] = {
	{ 0, NULL },
};

static struct PyModuleDef definition = {
	PyModuleDef_HEAD_INIT,
	.m_name = "mburst.sql.compaction._fullest",
	.m_methods = methods,
	.m_slots = slots,
};

PyMODINIT_FUNC PyInit__fullest(void)
{
	return PyModuleDef_Init(&definition);
}

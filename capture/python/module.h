/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the Python module mburst.capture._engine (python/) share. _engine.pyi
 * documents what they offer. Nothing else in the engine knows Python.
 */
#ifndef MB_MODULE_H
#define MB_MODULE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "arrow/table.h"
#include "cleanup.h"

struct mb_module_state {
	PyObject *error; /* mburst.errors.MburstError */
	PyTypeObject *rows_type;
};

static inline void mb_decref(PyObject **object)
{
	Py_XDECREF(*object);
}

/* A reference that its scope owns. */
#define py_auto mb_cleanup(mb_decref) PyObject

/* The type Rows (rows.c). */
extern PyType_Spec mb_rows_spec;

/* Rows of TABLE, whose reference it takes over. NULL with an exception set. */
PyObject *mb_make_rows(struct mb_module_state *state, struct mb_table *table);

/* The type Capture (capture.c). */
extern PyType_Spec mb_capture_spec;

/* The functions about this host, its backends and interfaces (host.c). */
extern PyMethodDef mb_host_methods[];

#endif

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
#include "error.h"

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

/* Raise the module's MburstError for what mb_fail() returned as CODE, or MemoryError. NULL. */
PyObject *mb_raise(struct mb_module_state *state, int code, const struct mb_error *error);

/* The strings of LIST, which owns them, with a NULL behind the last; the caller frees the array. NULL with an exception
 * set, ValueError where there are none. */
const char **mb_strings_of(PyObject *list);

/* The type Capture (capture.c). */
extern PyType_Spec mb_capture_spec;

/* The type CapturedFrames (frames.c). */
extern PyType_Spec mb_frames_spec;

/* The functions about this host, its backends and interfaces (host.c). */
extern PyMethodDef mb_host_methods[];

/* The functions that write pcapng (pcapng.c). */
extern PyMethodDef mb_pcapng_methods[];

#endif

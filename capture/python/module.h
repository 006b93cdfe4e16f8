/* SPDX-License-Identifier: Apache-2.0
 *
 * Declarations that the files of the Python module mburst.capture._engine (python/) share. _engine.pyi documents the
 * module. The rest of the engine does not depend on Python.
 */
#ifndef MB_MODULE_H
#define MB_MODULE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "arrow/table.h"
#include "cleanup.h"
#include "error.h"

#define MB_BATCHES_A_TURN 1024 /* of the engine, between checks for signals: about half a million frames */

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

/* Rows of TABLE, of which it takes over the caller's reference. NULL with an exception set on failure. */
PyObject *mb_make_rows(struct mb_module_state *state, struct mb_table *table);

/* Raise the module's MburstError for CODE, as returned by mb_fail(), or MemoryError. Returns NULL. */
PyObject *mb_raise(struct mb_module_state *state, int code, const struct mb_error *error);

/* The strings of LIST, which owns them, followed by a NULL; the caller frees the array. NULL with an exception set on
 * failure: ValueError if LIST is empty. */
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

/* SPDX-License-Identifier: Apache-2.0
 *
 * The Python module mburst.capture._engine.
 */
#include "python/module.h"

#include <errno.h>
#include <stdlib.h>

#include "frame.h"

PyObject *mb_raise(struct mb_module_state *state, int code, const struct mb_error *error)
{
	if (code == -ENOMEM)
		return PyErr_NoMemory();
	PyErr_SetString(state->error, error->message);
	return NULL;
}

const char **mb_strings_of(PyObject *list)
{
	const Py_ssize_t count = PyList_Size(list);
	mb_auto_free const char **strings = calloc((size_t)count + 1, sizeof(*strings));
	const char **result = strings;

	if (!strings)
		PyErr_NoMemory();
	else if (!count)
		PyErr_SetString(PyExc_ValueError, "nothing to capture from");
	if (!strings || !count)
		return NULL;
	for (Py_ssize_t i = 0; i < count; i++) {
		PyObject *item = PyList_GetItem(list, i);
		Py_ssize_t length;

		strings[i] = item ? PyUnicode_AsUTF8AndSize(item, &length) : NULL;
		if (!strings[i])
			return NULL;
	}
	strings = NULL;
	return result;
}

static int add_quality_bits(PyObject *module)
{
	static const struct {
		const char *name;
		int bit;
	} bits[] = {
		{ "QUALITY_HW", MB_QUALITY_HW },
		{ "QUALITY_SW", MB_QUALITY_SW },
		{ "QUALITY_RING", MB_QUALITY_RING },
		{ "QUALITY_FILE_US", MB_QUALITY_FILE_US },
		{ "QUALITY_UNSYNCED", MB_QUALITY_UNSYNCED },
		{ "QUALITY_DROPS", MB_QUALITY_DROPS },
		{ "QUALITY_GRO", MB_QUALITY_GRO },
		{ "QUALITY_TRUNCATED", MB_QUALITY_TRUNCATED },
		{ "QUALITY_STEPPED", MB_QUALITY_STEPPED },
	};

	for (size_t i = 0; i < sizeof(bits) / sizeof(bits[0]); i++)
		if (PyModule_AddIntConstant(module, bits[i].name, bits[i].bit))
			return -1;
	return 0;
}

static int module_exec(PyObject *module)
{
	struct mb_module_state *state = PyModule_GetState(module);
	py_auto *errors = PyImport_ImportModule("mburst.errors");
	py_auto *capture_type = PyType_FromModuleAndSpec(module, &mb_capture_spec, NULL);
	py_auto *frames_type = PyType_FromModuleAndSpec(module, &mb_frames_spec, NULL);

	if (!errors || !capture_type || !frames_type)
		return -1;
	state->error = PyObject_GetAttrString(errors, "MburstError");
	state->rows_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &mb_rows_spec, NULL);
	if (!state->error || !state->rows_type)
		return -1;
	return PyModule_AddObjectRef(module, "Capture", capture_type) ||
			       PyModule_AddObjectRef(module, "CapturedFrames", frames_type) ||
			       PyModule_AddObjectRef(module, "Rows", (PyObject *)state->rows_type) ||
			       PyModule_AddFunctions(module, mb_pcapng_methods) || add_quality_bits(module) ?
		       -1 :
		       0;
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
	struct mb_module_state *state = PyModule_GetState(module);

	Py_VISIT(state->error);
	Py_VISIT(state->rows_type);
	return 0;
}

static int module_clear(PyObject *module)
{
	struct mb_module_state *state = PyModule_GetState(module);

	Py_CLEAR(state->error);
	Py_CLEAR(state->rows_type);
	return 0;
}

static PyModuleDef_Slot module_slots[] = {
	{ Py_mod_exec, module_exec },
	{ 0, NULL },
};

static struct PyModuleDef module_definition = {
	PyModuleDef_HEAD_INIT,
	.m_name = "mburst.capture._engine",
	.m_size = sizeof(struct mb_module_state),
	.m_methods = mb_host_methods,
	.m_slots = module_slots,
	.m_traverse = module_traverse,
	.m_clear = module_clear,
};

PyMODINIT_FUNC PyInit__engine(void)
{
	return PyModuleDef_Init(&module_definition);
}

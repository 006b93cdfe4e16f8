/* SPDX-License-Identifier: Apache-2.0
 *
 * The binding of exchange.h to Python; _exchange.pyi documents it.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/timerfd.h>

#include "exchange.h"

/* Buffers that are released when the scope ends. */
struct held {
	Py_buffer paths, owners, due, notes;
};

static void release(struct held *held)
{
	PyBuffer_Release(&held->paths);
	PyBuffer_Release(&held->owners);
	PyBuffer_Release(&held->due);
	PyBuffer_Release(&held->notes);
}

static PyObject *exchange(PyObject *module, PyObject *arguments)
{
	struct held held __attribute__((cleanup(release))) = { 0 };
	struct mb_exchange x = { 0 };
	long long until_ns;
	int code;

	(void)module;
	if (!PyArg_ParseTuple(arguments, "iiw*y*y*w*L:exchange", &x.epoll, &x.timer, &held.paths, &held.owners,
			      &held.due, &held.notes, &until_ns))
		return NULL;
	x.paths = held.paths.buf;
	x.path_count = (size_t)held.paths.len / sizeof(*x.paths);
	x.owners = held.owners.buf;
	x.owner_count = (size_t)held.owners.len / sizeof(*x.owners);
	x.due = held.due.buf;
	x.due_count = (size_t)held.due.len / sizeof(*x.due);
	x.notes = held.notes.buf;
	x.room = (size_t)held.notes.len / sizeof(*x.notes);
	for (size_t i = 0; i < x.due_count; i++)
		if (x.due[i].path >= x.path_count)
			return PyErr_Format(PyExc_IndexError, "no path %llu", (unsigned long long)x.due[i].path);
	Py_BEGIN_ALLOW_THREADS code = mb_exchange(&x, until_ns);
	Py_END_ALLOW_THREADS if (code)
	{
		errno = -code;
		return PyErr_SetFromErrno(PyExc_OSError);
	}
	return Py_BuildValue("nn", (Py_ssize_t)x.done, (Py_ssize_t)x.count);
}

static PyObject *timer(PyObject *module, PyObject *unused)
{
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);

	(void)module;
	(void)unused;
	return fd < 0 ? PyErr_SetFromErrno(PyExc_OSError) : PyLong_FromLong(fd);
}

static PyObject *next_departure(PyObject *module, PyObject *argument)
{
	struct mb_note note = { 0 };
	long fd = PyLong_AsLong(argument);

	(void)module;
	if (PyErr_Occurred())
		return NULL;
	if (!mb_next_departure((int)fd, &note))
		Py_RETURN_NONE;
	if (note.what == MB_TROUBLE)
		return Py_BuildValue("(I)", note.value);
	return Py_BuildValue("KLs", (unsigned long long)note.number, (long long)note.stamp_ns,
			     !note.stamp_ns ? "" :
			     note.hardware  ? "hw" :
					      "sw");
}

static PyMethodDef methods[] = {
	{ "exchange", exchange, METH_VARARGS, NULL },
	{ "timer", timer, METH_NOARGS, NULL },
	{ "next_departure", next_departure, METH_O, NULL },
	{ NULL, NULL, 0, NULL },
};

static int module_exec(PyObject *module)
{
	static const struct {
		const char *name;
		long value;
	} numbers[] = {
		{ "TAKES", MB_TAKES },
		{ "SENDS", MB_SENDS },
		{ "STREAM", MB_STREAM },
		{ "NTP", MB_NTP },
		{ "SENT", MB_SENT },
		{ "DUE", MB_DUE },
		{ "PARTLY", MB_PARTLY },
		{ "FAILED", MB_FAILED },
		{ "LEFT", MB_LEFT },
		{ "ANSWER", MB_ANSWER },
		{ "TROUBLE", MB_TROUBLE },
		{ "READY", MB_READY },
		{ "HEAD_BYTES", MB_HEAD_BYTES },
		{ "PATH_BYTES", sizeof(struct mb_path) },
		{ "NOTE_BYTES", sizeof(struct mb_note) },
	};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		if (PyModule_AddIntConstant(module, numbers[i].name, numbers[i].value))
			return -1;
	return 0;
}

static PyModuleDef_Slot slots[] = {
	{ Py_mod_exec, module_exec },
	{ 0, NULL },
};

static struct PyModuleDef definition = {
	PyModuleDef_HEAD_INIT,
	.m_name = "mburst.telemetry.probe._exchange",
	.m_methods = methods,
	.m_slots = slots,
};

PyMODINIT_FUNC PyInit__exchange(void)
{
	return PyModuleDef_Init(&definition);
}

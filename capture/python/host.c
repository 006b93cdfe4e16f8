/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions that describe this host, its backends and interfaces, and this process.
 */
#include "python/module.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/backend.h"
#include "backend/device.h"
#include "backend/timestamp.h"
#include "python/threads.h"

/* Append the new reference ITEM to LIST. Returns -1 with an exception set on failure. */
static int append(PyObject *list, PyObject *item)
{
	py_auto *owned = item;

	return item ? PyList_Append(list, owned) : -1;
}

static PyObject *describe_backend(const struct mb_backend_ops *ops, const char *target)
{
	struct mb_backend_cost cost = { 0 };
	struct mb_error error = { "" };

	Py_BEGIN_ALLOW_THREADS;
	if (!ops->check(target, &error) && ops->cost)
		ops->cost(&cost);
	Py_END_ALLOW_THREADS;
	return Py_BuildValue("{s:s,s:s,s:s,s:I,s:K}", "name", ops->name, "description", ops->description, "reason",
			     error.message, "packet_ns", cost.packet_ns, "memory_bytes",
			     (unsigned long long)cost.memory_bytes);
}

static PyObject *host_backends(PyObject *module, PyObject *argument)
{
	const char *target = argument == Py_None ? NULL : PyUnicode_AsUTF8AndSize(argument, NULL);
	py_auto *list = PyList_New(0);

	(void)module;
	if (!list || (argument != Py_None && !target))
		return NULL;
	for (const struct mb_backend_ops *const *ops = mb_backends; *ops; ops++) {
		if ((*ops)->check && append(list, describe_backend(*ops, target)))
			return NULL;
	}
	return Py_NewRef(list);
}

static PyObject *active_offloads(const struct mb_device *device)
{
	py_auto *list = PyList_New(0);

	for (uint32_t i = 0; list && i < MB_OFFLOADS; i++)
		if (device->offloads >> i & 1 &&
		    append(list,
			   Py_BuildValue("(sO)", mb_offloads[i].word, mb_offloads[i].receive ? Py_True : Py_False)))
			return NULL;
	return Py_XNewRef(list);
}

/* A counter of an interface, or None. */
static PyObject *describe_counter(const struct mb_device_counts *counts, uint64_t value)
{
	return counts->known ? PyLong_FromUnsignedLongLong(value) : Py_NewRef(Py_None);
}

static PyObject *host_device(PyObject *module, PyObject *argument)
{
	const char *name = PyUnicode_AsUTF8AndSize(argument, NULL);
	struct mb_stamp_support stamps;
	struct mb_device_counts counts;
	struct mb_device device;
	py_auto *offloads = NULL;

	(void)module;
	if (!name)
		return NULL;
	if (mb_device_read(&device, name, NULL))
		Py_RETURN_NONE;
	mb_stamp_support_read(&stamps, name);
	mb_device_count(device.index, &counts);
	offloads = active_offloads(&device);
	if (!offloads)
		return NULL;
	return Py_BuildValue(
		"{s:s,s:I,s:s,s:s,s:I,s:I,s:O,s:O,s:O,s:K,s:I,s:I,s:I,s:I,s:O,s:O,s:N,s:N,s:N,s:N,s:N,s:O,s:O,s:i}",
		"name", device.name, "index", (unsigned int)device.index, "driver", device.driver, "mac", device.mac,
		"mtu", device.mtu, "arphrd", (unsigned int)device.arphrd, "up", device.up ? Py_True : Py_False,
		"carrier", device.carrier ? Py_True : Py_False, "loopback", device.loopback ? Py_True : Py_False,
		"link_bps", (unsigned long long)device.link_bps, "rx_ring", device.rx_ring, "rx_ring_max",
		device.rx_ring_max, "rx_queues", device.rx_queues, "rx_usecs", device.rx_usecs, "rx_adaptive",
		device.rx_adaptive ? Py_True : Py_False, "offloads", offloads, "missed",
		describe_counter(&counts, counts.missed), "rx_packets", describe_counter(&counts, counts.rx_packets),
		"rx_bytes", describe_counter(&counts, counts.rx_bytes), "tx_packets",
		describe_counter(&counts, counts.tx_packets), "tx_bytes", describe_counter(&counts, counts.tx_bytes),
		"hardware_stamps", stamps.hardware ? Py_True : Py_False, "ptp_stamps",
		stamps.ptp_only ? Py_True : Py_False, "phc_index", (int)stamps.phc_index);
}

static PyObject *host_clock_synchronized(PyObject *module, PyObject *unused)
{
	(void)module;
	(void)unused;
	return PyBool_FromLong(mb_clock_synchronized());
}

/* (kept: int | None, ruleset: int | None, no_new: bool) -> threads that were not reached */
static PyObject *host_give_up(PyObject *module, PyObject *arguments)
{
	struct mb_rights rights = { .ruleset = -1 };
	PyObject *kept, *ruleset;
	uint32_t left;
	int no_new, code;

	(void)module;
	if (!PyArg_ParseTuple(arguments, "OOp", &kept, &ruleset, &no_new))
		return NULL;
	rights.no_new = no_new;
	rights.limit = kept != Py_None;
	if (rights.limit)
		rights.kept = PyLong_AsUnsignedLongLong(kept);
	if (ruleset != Py_None)
		rights.ruleset = (int)PyLong_AsLong(ruleset);
	if (PyErr_Occurred())
		return NULL;
	Py_BEGIN_ALLOW_THREADS code = mb_rights_apply(&rights, &left);
	Py_END_ALLOW_THREADS if (code)
	{
		errno = -code;
		return PyErr_SetFromErrno(PyExc_OSError);
	}
	return PyLong_FromUnsignedLong(left);
}

/* Whether FAILURE, sys's UnraisableHookArgs, is caused by lack of memory: a MemoryError, or any exception from starting
 * a thread, which may also be a RuntimeError if there is no memory for a lock. */
static bool is_of_memory(PyObject *failure)
{
	PyObject *kind = PyTuple_GetItem(failure, 0), *message = PyTuple_GetItem(failure, 3);
	const char *text = message && PyUnicode_Check(message) ? PyUnicode_AsUTF8AndSize(message, NULL) : NULL;

	return (kind && PyErr_GivenExceptionMatches(kind, PyExc_MemoryError)) ||
	       (text && strstr(text, "thread started by"));
}

/* In C, because a thread without memory for its first Python frame has none for the frame of a hook either. Prints the
 * message that mburst.process.shortage has for a MemoryError. */
static PyObject *host_end_without_memory(PyObject *module, PyObject *failure)
{
	static const char message[] = "mburst: not enough memory (allow it more memory (ulimit -v))\n";

	(void)module;
	if (is_of_memory(failure)) {
		ssize_t written = write(STDERR_FILENO, message, sizeof(message) - 1);

		(void)written; /* an error here can be reported to nobody */
		_exit(EXIT_FAILURE);
	}
	if (PyErr_Occurred())
		return NULL;
	return PyObject_CallFunctionObjArgs(PySys_GetObject("__unraisablehook__"), failure, NULL);
}

PyMethodDef mb_host_methods[] = {
	{ "backends", host_backends, METH_O, NULL },
	{ "device", host_device, METH_O, NULL },
	{ "clock_synchronized", host_clock_synchronized, METH_NOARGS, NULL },
	{ "give_up", host_give_up, METH_VARARGS, NULL },
	{ "end_without_memory", host_end_without_memory, METH_O, NULL },
	{ 0 },
};

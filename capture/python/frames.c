/* SPDX-License-Identifier: Apache-2.0
 *
 * The type CapturedFrames: the frames of capture files, one by one, with the senders and directions that the engine
 * determines.
 */
#include "python/module.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/merge.h"
#include "measure/engine.h"
#include "python/options.h"

struct frames_object {
	PyObject_HEAD struct mb_backend backend;
	struct mb_engine *engine;
	int64_t since_ns, until_ns;
	bool busy; /* a thread is inside read(): the GIL is released there */
	bool ended;
};

static void frames_clear(struct frames_object *self)
{
	mb_engine_destroy(self->engine);
	mb_backend_close(&self->backend);
	self->engine = NULL;
}

static void frames_dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);

	frames_clear((struct frames_object *)self);
	PyObject_Free(self);
	Py_DECREF(type);
}

static int open_files(struct frames_object *self, struct mb_module_state *state, PyObject *targets,
		      const struct mb_capture_options *options)
{
	mb_auto_free const char **names = mb_strings_of(targets);
	struct mb_error error = { 0 };
	size_t count = (size_t)PyList_Size(targets);
	int code;

	if (!names)
		return -1;
	Py_BEGIN_ALLOW_THREADS code = mb_merge_open(&self->backend, names, count, &options->backend, &error);
	Py_END_ALLOW_THREADS if (!code && self->backend.live) code =
		mb_fail(&error, EINVAL, "%s: an interface, not a capture file", names[0]);
	if (code) {
		mb_raise(state, code, &error);
		return -1;
	}
	self->engine = mb_engine_create(&options->engine, &self->backend);
	if (!self->engine)
		PyErr_NoMemory();
	return self->engine ? 0 : -1;
}

static PyObject *frames_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
	struct mb_module_state *state = PyType_GetModuleState(type);
	struct mb_capture_options options;
	struct frames_object *self;
	long long since_ns, until_ns;
	PyObject *targets;

	if (!PyArg_ParseTuple(args, "O!LL", &PyList_Type, &targets, &since_ns, &until_ns) ||
	    mb_options_read(&options, keywords))
		return NULL;
	self = PyObject_New(struct frames_object, type);
	if (!self)
		return NULL;
	memset(&self->backend, 0, sizeof(self->backend));
	self->engine = NULL;
	self->since_ns = since_ns;
	self->until_ns = until_ns;
	self->busy = self->ended = false;
	if (open_files(self, state, targets, &options)) {
		Py_DECREF(self);
		return NULL;
	}
	return (PyObject *)self;
}

static PyObject *describe_frame(const struct mb_engine *engine, const struct mb_frame *frame)
{
	static const char *const directions[] = { "mirror", "in", "out" };
	char sender[MB_ADDRESS_TEXT];
	struct mb_packet packet;

	mb_engine_decode(engine, frame, &packet);
	mb_address_format(&packet.source, sender);
	return Py_BuildValue("(ILIssIy#)", (unsigned int)frame->interface, (long long)frame->ts_ns, frame->len,
			     directions[packet.direction], sender, packet.ports, frame->data,
			     (Py_ssize_t)frame->caplen);
}

/* Append the frames of the engine's batch that are in the requested time. Returns -1 with an exception set on
 * failure. */
static int append_frames(const struct frames_object *self, PyObject *list)
{
	for (uint32_t i = 0; i < self->engine->batch.count; i++) {
		const struct mb_frame *frame = &self->engine->batch.frames[i];
		py_auto *item = NULL;

		if (frame->ts_ns < self->since_ns || frame->ts_ns >= self->until_ns)
			continue;
		item = describe_frame(self->engine, frame);
		if (!item || PyList_Append(list, item))
			return -1;
	}
	return 0;
}

/* Whether a frame of the engine's batch is in the requested time. */
static bool has_frames(const struct frames_object *self)
{
	for (uint32_t i = 0; i < self->engine->batch.count; i++)
		if (self->engine->batch.frames[i].ts_ns >= self->since_ns &&
		    self->engine->batch.frames[i].ts_ns < self->until_ns)
			return true;
	return false;
}

/* Skip batches without a frame in the requested time. Like mb_engine_next(). */
static int next_frames(struct frames_object *self, struct mb_error *error)
{
	int n = 0;

	for (int i = 0; i < MB_BATCHES_A_TURN; i++) {
		n = mb_engine_next(self->engine, error);
		if (n < 0 || (n > 0 && has_frames(self)))
			return n;
	}
	return 0;
}

static PyObject *frames_read(PyObject *object, PyTypeObject *type, PyObject *const *args, Py_ssize_t n_args,
			     PyObject *keywords)
{
	struct frames_object *self = (struct frames_object *)object;
	struct mb_module_state *state = PyType_GetModuleState(type);
	struct mb_error error = { 0 };
	py_auto *list = PyList_New(0);
	int n;

	(void)args, (void)n_args, (void)keywords;
	if (!list)
		return NULL;
	if (!self->engine || self->busy) {
		PyErr_SetString(PyExc_ValueError, "the capture is closed, or another thread reads it");
		return NULL;
	}
	self->busy = true;
	Py_BEGIN_ALLOW_THREADS n = next_frames(self, &error);
	Py_END_ALLOW_THREADS self->busy = false;
	if (PyErr_CheckSignals())
		return NULL;
	if (n == MB_BACKEND_END)
		Py_RETURN_NONE;
	if (n < 0) {
		mb_raise(state, n, &error);
		return NULL;
	}
	return n && append_frames(self, list) ? NULL : Py_NewRef(list);
}

static PyObject *frames_interfaces(PyObject *object, void *closure)
{
	struct frames_object *self = (struct frames_object *)object;
	py_auto *list = PyList_New(0);
	const struct mb_interface *interfaces;
	size_t count;

	(void)closure;
	if (!list || !self->engine)
		return list ? PyErr_Format(PyExc_ValueError, "the capture is closed") : NULL;
	interfaces = mb_backend_interfaces(&self->backend, &count);
	for (size_t i = 0; i < count; i++) {
		py_auto *item =
			Py_BuildValue("{s:s,s:I,s:I,s:K,s:I}", "name", interfaces[i].name, "linktype",
				      interfaces[i].linktype, "snaplen", interfaces[i].snaplen, "link_bps",
				      (unsigned long long)interfaces[i].link_bps, "fcs_len", interfaces[i].fcs_len);

		if (!item || PyList_Append(list, item))
			return NULL;
	}
	return Py_NewRef(list);
}

static PyObject *frames_notice(PyObject *object, void *closure)
{
	struct frames_object *self = (struct frames_object *)object;
	const char *notice = self->engine ? mb_backend_notice(&self->backend) : NULL;

	(void)closure;
	return notice ? PyUnicode_FromString(notice) : Py_NewRef(Py_None);
}

static PyObject *frames_close(PyObject *object, PyObject *unused)
{
	(void)unused;
	frames_clear((struct frames_object *)object);
	Py_RETURN_NONE;
}

static PyMethodDef frames_methods[] = {
	{ "read", (PyCFunction)(void (*)(void))frames_read, METH_METHOD | METH_FASTCALL | METH_KEYWORDS, NULL },
	{ "close", frames_close, METH_NOARGS, NULL },
	{ 0 },
};

static PyGetSetDef frames_attributes[] = {
	{ "interfaces", frames_interfaces, NULL, NULL, NULL },
	{ "notice", frames_notice, NULL, NULL, NULL },
	{ 0 },
};

static PyType_Slot frames_slots[] = {
	{ Py_tp_new, frames_new },
	{ Py_tp_dealloc, frames_dealloc },
	{ Py_tp_methods, frames_methods },
	{ Py_tp_getset, frames_attributes },
	{ 0, NULL },
};

PyType_Spec mb_frames_spec = {
	.name = "mburst.capture._engine.CapturedFrames",
	.basicsize = sizeof(struct frames_object),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = frames_slots,
};

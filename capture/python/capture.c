/* SPDX-License-Identifier: Apache-2.0
 *
 * The type Capture: a backend, and an engine that reads it.
 */
#include "python/module.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/device.h"
#include "backend/merge.h"
#include "measure/engine.h"
#include "python/options.h"

struct capture_object {
	PyObject_HEAD struct mb_backend backend;
	struct mb_engine *engine;
	struct mb_keeper *keeper; /* NULL: packets are not kept */
	bool busy; /* a thread is inside run(): the GIL is released there */
};

static void capture_clear(struct capture_object *self)
{
	struct mb_keeper *keeper = self->keeper;

	self->keeper = NULL;
	Py_BEGIN_ALLOW_THREADS mb_keeper_close(keeper);
	Py_END_ALLOW_THREADS mb_engine_destroy(self->engine);
	mb_backend_close(&self->backend);
	self->engine = NULL;
}

static void capture_dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);

	capture_clear((struct capture_object *)self);
	PyObject_Free(self);
	Py_DECREF(type);
}

static int check_options(const struct mb_engine_options *options)
{
	const struct mb_bins_options *bins = &options->bins;
	int64_t narrowest = bins->bin_ns < bins->source_bin_ns ? bins->bin_ns : bins->source_bin_ns;

	if (narrowest < 1 || bins->window_ns < 0 || options->max_sources < 1) {
		PyErr_SetString(PyExc_ValueError, "widths, window and max_sources must be positive");
		return -1;
	}
	if (bins->window_ns / narrowest > MB_BINS_OPEN) {
		PyErr_Format(PyExc_ValueError,
			     "--reorder-window: more than %d bins are open at a time: make it shorter, or bins wider",
			     MB_BINS_OPEN);
		return -1;
	}
	if (options->sources_above_ppb > 1000000000) {
		PyErr_SetString(PyExc_ValueError, "sources_above_ppb is a share of at most 1");
		return -1;
	}
	return 0;
}

/* Keep the packets of the capture, if requested. Returns 0, or a negative errno with ERROR filled. */
static int open_keeper(struct capture_object *self, const struct mb_packet_files_options *options,
		       struct mb_error *error)
{
	size_t count;

	if (options->folder < 0)
		return 0;
	if (!self->backend.live || self->backend.ops->read_counts)
		return mb_fail(error, EINVAL, "backend %s has no packets to keep", self->backend.ops->name);
	self->keeper = mb_keeper_open(options, &mb_backend_interfaces(&self->backend, &count)[0], error);
	self->engine->keeper = self->keeper;
	return self->keeper ? 0 : -EINVAL;
}

static int open_capture(struct capture_object *self, struct mb_module_state *state, PyObject *targets,
			const struct mb_capture_options *options)
{
	mb_auto_free const char **names = mb_strings_of(targets);
	size_t count = (size_t)PyList_Size(targets);
	struct mb_error error = { 0 };
	int code;

	if (!names)
		return -1;
	Py_BEGIN_ALLOW_THREADS code = mb_merge_open(&self->backend, names, count, &options->backend, &error);
	Py_END_ALLOW_THREADS if (code)
	{
		mb_raise(state, code, &error);
		return -1;
	}
	self->engine = mb_engine_create(&options->engine, &self->backend);
	if (!self->engine) {
		PyErr_NoMemory();
		return -1;
	}
	code = open_keeper(self, &options->keep, &error);
	if (code)
		mb_raise(state, code, &error);
	return code ? -1 : 0;
}

static PyObject *capture_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
	struct mb_module_state *state = PyType_GetModuleState(type);
	struct mb_capture_options options;
	PyObject *targets;
	struct capture_object *self;

	if (!PyArg_ParseTuple(args, "O!", &PyList_Type, &targets))
		return NULL;
	if (mb_options_read(&options, keywords) || check_options(&options.engine))
		return NULL;
	self = PyObject_New(struct capture_object, type);
	if (!self)
		return NULL;
	memset(&self->backend, 0, sizeof(self->backend));
	self->engine = NULL;
	self->keeper = NULL;
	self->busy = false;
	if (open_capture(self, state, targets, &options)) {
		Py_DECREF(self);
		return NULL;
	}
	return (PyObject *)self;
}

/* Run until there are rows or the end. Returns 1 or 0, or -1 with an exception set. */
static int run_engine(struct capture_object *self, struct mb_module_state *state)
{
	struct mb_error error = { 0 };
	int code;

	do {
		self->busy = true;
		Py_BEGIN_ALLOW_THREADS code = mb_engine_run(self->engine, MB_BATCHES_A_TURN, &error);
		Py_END_ALLOW_THREADS self->busy = false;
		if (PyErr_CheckSignals())
			return -1;
	} while (code == 1 && !self->backend.live && !self->engine->bin_rows->count &&
		 !self->engine->sender_rows->count);
	if (code < 0)
		mb_raise(state, code, &error);
	return code < 0 ? -1 : code;
}

static int check_usable(const struct capture_object *self)
{
	if (self->engine && !self->busy)
		return 0;
	PyErr_SetString(PyExc_ValueError, self->busy ? "another thread reads this capture" : "the capture is closed");
	return -1;
}

static PyObject *capture_read(PyObject *object, PyTypeObject *type, PyObject *const *args, Py_ssize_t n_args,
			      PyObject *keywords)
{
	struct capture_object *self = (struct capture_object *)object;
	struct mb_module_state *state = PyType_GetModuleState(type);
	struct mb_table *bins, *senders;
	py_auto *bin_rows = NULL, *sender_rows = NULL;
	int more;

	(void)args, (void)n_args, (void)keywords;
	if (check_usable(self))
		return NULL;
	more = run_engine(self, state);
	if (more < 0)
		return NULL;
	if (!more)
		Py_RETURN_NONE;
	if (mb_engine_take(self->engine, &bins, &senders))
		return PyErr_NoMemory();
	bin_rows = mb_make_rows(state, bins);
	sender_rows = mb_make_rows(state, senders);
	if (!bin_rows || !sender_rows)
		return NULL;
	return PyTuple_Pack(2, bin_rows, sender_rows);
}

/* VALUE, or None if the backend does not count it. */
static PyObject *describe_count(uint64_t value, bool is_counted)
{
	return is_counted ? PyLong_FromUnsignedLongLong(value) : Py_NewRef(Py_None);
}

/* Add the totals of the counters of bins, by their names. Returns -1 with an exception set on failure. */
static int add_totals(PyObject *description, const struct mb_engine *engine, const struct mb_lane_totals *totals)
{
	static const struct {
		const char *name;
		size_t offset;
		uint32_t bit;
	} counters[] = {
#define COUNTER(name, ...) { #name, offsetof(struct mb_lane_totals, name), 1u << MB_BIN_##name },
		MB_BIN_COUNTERS(COUNTER)
#undef COUNTER
	};

	for (size_t i = 0; i < sizeof(counters) / sizeof(*counters); i++) {
		py_auto *total = describe_count(*(const uint64_t *)((const char *)totals + counters[i].offset),
						!(engine->uncounted & counters[i].bit));

		if (!total || PyDict_SetItemString(description, counters[i].name, total))
			return -1;
	}
	return 0;
}

static PyObject *describe_lane(const struct mb_engine *engine, const struct mb_engine_lane *lane)
{
	static const char *const directions[] = { "mirror", "in", "out" };
	const struct mb_lane_totals *totals = &lane->lane.totals;
	const struct mb_interface *interface;
	py_auto *description = NULL;
	size_t n_interfaces;

	interface = &mb_backend_interfaces(engine->backend, &n_interfaces)[lane->interface];
	description = Py_BuildValue(
		"{s:s,s:I,s:I,s:I,s:K,s:s,s:L,s:L,s:K,s:K,s:K,s:K,s:N,s:K,s:K,s:I,s:O}", "interface", interface->name,
		"index", (unsigned int)lane->interface, "linktype", interface->linktype, "snaplen", interface->snaplen,
		"link_bps", (unsigned long long)interface->link_bps, "direction", directions[lane->direction],
		"start_ns", (long long)totals->first_ns, "end_ns", (long long)totals->last_ns, "unattributed_packets",
		totals->unattributed_packets, "unattributed_bytes", totals->unattributed_bytes, "late", totals->late,
		"late_bytes", totals->late_bytes, "unparsed", describe_count(totals->unparsed, !engine->uncounted),
		"merged", totals->merged, "foreign_packets", totals->foreign, "clock_epochs", totals->epochs, "busy",
		lane->lane.busy.rule.least_bytes ? Py_True : Py_False);
	return description && !add_totals(description, engine, totals) ? Py_NewRef(description) : NULL;
}

static PyObject *capture_lanes(PyObject *object, void *closure)
{
	struct capture_object *self = (struct capture_object *)object;
	py_auto *lanes = PyList_New(0);

	(void)closure;
	if (!lanes || check_usable(self))
		return NULL;
	for (uint32_t i = 0; i < self->engine->n_lanes; i++) {
		py_auto *lane = describe_lane(self->engine, self->engine->lanes[i]);

		if (!lane || PyList_Append(lanes, lane))
			return NULL;
	}
	return Py_NewRef(lanes);
}

/* The counters of the interface at the start, or None. */
static PyObject *describe_begun(const struct mb_backend *backend)
{
	const struct mb_device_counts *counts = mb_backend_begun(backend);

	if (!counts)
		Py_RETURN_NONE;
	return Py_BuildValue("(KKKK)", (unsigned long long)counts->rx_packets, (unsigned long long)counts->rx_bytes,
			     (unsigned long long)counts->tx_packets, (unsigned long long)counts->tx_bytes);
}

/* The start of the yielded counts if an earlier process had the kernel count before, or None. */
static PyObject *describe_since(const struct mb_backend *backend)
{
	const int64_t since_ns = mb_backend_since(backend);

	return since_ns ? PyLong_FromLongLong(since_ns) : Py_NewRef(Py_None);
}

/* The packets that were kept, or None. */
static PyObject *describe_kept(const struct capture_object *self)
{
	struct mb_kept kept;

	if (!self->keeper)
		Py_RETURN_NONE;
	mb_keeper_state(self->keeper, &kept);
	return Py_BuildValue("{s:K,s:K,s:K,s:s}", "packets", kept.packets, "bytes", kept.bytes, "lost", kept.lost,
			     "trouble", kept.trouble);
}

static int add_sentence(PyObject *sentences, const char *text)
{
	py_auto *sentence = *text ? PyUnicode_FromFormat("%s", text) : NULL;

	return *text && (!sentence || PyList_Append(sentences, sentence)) ? -1 : 0;
}

static void describe_squeezed(const struct mb_engine *engine, char *text, size_t size)
{
	uint64_t squeezed = 0;

	*text = 0;
	for (uint32_t i = 0; i < engine->n_lanes; i++)
		squeezed += engine->lanes[i]->lane.totals.squeezed;
	if (squeezed)
		snprintf(text, size,
			 "%" PRIu64 " merged frame%s took longer than bins stay open (--split-merged): "
			 "bins have more of their bytes than the link carried in that time",
			 squeezed, squeezed == 1 ? "" : "s");
}

/* What users should know about the backend and the stamps of its packets, one sentence a line; None for nothing. */
static PyObject *describe_notice(const struct capture_object *self)
{
	const struct mb_backend *backend = &self->backend;
	const char *of_backend = mb_backend_notice(backend);
	char of_dates[2 * MB_ERROR_LENGTH] = "", of_choice[2 * MB_ERROR_LENGTH] = "", of_frames[MB_ERROR_LENGTH];
	py_auto *sentences = PyList_New(0), *line_break = PyUnicode_FromString("\n");

	if (*backend->passed_over.message)
		snprintf(of_choice, sizeof(of_choice), "--backend %s was taken: %s", backend->ops->name,
			 backend->passed_over.message);
	mb_dates_describe(&self->engine->dates, of_dates, sizeof(of_dates));
	describe_squeezed(self->engine, of_frames, sizeof(of_frames));
	if (!sentences || !line_break || add_sentence(sentences, of_choice) ||
	    add_sentence(sentences, of_backend ? of_backend : "") || add_sentence(sentences, of_dates) ||
	    add_sentence(sentences, of_frames))
		return NULL;
	return PyList_Size(sentences) ? PyUnicode_Join(line_break, sentences) : Py_NewRef(Py_None);
}

static PyObject *capture_facts(PyObject *object, void *closure)
{
	struct capture_object *self = (struct capture_object *)object;
	const struct mb_engine *engine = self->engine;
	struct mb_backend_stats stats = { 0 };
	const struct mb_interface *interfaces;
	size_t n_interfaces;

	py_auto *notice = NULL;

	(void)closure;
	if (check_usable(self))
		return NULL;
	notice = describe_notice(self);
	if (!notice)
		return NULL;
	interfaces = mb_backend_interfaces(&self->backend, &n_interfaces);
	self->backend.ops->stats(&self->backend, &stats);
	return Py_BuildValue("{s:s,s:O,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:O,s:I,s:I,s:s,s:O,s:N,s:N,s:N}",
			     "backend", self->backend.ops->name, "live", self->backend.live ? Py_True : Py_False,
			     "frames", stats.frames, "bytes", stats.bytes, "filtered", stats.filtered, "dropped",
			     stats.dropped, "excluded_packets", engine->excluded_packets, "excluded_bytes",
			     engine->excluded_bytes, "foreign_packets", engine->foreign_packets, "ethernet_packets",
			     engine->ethernet_packets, "folded_bins", engine->limits.folded_early, "flows_unseen",
			     engine->limits.flows_unseen, "misdated", engine->dates.misdated, "restores",
			     self->backend.restores ? Py_True : Py_False, "mtu", engine->options.decode.mtu, "snaplen",
			     n_interfaces ? interfaces->snaplen : 0, "inferred", engine->inference.note, "notice",
			     notice, "begun", describe_begun(&self->backend), "since_ns",
			     describe_since(&self->backend), "kept", describe_kept(self));
}

static PyObject *capture_losses(PyObject *object, PyObject *unused)
{
	struct capture_object *self = (struct capture_object *)object;
	py_auto *list = PyList_New(0);
	struct mb_loss loss;

	(void)unused;
	if (!list || check_usable(self))
		return NULL;
	while (mb_drop_queue_take(&self->engine->losses, &loss)) {
		py_auto *item = Py_BuildValue("(LLKO)", (long long)loss.first_ns, (long long)loss.last_ns,
					      (unsigned long long)loss.packets, loss.is_split ? Py_True : Py_False);

		if (!item || PyList_Append(list, item))
			return NULL;
	}
	return Py_NewRef(list);
}

static PyObject *capture_stop(PyObject *object, PyObject *args)
{
	struct capture_object *self = (struct capture_object *)object;
	int leaves = 0;

	if (!PyArg_ParseTuple(args, "|p", &leaves))
		return NULL;
	self->backend.leaves = leaves;
	mb_backend_stop(&self->backend);
	Py_RETURN_NONE;
}

static PyObject *capture_close(PyObject *object, PyObject *unused)
{
	struct capture_object *self = (struct capture_object *)object;

	(void)unused;
	if (self->busy) {
		PyErr_SetString(PyExc_ValueError, "another thread reads this capture");
		return NULL;
	}
	capture_clear(self);
	Py_RETURN_NONE;
}

static PyMethodDef capture_methods[] = {
	{ "read", (PyCFunction)(void (*)(void))capture_read, METH_METHOD | METH_FASTCALL | METH_KEYWORDS, NULL },
	{ "losses", capture_losses, METH_NOARGS, NULL },
	{ "stop", capture_stop, METH_VARARGS, NULL },
	{ "close", capture_close, METH_NOARGS, NULL },
	{ 0 },
};

static PyGetSetDef capture_attributes[] = {
	{ "lanes", capture_lanes, NULL, NULL, NULL },
	{ "facts", capture_facts, NULL, NULL, NULL },
	{ 0 },
};

static PyType_Slot capture_slots[] = {
	{ Py_tp_new, capture_new },
	{ Py_tp_dealloc, capture_dealloc },
	{ Py_tp_methods, capture_methods },
	{ Py_tp_getset, capture_attributes },
	{ 0, NULL },
};

PyType_Spec mb_capture_spec = {
	.name = "mburst.capture._engine.Capture",
	.basicsize = sizeof(struct capture_object),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = capture_slots,
};

/* SPDX-License-Identifier: Apache-2.0 */
#include "python/options.h"

#include <stddef.h>
#include <string.h>

/* Reads VALUE into FIELD. Returns -1 with an exception set on failure. */
typedef int reader(PyObject *value, void *field);

static int read_int64(PyObject *value, void *field)
{
	long long number = PyLong_AsLongLong(value);

	*(int64_t *)field = number;
	return number == -1 && PyErr_Occurred() ? -1 : 0;
}

static int read_uint64(PyObject *value, void *field)
{
	unsigned long long number = PyLong_AsUnsignedLongLong(value);

	*(uint64_t *)field = number;
	return number == (unsigned long long)-1 && PyErr_Occurred() ? -1 : 0;
}

static int read_uint32(PyObject *value, void *field)
{
	uint64_t number;

	if (read_uint64(value, &number))
		return -1;
	if (number > UINT32_MAX) {
		PyErr_SetNone(PyExc_OverflowError);
		return -1;
	}
	*(uint32_t *)field = (uint32_t)number;
	return 0;
}

static int read_descriptor(PyObject *value, void *field)
{
	int64_t number;

	if (read_int64(value, &number))
		return -1;
	*(int *)field = number < 0 || number > INT32_MAX ? -1 : (int)number;
	return 0;
}

static int read_bool(PyObject *value, void *field)
{
	int truth = PyObject_IsTrue(value);

	*(bool *)field = truth > 0;
	return truth < 0 ? -1 : 0;
}

static int read_not(PyObject *value, void *field)
{
	int status = read_bool(value, field);

	*(bool *)field = !*(bool *)field;
	return status;
}

static int read_text(PyObject *value, void *field)
{
	const char *text = value == Py_None ? NULL : PyUnicode_AsUTF8AndSize(value, NULL);

	*(const char **)field = text;
	return !text && value != Py_None ? -1 : 0;
}

/* The index of VALUE in CHOICES, which end with NULL. Returns -1 with an exception set on failure. */
static int read_choice(PyObject *value, const char *const *choices)
{
	const char *text = PyUnicode_AsUTF8AndSize(value, NULL);

	for (int i = 0; text && choices[i]; i++)
		if (!strcmp(text, choices[i]))
			return i;
	if (text)
		PyErr_Format(PyExc_ValueError, "invalid choice '%s'", text);
	return -1;
}

static int read_stamps(PyObject *value, void *field)
{
	static const char *const choices[] = { "auto", "hw", "sw", NULL }; /* enum mb_stamps */
	int choice = read_choice(value, choices);

	*(enum mb_stamps *)field = (enum mb_stamps)choice;
	return choice < 0 ? -1 : 0;
}

static int read_hook(PyObject *value, void *field)
{
	static const char *const choices[] = { "tc", "xdp", "xdp-generic", NULL }; /* enum mb_hook */
	int choice = read_choice(value, choices);

	*(enum mb_hook *)field = (enum mb_hook)choice;
	return choice < 0 ? -1 : 0;
}

/* For the engine, which counts directions, and for the backend, which can exclude one; FIELD has both. */
static int read_directions(PyObject *value, void *field)
{
	static const char *const choices[] = { "both", "in", "out", NULL }; /* enum mb_direction */
	struct mb_capture_options *options = field;
	int choice = read_choice(value, choices);

	if (choice < 0)
		return -1;
	options->backend.direction = (uint8_t)choice;
	options->engine.directions = choice ? 1u << choice : MB_LANE_IN | MB_LANE_OUT;
	return 0;
}

static int read_mtu(PyObject *value, void *field)
{
	struct mb_engine_options *options = field;
	int64_t mtu;

	if (read_int64(value, &mtu))
		return -1;
	options->infer_mtu = mtu < 0;
	options->decode.mtu = mtu < 0 ? 0 : (uint32_t)mtu;
	return 0;
}

static int read_local(PyObject *value, void *field)
{
	struct mb_engine_options *options = field;
	Py_ssize_t count;

	if (!PyList_Check(value)) {
		PyErr_SetString(PyExc_TypeError, "local addresses are a list");
		return -1;
	}
	count = PyList_Size(value);
	if (count > MB_LOCALS) {
		PyErr_Format(PyExc_ValueError, "more than %d local addresses", MB_LOCALS);
		return -1;
	}
	for (Py_ssize_t i = 0; i < count; i++) {
		const char *text = PyUnicode_AsUTF8AndSize(PyList_GetItem(value, i), NULL);

		if (!text)
			return -1;
		if (!mb_address_parse(text, &options->locals[i])) {
			PyErr_Format(PyExc_ValueError,
				     "invalid IP or MAC address '%s' (examples: 10.0.0.7, 2001:db8::7, "
				     "02:00:00:00:00:07)",
				     text);
			return -1;
		}
	}
	options->n_locals = (uint32_t)count;
	return 0;
}

#define ENGINE(field) offsetof(struct mb_capture_options, engine.field)
#define BACKEND(field) offsetof(struct mb_capture_options, backend.field)
#define KEEP(field) offsetof(struct mb_capture_options, keep.field)

static const struct option {
	const char *name;
	reader *read;
	size_t offset;
} table[] = {
	{ "bin_ns", read_int64, ENGINE(bins.bin_ns) },
	{ "source_bin_ns", read_int64, ENGINE(bins.source_bin_ns) },
	{ "window_ns", read_int64, ENGINE(bins.window_ns) },
	{ "directions", read_directions, 0 },
	{ "local", read_local, offsetof(struct mb_capture_options, engine) },
	{ "max_sources", read_uint32, ENGINE(max_sources) },
	{ "sources_above_ppb", read_uint64, ENGINE(sources_above_ppb) },
	{ "link_bps", read_uint64, ENGINE(link_bps) },
	{ "inner", read_bool, ENGINE(decode.inner) },
	{ "mtu", read_mtu, offsetof(struct mb_capture_options, engine) },
	{ "spread_bps", read_uint64, ENGINE(bins.spread_bps) },
	{ "backend", read_text, BACKEND(backend) },
	{ "filter", read_text, BACKEND(filter) },
	{ "snaplen", read_uint32, BACKEND(snaplen) },
	{ "threads", read_uint32, BACKEND(threads) },
	{ "ring_bytes", read_uint64, BACKEND(ring_bytes) },
	{ "stamps", read_stamps, BACKEND(stamps) },
	{ "promiscuous", read_not, BACKEND(own_traffic) },
	{ "cluster", read_uint32, BACKEND(cluster) },
	{ "beside", read_uint32, BACKEND(beside) },
	{ "hook", read_hook, BACKEND(hook) },
	{ "pins", read_bool, BACKEND(pins) },
	{ "pin_group", read_uint32, BACKEND(pin_group) },
	{ "keep_folder", read_descriptor, KEEP(folder) },
	{ "keep_bytes", read_uint64, KEEP(most_bytes) },
	{ "keep_reserve_bytes", read_uint64, KEEP(reserve_bytes) },
};

static const struct option *find_option(PyObject *name)
{
	const char *text = PyUnicode_AsUTF8AndSize(name, NULL);

	for (size_t i = 0; text && i < sizeof(table) / sizeof(*table); i++)
		if (!strcmp(text, table[i].name))
			return &table[i];
	if (text)
		PyErr_Format(PyExc_TypeError, "Capture has no option '%s'", text);
	return NULL;
}

static int read_option(struct mb_capture_options *options, PyObject *name, PyObject *value)
{
	const struct option *option = find_option(name);

	if (!option)
		return -1;
	if (!option->read(value, (char *)options + option->offset))
		return 0;
	if (PyErr_ExceptionMatches(PyExc_OverflowError))
		PyErr_Format(PyExc_ValueError, "option '%s' is out of range", option->name);
	return -1;
}

int mb_options_read(struct mb_capture_options *options, PyObject *keywords)
{
	PyObject *name, *value;
	Py_ssize_t at = 0;

	*options = (struct mb_capture_options){
		.engine = {
			.bins = { .bin_ns = 100000, .source_bin_ns = 1000000, .window_ns = 2000000 },
			.directions = MB_LANE_IN | MB_LANE_OUT,
			.max_sources = 4096,
			.infer_mtu = true,
		},
		.keep = { .folder = -1 },
	};
	while (keywords && PyDict_Next(keywords, &at, &name, &value))
		if (read_option(options, name, value))
			return -1;
	options->backend.bin_ns = options->engine.bins.bin_ns;
	options->backend.source_bin_ns = options->engine.bins.source_bin_ns;
	options->backend.inner = options->engine.decode.inner;
	options->backend.splits_merged = options->engine.bins.spread_bps;
	options->backend.keeps = options->keep.folder >= 0;
	return 0;
}

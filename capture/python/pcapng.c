/* SPDX-License-Identifier: Apache-2.0
 *
 * pcapng blocks as bytes objects.
 */
#include "python/module.h"

#include <stdlib.h>

#include "format/interfaces.h"
#include "format/pcapng_write.h"

static int read_text(PyObject *value, struct mb_text *text)
{
	Py_ssize_t length;

	text->text = PyUnicode_AsUTF8AndSize(value, &length);
	text->length = (size_t)length;
	if (text->text && text->length > MB_TEXT_MOST)
		PyErr_SetString(PyExc_ValueError, "a text of more than 65,535 bytes");
	return text->text && text->length <= MB_TEXT_MOST ? 0 : -1;
}

/* The texts of a list, which owns them. NULL with an exception set on failure. */
static struct mb_text *read_texts(PyObject *list, size_t *count)
{
	Py_ssize_t length = PyList_Size(list);
	struct mb_text *texts = length < 0 ? NULL : calloc((size_t)length + 1, sizeof(*texts));

	if (!texts) {
		if (length >= 0)
			PyErr_NoMemory();
		return NULL;
	}
	for (Py_ssize_t i = 0; i < length; i++)
		if (read_text(PyList_GetItem(list, i), &texts[i])) {
			free(texts);
			return NULL;
		}
	*count = (size_t)length;
	return texts;
}

/* The bytes from BLOCK to END. */
static PyObject *bytes_of(const uint8_t *block, const uint8_t *end)
{
	return PyBytes_FromStringAndSize((const char *)block, end - block);
}

static PyObject *pcapng_section(PyObject *module, PyObject *args)
{
	PyObject *name, *list;
	struct mb_text application;
	mb_auto_free struct mb_text *comments = NULL;
	mb_auto_free uint8_t *block = NULL;
	size_t count;

	(void)module;
	if (!PyArg_ParseTuple(args, "UO!", &name, &PyList_Type, &list) || read_text(name, &application))
		return NULL;
	comments = read_texts(list, &count);
	if (!comments)
		return NULL;
	block = malloc(mb_pcapng_section_room(&application, comments, count));
	return block ? bytes_of(block, mb_pcapng_put_section(block, &application, comments, count)) : PyErr_NoMemory();
}

static PyObject *pcapng_interface(PyObject *module, PyObject *args)
{
	struct mb_interface interface = { 0 };
	uint8_t block[MB_PCAPNG_INTERFACE_ROOM];
	unsigned long long link_bps;
	struct mb_text text;
	PyObject *name;

	(void)module;
	if (!PyArg_ParseTuple(args, "UIIKI", &name, &interface.linktype, &interface.snaplen, &link_bps,
			      &interface.fcs_len) ||
	    read_text(name, &text))
		return NULL;
	mb_interface_set_name(&interface, text.text, text.length);
	interface.link_bps = link_bps;
	return bytes_of(block, mb_pcapng_put_interface(block, &interface));
}

static PyObject *pcapng_packet(PyObject *module, PyObject *args)
{
	struct mb_frame frame = { .interface = 0 };
	mb_auto_free struct mb_text *comments = NULL;
	mb_auto_free uint8_t *block = NULL;
	const char *data;
	Py_ssize_t length;
	PyObject *list;
	unsigned int len;
	long long ts_ns;
	unsigned char direction;
	size_t count;

	(void)module;
	if (!PyArg_ParseTuple(args, "LIby#O!", &ts_ns, &len, &direction, &data, &length, &PyList_Type, &list))
		return NULL;
	comments = read_texts(list, &count);
	if (!comments)
		return NULL;
	frame.ts_ns = ts_ns;
	frame.len = len;
	frame.direction = direction;
	frame.data = (const uint8_t *)data;
	frame.caplen = (uint32_t)length;
	block = malloc(mb_pcapng_packet_room(frame.caplen) + mb_pcapng_comments_room(comments, count));
	return block ? bytes_of(block, mb_pcapng_put_packet(block, &frame, comments, count)) : PyErr_NoMemory();
}

PyMethodDef mb_pcapng_methods[] = {
	{ "pcapng_section", pcapng_section, METH_VARARGS, NULL },
	{ "pcapng_interface", pcapng_interface, METH_VARARGS, NULL },
	{ "pcapng_packet", pcapng_packet, METH_VARARGS, NULL },
	{ 0 },
};

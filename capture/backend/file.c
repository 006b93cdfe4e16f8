/* SPDX-License-Identifier: Apache-2.0
 *
 * Capture files: pcap and pcapng, mapped, from a pipe, or compressed. Their content determines the format, never their
 * name.
 */
#include "backend/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "backend/filter.h"
#include "format/magic.h"
#include "format/reader.h"

#define HEAD 16
#define OPEN_MS 20 /* longest time for reading a file during open, in which a stop is not noticed */

struct file {
	struct mb_reader reader;
	struct mb_filter *filter; /* NULL: every frame */
	struct mb_backend_stats stats;
	int failure; /* the value that every further read() returns */
	struct mb_error failure_error;
};

static const struct mb_format *const formats[] = { &mb_format_pcap, &mb_format_pcapng };

static bool file_accepts(const char *target)
{
	struct stat status;

	return !strcmp(target, "-") || strchr(target, '/') || !stat(target, &status) ||
	       (errno != ENOENT && errno != ENOTDIR);
}

static int refuse(struct mb_input *input, struct mb_error *error)
{
	size_t length = (size_t)(input->end - input->at);
	char found[MB_MAGIC_TEXT];

	if (!length)
		return mb_fail(error, ENODATA, "%s: is empty%s", input->name,
			       input->compression ? " when decompressed" : "");
	mb_magic_describe(input->at, length, found);
	return mb_fail(error, EBADMSG, "%s: byte 0%s: neither pcap nor pcapng but %s", input->name,
		       mb_input_place(input), found);
}

/* Choose the format by the first bytes. */
static int recognize(struct mb_reader *reader, struct mb_error *error)
{
	struct mb_input *input = &reader->input;
	int supply = mb_input_need(input, MB_FORMAT_MAGIC, error);

	if (supply == MB_SUPPLY_SHORT)
		return refuse(input, error);
	if (supply != MB_SUPPLY_READY)
		return supply;
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
		if (formats[i]->matches(input->at)) {
			reader->format = formats[i];
			return MB_SUPPLY_READY;
		}
	supply = mb_input_need(input, HEAD, error);
	return supply == MB_SUPPLY_READY || supply == MB_SUPPLY_SHORT ? refuse(input, error) : supply;
}

/* Decompress compressed data; a mapped file was checked when it was opened. */
static int unwrap(struct mb_input *input, struct mb_error *error)
{
	const struct mb_compression *kind;
	int supply = mb_input_need(input, MB_COMPRESSION_MAGIC, error);

	if (supply != MB_SUPPLY_READY && supply != MB_SUPPLY_SHORT)
		return supply;
	kind = mb_compression_find(input->at, (size_t)(input->end - input->at));
	if (kind) {
		int result = mb_input_decompress(input, kind, error);

		if (result < 0)
			return result;
	}
	return MB_SUPPLY_READY;
}

/* Read up to the first record, as far as input is available. */
static int begin(struct mb_reader *reader, struct mb_error *error)
{
	int supply = MB_SUPPLY_READY;

	if (!reader->input.mapping.base && !reader->input.compression)
		supply = unwrap(&reader->input, error);
	if (supply == MB_SUPPLY_READY && !reader->format)
		supply = recognize(reader, error);
	if (supply == MB_SUPPLY_READY)
		supply = reader->format->open(reader, error);
	return supply;
}

static int prepare_filter(struct file *file, struct mb_error *error)
{
	const struct mb_interfaces *interfaces = &file->reader.interfaces;

	if (!file->filter)
		return 0;
	return mb_filter_prepare(file->filter, interfaces->list, interfaces->count, file->reader.swapped, error);
}

static int file_open(struct mb_backend *backend, const struct mb_backend_options *options, struct mb_error *error)
{
	struct file *file = backend->state;
	int result;

	if (options->filter && options->filter[0]) {
		file->filter = mb_filter_create(options->filter);
		if (!file->filter)
			return mb_fail(error, ENOMEM, "%s: out of memory", options->target);
	}
	result = mb_input_open(&file->reader.input, options->target, &backend->stop, error);
	if (result < 0)
		return result;
	/* A pipe may have to be waited for: that is left to read(), which has a timeout. */
	if (!file->reader.input.regular)
		return 0;
	mb_input_set_timeout(&file->reader.input, OPEN_MS);
	result = begin(&file->reader, error);
	return result < 0 ? result : prepare_filter(file, error);
}

static int read_frames(struct mb_reader *reader, struct mb_batch *batch, struct mb_error *error)
{
	int supply = MB_SUPPLY_READY;

	batch->count = 0;
	if (!reader->state)
		supply = begin(reader, error);
	if (supply != MB_SUPPLY_READY)
		return supply == MB_SUPPLY_LATE ? 0 : supply < 0 ? supply : MB_BACKEND_END;
	return reader->format->read(reader, batch, error);
}

/* Like read_frames(), without the frames that the filter excludes. */
static int read_matching(struct file *file, struct mb_batch *batch, struct mb_error *error)
{
	while (!*file->reader.input.stop) {
		int result = read_frames(&file->reader, batch, error);

		if (!file->filter || result <= 0)
			return result;
		/* The filter cannot be compiled for an interface: yield the frames before it, then the error. */
		file->failure = prepare_filter(file, error);
		file->stats.filtered += mb_filter_apply(file->filter, batch);
		if (batch->count)
			return (int)batch->count;
		if (file->failure < 0)
			return file->failure;
		if (mb_input_is_late(&file->reader.input))
			return 0;
	}
	return MB_BACKEND_END;
}

static uint64_t sum_lengths(const struct mb_batch *batch)
{
	uint64_t bytes = 0;

#pragma GCC unroll 8
	for (uint32_t i = 0; i < batch->count; i++)
		bytes += batch->frames[i].len;
	return bytes;
}

static int file_read(struct mb_backend *backend, struct mb_batch *batch, int timeout_ms, struct mb_error *error)
{
	struct file *file = backend->state;
	int count;

	batch->count = 0;
	if (file->failure < 0)
		return mb_fail(error, -file->failure, "%s", file->failure_error.message);
	mb_input_set_timeout(&file->reader.input, timeout_ms);
	count = read_matching(file, batch, &file->failure_error);
	backend->starved = !count && file->reader.input.starved;
	if (count < 0 && count != MB_BACKEND_END) {
		file->failure = count;
		return mb_fail(error, -count, "%s", file->failure_error.message);
	}
	file->stats.bytes += sum_lengths(batch);
	file->stats.frames += batch->count;
	return count;
}

static bool file_look(struct mb_backend *backend, struct mb_frame_view *view)
{
	struct file *file = backend->state;
	struct mb_reader *reader = &file->reader;

	if (file->filter || file->failure < 0 || !reader->state || !reader->format->look || *reader->input.stop)
		return false;
	mb_input_release(&reader->input);
	return reader->format->look(reader, view);
}

static void file_take(struct mb_backend *backend, const struct mb_frame_view *view, uint64_t frames, uint64_t bytes)
{
	struct file *file = backend->state;

	file->reader.input.at = view->at;
	file->stats.frames += frames;
	file->stats.bytes += bytes;
}

static const struct mb_interface *file_interfaces(const struct mb_backend *backend, size_t *count)
{
	const struct file *file = backend->state;

	*count = file->reader.interfaces.count;
	return file->reader.interfaces.list;
}

static void file_stats(const struct mb_backend *backend, struct mb_backend_stats *stats)
{
	const struct file *file = backend->state;

	*stats = file->stats;
	if (file->reader.state)
		file->reader.format->stats(&file->reader, stats);
}

static const char *file_notice(const struct mb_backend *backend)
{
	const struct file *file = backend->state;

	if (file->reader.input.notice[0])
		return file->reader.input.notice;
	return file->reader.notice[0] ? file->reader.notice : NULL;
}

static void file_close(struct mb_backend *backend)
{
	struct file *file = backend->state;

	if (file->reader.state)
		file->reader.format->close(&file->reader);
	mb_interfaces_deinit(&file->reader.interfaces);
	mb_input_close(&file->reader.input);
	mb_filter_destroy(file->filter);
}

bool mb_backend_file_has_interfaces(const struct mb_backend *backend)
{
	const struct file *file = backend->state;

	return file->reader.format == &mb_format_pcapng;
}

bool mb_backend_file_is_mapped(const struct mb_backend *backend)
{
	const struct file *file = backend->state;

	return file->reader.input.mapping.base != NULL;
}

void mb_backend_file_set_stop(struct mb_backend *backend, const volatile bool *stop)
{
	struct file *file = backend->state;

	file->reader.input.stop = stop;
}

const struct mb_backend_ops mb_backend_file = {
	.name = "file",
	.description = "capture files: pcap and pcapng, plain or as .gz, .zst, .xz, also from a pipe",
	.accepts = file_accepts,
	.state_size = sizeof(struct file),
	.open = file_open,
	.read = file_read,
	.look = file_look,
	.take = file_take,
	.interfaces = file_interfaces,
	.stats = file_stats,
	.notice = file_notice,
	.close = file_close,
};

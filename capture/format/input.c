/* SPDX-License-Identifier: Apache-2.0 */
#include "clock.h"
#include "format/input.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Small enough to stay in the L2 cache between the copy and the parser. */
#define WINDOW ((size_t)256 << 10)
#define RAW ((size_t)64 << 10)
/* How long a blocked read may take to notice a stop. */
#define STOP_POLL_MS 50

void mb_input_set_timeout(struct mb_input *input, int timeout_ms)
{
	input->deadline_ms = timeout_ms < 0 ? INT64_MAX : mb_monotonic_ms() + timeout_ms;
	input->starved = false;
}

bool mb_input_is_late(const struct mb_input *input)
{
	return mb_monotonic_ms() >= input->deadline_ms;
}

const char *mb_input_place(const struct mb_input *input)
{
	return input->compression ? " of the decompressed data" : "";
}

/* --- bytes of the file --- */

/* Wait until the descriptor is readable. */
static int wait_readable(struct mb_input *input, struct mb_error *error)
{
	struct pollfd poller = { .fd = input->fd, .events = POLLIN };

	for (;;) {
		int64_t left = input->deadline_ms - mb_monotonic_ms();
		int ready;

		if (*input->stop)
			return MB_SUPPLY_STOPPED;
		if (left < 0)
			left = 0;
		ready = poll(&poller, 1, left < STOP_POLL_MS ? (int)left : STOP_POLL_MS);
		if (ready > 0)
			return MB_SUPPLY_READY;
		if (ready < 0 && errno != EINTR)
			return mb_fail_errno(error, errno, "%s: cannot wait for data", input->name);
		if (!ready && !left) {
			input->starved = true;
			return MB_SUPPLY_LATE;
		}
	}
}

/* Read up to ROOM bytes and set GOT, which is 0 only with MB_SUPPLY_SHORT. */
static int fetch(struct mb_input *input, uint8_t *out, size_t room, size_t *got, struct mb_error *error)
{
	*got = 0;
	for (;;) {
		int ready = input->regular ? MB_SUPPLY_READY : wait_readable(input, error);
		ssize_t length;

		if (ready != MB_SUPPLY_READY)
			return ready;
		length = read(input->fd, out, room);
		if (length > 0) {
			*got = (size_t)length;
			return MB_SUPPLY_READY;
		}
		if (!length)
			return MB_SUPPLY_SHORT;
		if (errno != EINTR && errno != EAGAIN)
			return mb_fail_errno(error, errno, "%s: cannot be read", input->name);
	}
}

/* --- the window of a stream --- */

/* Run the decompressor once over the available raw bytes. GOT may be 0 before the end, if the decompressor only
 * consumed input. */
static int decompress(struct mb_input *input, uint8_t *out, size_t room, size_t *got, struct mb_error *error)
{
	size_t taken = input->raw_end - input->raw_at;
	const char *reason = NULL;
	int result;

	*got = room;
	result = input->compression->run(&input->decompressor, input->raw + input->raw_at, &taken, out, got,
					 input->raw_ended, &reason);
	input->raw_at += taken;
	if (result < 0)
		return mb_fail(error, -result, "%s: byte %" PRIu64 ": %s data cannot be decompressed: %s", input->name,
			       input->raw_offset + input->raw_at, input->compression->name, reason);
	if (result == MB_DECOMPRESS_CUT)
		snprintf(input->notice, sizeof(input->notice), "%s: the %s data are cut off at byte %" PRIu64,
			 input->name, input->compression->name, input->raw_offset + input->raw_at);
	else if (result == MB_DECOMPRESS_DONE && input->raw_at < input->raw_end)
		snprintf(input->notice, sizeof(input->notice),
			 "%s: what follows the %s data at byte %" PRIu64 " is not %s and was left out", input->name,
			 input->compression->name, input->raw_offset + input->raw_at, input->compression->name);
	return result == MB_DECOMPRESS_MORE ? MB_SUPPLY_READY : MB_SUPPLY_SHORT;
}

static int fetch_raw(struct mb_input *input, struct mb_error *error)
{
	size_t got;
	int supply;

	input->raw_offset += input->raw_end;
	input->raw_at = input->raw_end = 0;
	supply = fetch(input, input->raw, RAW, &got, error);
	input->raw_end = got;
	if (supply != MB_SUPPLY_SHORT)
		return supply;
	input->raw_ended = true;
	return MB_SUPPLY_READY;
}

/* Write up to ROOM decompressed bytes to OUT. */
static int produce(struct mb_input *input, uint8_t *out, size_t room, size_t *got, struct mb_error *error)
{
	if (!input->compression)
		return fetch(input, out, room, got, error);
	for (;;) {
		int supply = MB_SUPPLY_READY;

		*got = 0;
		if (input->raw_at == input->raw_end && !input->raw_ended)
			supply = fetch_raw(input, error);
		if (supply != MB_SUPPLY_READY)
			return supply;
		supply = decompress(input, out, room, got, error);
		if (*got || supply != MB_SUPPLY_READY)
			return supply;
		if (mb_input_is_late(input))
			return MB_SUPPLY_LATE;
	}
}

/* Make room for NEED bytes from `at` on, by moving them to the front. */
static int make_room(struct mb_input *input, size_t need, struct mb_error *error)
{
	size_t have = (size_t)(input->end - input->at);

	input->begin_offset = mb_input_offset(input, input->at);
	if (have)
		memmove(input->buffer, input->at, have);
	if (have == input->room && need > have) {
		size_t room = 2 * input->room;
		uint8_t *buffer = realloc(input->buffer, room);

		if (!buffer)
			return mb_fail(error, ENOMEM, "%s: out of memory for %zu bytes", input->name, room);
		input->buffer = buffer;
		input->room = room;
	}
	input->begin = input->at = input->buffer;
	input->end = input->buffer + have;
	return 0;
}

static int fill(struct mb_input *input, size_t need, struct mb_error *error)
{
	while ((size_t)(input->end - input->at) < need) {
		size_t got;
		int result;

		if (input->failure < 0)
			return mb_fail(error, -input->failure, "%s", input->failure_error.message);
		if (input->ended)
			return MB_SUPPLY_SHORT;
		result = make_room(input, need, error);
		if (result < 0)
			return result;
		result = produce(input, (uint8_t *)input->end, input->room - (size_t)(input->end - input->begin), &got,
				 &input->failure_error);
		input->end += got;
		if (result < 0)
			input->failure = result;
		if (result == MB_SUPPLY_SHORT)
			input->ended = true;
		if (result == MB_SUPPLY_LATE || result == MB_SUPPLY_STOPPED)
			return result;
	}
	return MB_SUPPLY_READY;
}

static int pass_over(struct mb_input *input, struct mb_error *error)
{
	while (input->skip) {
		size_t have = (size_t)(input->end - input->at);
		int result = MB_SUPPLY_READY;

		if (!have)
			result = fill(input, 1, error);
		if (result != MB_SUPPLY_READY)
			return result;
		have = (size_t)(input->end - input->at);
		if (have > input->skip)
			have = (size_t)input->skip;
		input->at += have;
		input->skip -= have;
		if (input->skip && mb_input_is_late(input))
			return MB_SUPPLY_LATE;
	}
	return MB_SUPPLY_READY;
}

int mb_input_need(struct mb_input *input, size_t need, struct mb_error *error)
{
	int result;

	if (*input->stop)
		return MB_SUPPLY_STOPPED;
	if (input->mapping.base)
		return (size_t)(input->end - input->at) < need ? MB_SUPPLY_SHORT : MB_SUPPLY_READY;
	result = pass_over(input, error);
	return result == MB_SUPPLY_READY ? fill(input, need, error) : result;
}

void mb_input_skip(struct mb_input *input, uint64_t count)
{
	uint64_t have = (uint64_t)(input->end - input->at);

	input->skip += count > have ? count - have : 0;
	input->at += count > have ? have : count;
}

/* Size of the mapped file now, or SIZE_MAX if its name now belongs to another file. */
static uint64_t size_now(const struct mb_input *input)
{
	struct stat status;
	int result = input->is_standard ? fstat(input->fd, &status) : stat(input->name, &status);

	if (result || status.st_dev != input->device || status.st_ino != input->inode)
		return SIZE_MAX;
	return (uint64_t)status.st_size;
}

int mb_input_check(const struct mb_input *input, struct mb_error *error)
{
	uint64_t size;
	size_t fault;

	if (!input->mapping.base)
		return 0;
	size = size_now(input);
	if (size < input->mapping.size)
		return mb_fail(error, EIO, "%s: byte %" PRIu64 ": the file shrank to this while it was read",
			       input->name, size);
	if (mb_mapping_fault(&input->mapping, &fault))
		return mb_fail(error, EIO, "%s: byte %zu: the file cannot be read here: it shrank, or the disk failed",
			       input->name, fault);
	return 0;
}

/* --- open, close --- */

static void close_file(struct mb_input *input)
{
	if (input->is_standard)
		return;
	if (input->fd >= 0)
		close(input->fd);
	input->fd = -1;
}

static int open_target(struct mb_input *input, const char *target, struct stat *status, struct mb_error *error)
{
	input->is_standard = !strcmp(target, "-");
	input->name = strdup(input->is_standard ? "standard input" : target);
	if (!input->name)
		return mb_fail(error, ENOMEM, "%s: out of memory", target);
	/* A FIFO without a writer must not block here, where nothing could stop it. */
	input->fd = input->is_standard ? STDIN_FILENO : open(target, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (input->fd < 0)
		return mb_fail_errno(error, errno, "%s: cannot be opened", input->name);
	if (fstat(input->fd, status))
		return mb_fail_errno(error, errno, "%s: cannot be examined", input->name);
	if (S_ISDIR(status->st_mode))
		return mb_fail(error, EISDIR, "%s: is a directory: name the capture files in it", input->name);
	if (isatty(input->fd))
		return mb_fail(error, EINVAL, "%s: is a terminal: pipe a capture into it", input->name);
	return 0;
}

/* Map a file of uncompressed data; no descriptor is kept, so that thousands of files can be merged. Returns false if
 * the file must be read instead. */
static bool map(struct mb_input *input, const struct stat *status)
{
	off_t position = lseek(input->fd, 0, SEEK_CUR);

	if (position < 0 || position >= status->st_size || (uint64_t)status->st_size > SIZE_MAX)
		return false;
	/* Bytes that are appended later are not read: the end is the present one. */
	if (mb_mapping_open(&input->mapping, input->fd, (size_t)status->st_size))
		return false;
	input->begin = input->mapping.base;
	input->at = input->begin + position;
	input->end = input->begin + input->mapping.size;
	input->device = status->st_dev;
	input->inode = status->st_ino;
	close_file(input);
	return true;
}

/* Whether the regular file is compressed, without changing the position in it. */
static bool is_compressed(const struct mb_input *input)
{
	uint8_t head[MB_COMPRESSION_MAGIC];
	ssize_t length = pread(input->fd, head, sizeof(head), lseek(input->fd, 0, SEEK_CUR));

	return length > 0 && mb_compression_find(head, (size_t)length);
}

int mb_input_open(struct mb_input *input, const char *target, const volatile bool *stop, struct mb_error *error)
{
	struct stat status;
	int result;

	*input = (struct mb_input){ .fd = -1, .stop = stop, .deadline_ms = INT64_MAX };
	result = open_target(input, target, &status, error);
	if (result < 0)
		return result;
	input->regular = S_ISREG(status.st_mode);
	if (input->regular && !is_compressed(input) && map(input, &status))
		return 0;
	input->room = WINDOW;
	input->buffer = malloc(input->room);
	if (!input->buffer)
		return mb_fail(error, ENOMEM, "%s: out of memory", input->name);
	input->begin = input->at = input->end = input->buffer;
	return 0;
}

int mb_input_decompress(struct mb_input *input, const struct mb_compression *kind, struct mb_error *error)
{
	size_t have = (size_t)(input->end - input->at);
	int result;

	if (!kind->open)
		return mb_fail(error, ENOTSUP,
			       "%s: %s data, which this build cannot read: install %s and build "
			       "mburst again, or pipe it: %s FILE | mburst … -",
			       input->name, kind->name, kind->package, kind->tool);
	input->raw = malloc(RAW > have ? RAW : have);
	if (!input->raw)
		return mb_fail(error, ENOMEM, "%s: out of memory", input->name);
	result = kind->open(&input->decompressor);
	if (result < 0)
		return mb_fail_errno(error, -result, "%s: cannot decompress", input->name);
	memcpy(input->raw, input->at, have);
	input->raw_end = have;
	input->raw_ended = input->ended;
	input->ended = false;
	input->compression = kind;
	input->begin = input->at = input->end = input->buffer;
	return 0;
}

void mb_input_close(struct mb_input *input)
{
	if (input->compression)
		input->compression->close(&input->decompressor);
	mb_mapping_close(&input->mapping);
	close_file(input);
	free(input->raw);
	free(input->buffer);
	free(input->name);
	*input = (struct mb_input){ .fd = -1 };
}

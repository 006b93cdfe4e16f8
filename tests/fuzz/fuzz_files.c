/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer harness: the input is a capture file that is read mapped, in place, and through a pipe. All
 * ways must give the same frames. Every frame goes through the decoder, and the file through the engine,
 * whose bins and senders must hold every byte that was read. The input begins with the first byte of the
 * file, so that a corpus of captures needs no conversion.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backend/backend.h"
#include "decode/decode.h"
#include "format/pcap_header.h"
#include "measure/engine.h"

#define PIPE_SIZE (1 << 20)

struct outcome {
	uint64_t frames, bytes, hash;
	int result;
	char message[MB_ERROR_LENGTH];
};

static void mix(struct outcome *outcome, uint64_t value)
{
	outcome->hash = (outcome->hash ^ value) * 0x100000001b3u;
}

static void decode(const struct mb_batch *batch, const struct mb_interface *interfaces)
{
	static struct mb_packet packets[MB_BATCH_FRAMES];

	for (uint32_t i = 0; i < batch->count; i++) {
		const struct mb_frame *frame = &batch->frames[i];
		const struct mb_interface *interface = &interfaces[frame->interface];
		struct mb_decode_options options = { .inner = i & 1, .mtu = i & 2 ? 1500 : 0 };
		struct mb_address destination;
		uint64_t sender, receiver;
		char text[MB_ADDRESS_TEXT];

		mb_decode(frame, 1, interface, &options, &packets[i]);
		mb_address_format(&packets[i].source, text);
		mb_decode_macs(frame, interface, &sender, &receiver);
		mb_decode_destination(frame, interface, &options, &destination);
	}
}

static void check(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "fuzz_files: %s\n", what);
	abort();
}

static void take(struct outcome *outcome, const struct mb_backend *backend, const struct mb_batch *batch)
{
	size_t count;
	const struct mb_interface *interfaces = backend->ops->interfaces(backend, &count);

	for (uint32_t i = 0; i < batch->count; i++) {
		const struct mb_frame *frame = &batch->frames[i];

		check(frame->interface < count, "a frame of an interface that is not listed");
		mix(outcome, (uint64_t)frame->ts_ns);
		mix(outcome, (uint64_t)frame->len << 32 | frame->caplen);
		mix(outcome, (uint64_t)frame->interface << 16 | frame->direction << 8 | frame->quality);
		for (uint32_t at = 0; at < frame->caplen; at++)
			mix(outcome, frame->data[at]);
		outcome->bytes += frame->len;
	}
	outcome->frames += batch->count;
	decode(batch, interfaces);
}

/* Reads all of TARGET. Returns how that ended, with the message after the file's name. */
static struct outcome read_all(const char *target)
{
	struct mb_backend_options options = { .target = target, .backend = "file" };
	static struct mb_batch batch;
	struct outcome outcome = { 0 };
	struct mb_error error = { "" };
	struct mb_backend_stats stats;
	struct mb_backend backend;

	outcome.result = mb_backend_open(&backend, &options, &error);
	if (outcome.result == 0) {
		while ((outcome.result = mb_backend_read(&backend, &batch, -1, &error)) > 0)
			take(&outcome, &backend, &batch);
		check(mb_backend_read(&backend, &batch, -1, &error) == outcome.result,
		      "the end of a backend does not stay");
		backend.ops->stats(&backend, &stats);
		check(stats.frames == outcome.frames && stats.bytes == outcome.bytes, "statistics that do not add up");
		check(outcome.result == MB_BACKEND_END || error.message[0], "an error without words");
		mb_backend_close(&backend);
	}
	if (outcome.result != MB_BACKEND_END && strstr(error.message, ": "))
		strcpy(outcome.message, strstr(error.message, ": "));
	return outcome;
}

/* Divides the frames that BACKEND has in memory into trains, and takes them one by one. */
static void take_in_place(struct outcome *outcome, struct mb_backend *backend, struct mb_frame_view *view)
{
	static struct mb_batch one = { .count = 1 };
	static struct mb_trains trains;
	struct mb_decode_options options = { .mtu = 1500 };
	uint64_t frames = outcome->frames, bytes = outcome->bytes;
	const uint8_t *at = view->at;
	size_t count;

	mb_trains_init(&trains, 10000, 1000000);
	mb_trains_decode(&trains, view, backend->ops->interfaces(backend, &count), &options);
	check(at < (const uint8_t *)view->at, "a view without a frame");
	while (at < (const uint8_t *)view->at) {
		one.frames[0] = mb_view_frame(view->layout, at);
		take(outcome, backend, &one);
		at += mb_view_stride(view->layout, one.frames[0].caplen);
	}
	check(outcome->frames - frames == trains.frames && outcome->bytes - bytes == trains.bytes,
	      "trains of other frames than their view");
	mb_backend_take(backend, view, trains.frames, trains.bytes);
}

/* Checks that frames of TARGET in memory, where there are any, equal those that were READ from it. */
static void check_in_place(const char *target, const struct outcome *read)
{
	struct mb_backend_options options = { .target = target, .backend = "file" };
	static struct mb_batch batch;
	struct outcome outcome = { 0 };
	struct mb_error error = { "" };
	struct mb_backend backend;
	struct mb_frame_view view;

	if (mb_backend_open(&backend, &options, &error))
		return;
	do {
		while (mb_backend_look(&backend, &view))
			take_in_place(&outcome, &backend, &view);
		outcome.result = mb_backend_read(&backend, &batch, -1, &error);
		if (outcome.result > 0)
			take(&outcome, &backend, &batch);
	} while (outcome.result > 0);
	check(outcome.result == read->result && outcome.frames == read->frames && outcome.hash == read->hash,
	      "other frames in place than were read");
	mb_backend_close(&backend);
}

static uint64_t column_sum(const struct mb_table *rows, uint32_t column)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < rows->count; i++)
		sum += (uint64_t)((const int64_t *)rows->data[column])[i];
	return sum;
}

/* Returns the bytes, without FCS, of the frames that the engine got from the backend. */
static uint64_t counted_bytes(const struct mb_engine *engine)
{
	uint64_t bytes = engine->excluded_bytes;

	for (uint32_t i = 0; i < engine->n_lanes; i++)
		bytes += engine->lanes[i]->lane.totals.bytes + engine->lanes[i]->lane.totals.late_bytes;
	return bytes;
}

static void check_sums(const struct mb_engine *engine, uint64_t bin_bytes, uint64_t sender_bytes)
{
	uint64_t bytes = 0, attributed = 0;

	for (uint32_t i = 0; i < engine->n_lanes; i++) {
		bytes += engine->lanes[i]->lane.totals.bytes;
		attributed += engine->lanes[i]->lane.totals.bytes - engine->lanes[i]->lane.totals.unattributed_bytes;
	}
	check(bin_bytes == bytes, "bins that do not add up");
	check(sender_bytes == attributed, "senders that do not add up");
}

/* Counts all of TARGET. Returns the bytes in bins, of late packets and of excluded ones. */
static uint64_t count_all(const char *target, const struct mb_engine_options *options)
{
	struct mb_backend_options backend_options = { .target = target, .backend = "file" };
	uint64_t bin_bytes = 0, sender_bytes = 0, bytes = 0;
	struct mb_table *bins, *senders;
	struct mb_engine *engine;
	struct mb_error error = { "" };
	struct mb_backend backend;

	if (mb_backend_open(&backend, &backend_options, &error))
		return 0;
	engine = mb_engine_create(options, &backend);
	check(engine, "no memory for an engine");
	while (mb_engine_run(engine, 16, &error) == 1) {
		check(!mb_engine_take(engine, &bins, &senders), "no memory for rows");
		bin_bytes += column_sum(bins, 3);
		sender_bytes += column_sum(senders, 4);
		mb_table_release(bins);
		mb_table_release(senders);
	}
	check_sums(engine, bin_bytes, sender_bytes);
	bytes = counted_bytes(engine);
	mb_engine_destroy(engine);
	mb_backend_close(&backend);
	return bytes;
}

/* Counts by trains and frame by frame: `inner` decodes every frame separately. */
static void count_both_ways(const char *target)
{
	struct mb_engine_options options = {
		.bins = { .bin_ns = 10000, .source_bin_ns = 1000000, .window_ns = 2000000 },
		.infer_mtu = true,
		.directions = MB_LANE_IN | MB_LANE_OUT,
		.max_sources = 4,
	};
	uint64_t bytes = count_all(target, &options);

	options.decode.inner = true;
	check(count_all(target, &options) == bytes, "trains of other bytes than their frames");
}

/* Returns whether the variant of pcap was guessed from the records, which is impossible with a pipe. */
static bool is_guessed(const char *path)
{
	struct mb_pcap_header header;
	struct mb_input input;
	bool never = false, guessed = false;

	if (mb_input_open(&input, path, &never, NULL) == 0 && input.end - input.at >= 4 &&
	    mb_pcap_header_matches(input.at) && mb_pcap_header_read(&input, &header, NULL) == MB_SUPPLY_READY)
		guessed = header.variant.header != MB_PCAP_RECORD_HEADER;
	mb_input_close(&input);
	return guessed;
}

static struct outcome read_mapped(const uint8_t *data, size_t size, bool *guessed)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	struct outcome outcome;
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	check(write(fd, data, size) == (ssize_t)size, "cannot write to memory");
	outcome = read_all(path);
	check_in_place(path, &outcome);
	count_both_ways(path);
	*guessed = is_guessed(path);
	close(fd);
	return outcome;
}

static struct outcome read_piped(const uint8_t *data, size_t size)
{
	struct outcome outcome;
	char path[32];
	int ends[2];

	check(pipe2(ends, O_CLOEXEC) == 0, "no pipe");
	fcntl(ends[1], F_SETPIPE_SZ, PIPE_SIZE);
	check(write(ends[1], data, size) == (ssize_t)size, "cannot write to the pipe");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", ends[0]);
	close(ends[1]);
	outcome = read_all(path);
	close(ends[0]);
	return outcome;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct outcome mapped, piped;
	bool guessed;

	if (size > PIPE_SIZE / 2)
		return -1;
	mapped = read_mapped(data, size, &guessed);
	piped = read_piped(data, size);
	if (guessed)
		return 0;
	check(mapped.frames == piped.frames && mapped.hash == piped.hash, "a pipe gives other frames than the file");
	check(mapped.result == piped.result || mapped.message[0], "a pipe ends otherwise than the file");
	check(!strcmp(mapped.message, piped.message), "a pipe fails otherwise than the file");
	return 0;
}

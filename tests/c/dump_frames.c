/* SPDX-License-Identifier: Apache-2.0
 *
 * dump_frames [-f FILTER] [-t TIMEOUT_MS] [-q] FILE…: what the sources make of the files, for
 * tests. One line per frame (unless -q), then the interfaces, the statistics and the notice;
 * "error: …" and exit code 1 where one fails.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "merge.h"
#include "source.h"

/* FNV-1a, so that every captured byte is read (and checked by the sanitizers). */
static uint32_t fingerprint(const uint8_t *data, uint32_t length)
{
	uint32_t hash = 2166136261u;

	for (uint32_t i = 0; i < length; i++)
		hash = (hash ^ data[i]) * 16777619u;
	return hash;
}

static void print_batch(const struct mb_batch *batch)
{
	for (uint32_t i = 0; i < batch->count; i++) {
		const struct mb_frame *frame = &batch->frames[i];

		printf("frame %" PRId64 " %u %u %u %u %u %08x\n", frame->ts_ns, frame->interface,
		       frame->caplen, frame->len, frame->direction, frame->quality,
		       fingerprint(frame->data, frame->caplen));
	}
}

static void print_rest(const struct mb_source *source)
{
	const struct mb_interface *interfaces;
	struct mb_source_stats stats;
	size_t count;

	interfaces = source->ops->interfaces(source, &count);
	for (size_t i = 0; i < count; i++)
		printf("interface %zu %u %u %" PRIu64 " %u %u %s\n", i, interfaces[i].linktype,
		       interfaces[i].snaplen, interfaces[i].link_bps, interfaces[i].fcs_len,
		       interfaces[i].quality, interfaces[i].name);
	source->ops->stats(source, &stats);
	printf("stats %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRId64 " %" PRId64 "\n",
	       stats.frames, stats.bytes, stats.filtered, stats.dropped, stats.drop_first_ns,
	       stats.drop_last_ns);
	if (source->ops->notice(source))
		printf("notice %s\n", source->ops->notice(source));
}

int main(int argc, char **argv)
{
	struct mb_source_options options = {0};
	static struct mb_batch batch;
	struct mb_source source;
	struct mb_error error;
	int timeout_ms = -1, quiet = 0, option, result;

	while ((option = getopt(argc, argv, "f:t:q")) != -1) {
		if (option == 'f')
			options.filter = optarg;
		else if (option == 't')
			timeout_ms = atoi(optarg);
		else
			quiet = 1;
	}
	if (optind == argc)
		return 2;
	if (mb_merge_open(&source, (const char *const *)argv + optind, (size_t)(argc - optind),
			  &options, &error) < 0) {
		printf("error: %s\n", error.message);
		return 1;
	}
	while ((result = mb_source_read(&source, &batch, timeout_ms, &error)) >= 0)
		if (!quiet)
			print_batch(&batch);
	if (result != MB_SOURCE_END)
		printf("error: %s\n", error.message);
	print_rest(&source);
	mb_source_close(&source);
	return result != MB_SOURCE_END;
}

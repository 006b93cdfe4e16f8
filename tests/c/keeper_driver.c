/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps frames in a ring of files, and prints what was kept, as one JSON object:
 *   keeper_driver FOLDER MOST_BYTES RESERVE_BYTES COUNT CAPLEN [stalled]
 * Frame i is stamped 10^18 + 1000 i, has 3 i mod CAPLEN captured bytes (but at least 14) of value i mod 256, a length of
 * 100 more, and direction 1 + i mod 2. "stalled": the disk accepts nothing until all frames were added.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "keep/keeper.h"

#define FIRST_NS 1000000000000000000

static atomic_bool stalled;

/* Replaces the function of the C library. */
ssize_t pwrite(int file, const void *bytes, size_t length, off_t at)
{
	while (stalled)
		usleep(1000);
	return syscall(SYS_pwrite64, file, bytes, length, at);
}

static void add(struct mb_keeper *keeper, uint64_t count, uint32_t caplen)
{
	uint8_t *bytes = malloc((size_t)caplen + 14);

	for (uint64_t i = 0; i < count; i++) {
		struct mb_frame frame = {
			.ts_ns = FIRST_NS + 1000 * (int64_t)i,
			.data = bytes,
			.caplen = 14 + (uint32_t)(3 * i % caplen),
			.direction = (uint8_t)(1 + i % 2),
		};

		frame.len = frame.caplen + 100;
		memset(bytes, (int)(i % 256), frame.caplen);
		mb_keeper_add(keeper, &frame, 1);
		if (i % 512 == 511)
			mb_keeper_pass(keeper, frame.ts_ns);
	}
	free(bytes);
}

int main(int argc, char **argv)
{
	const struct mb_interface interface = {
		.name = "eth0", .linktype = 1, .snaplen = 262144, .link_bps = 1000000000
	};
	struct mb_packet_files_options options = { 0 };
	struct mb_error error = { 0 };
	struct mb_keeper *keeper;
	struct mb_kept kept;
	uint64_t count;

	if (argc < 6)
		return 2;
	options.folder = open(argv[1], O_RDONLY | O_DIRECTORY);
	options.most_bytes = strtoull(argv[2], NULL, 0);
	options.reserve_bytes = strtoull(argv[3], NULL, 0);
	count = strtoull(argv[4], NULL, 0);
	stalled = argc > 6;
	keeper = mb_keeper_open(&options, &interface, &error);
	if (!keeper) {
		fprintf(stderr, "%s\n", error.message);
		return 1;
	}
	add(keeper, count, (uint32_t)strtoul(argv[5], NULL, 0));
	mb_keeper_pass(keeper, FIRST_NS + 1000 * (int64_t)count);
	stalled = false;
	mb_keeper_finish(keeper);
	mb_keeper_state(keeper, &kept);
	mb_keeper_close(keeper);
	close(options.folder);
	printf("{\"packets\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"lost\": %" PRIu64 ", \"trouble\": \"%s\"}\n",
	       kept.packets, kept.bytes, kept.lost, kept.trouble);
	return 0;
}

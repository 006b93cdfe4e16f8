/* SPDX-License-Identifier: Apache-2.0
 *
 * The losses that the reader of the kernel's bins finds while the clock is set. The kernel's memory is that of this
 * file: one cursor with bins of 1000 ns. Arguments: BASE_NS STEP_AT_NS STEP_BASE_NS (STEP_AT_NS 0: the clock is not set),
 * and then for each bin NUMBER:BEFORE:PACKETS. Prints the losses before the step and after it, in JSON.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/ebpf/reader.h"

#define SIZE 64

static void print_losses(struct mb_drop_queue *queue)
{
	struct mb_loss loss;
	const char *between = "";

	printf("[");
	for (; mb_drop_queue_take(queue, &loss); between = ", ")
		printf("%s[%" PRId64 ", %" PRId64 ", %" PRIu64 "%s]", between, loss.first_ns, loss.last_ns,
		       loss.packets, loss.is_split ? ", true" : "");
	printf("]");
}

int main(int argc, char **argv)
{
	static struct mb_ebpf_cursor cursor;
	static struct mb_ebpf_slot slots[SIZE], others[SIZE];
	static struct mb_ebpf_flow flows[SIZE];
	static struct mb_ebpf_merged merged[SIZE];
	struct mb_ebpf_kernel kernel = {
		.bin_ns = 1000,
		.source_bin_ns = 1000,
		.n_cursors = 1,
		.entries = { 1, SIZE, SIZE, SIZE, SIZE, SIZE },
		.memory = { &cursor, slots, others, flows, NULL, merged },
	};
	struct mb_drop_queue drops = { .count = 0 };
	struct mb_ebpf_reader reader;
	uint64_t step_at = strtoull(argv[2], NULL, 10);
	int status = mb_ebpf_reader_init(&reader, &kernel, 0);

	reader.base_ns = strtoll(argv[1], NULL, 10);
	reader.step_at_ns = step_at ? step_at : UINT64_MAX;
	reader.step_base_ns = strtoll(argv[3], NULL, 10);
	for (int i = 4; i < argc; i++) {
		char *text = argv[i];
		const uint64_t number = strtoull(text, &text, 10), before = strtoull(text + 1, &text, 10);

		slots[number % SIZE] = (struct mb_ebpf_slot){
			.number = number,
			.back = (uint32_t)(number - cursor.bin),
			.before = before,
			.packets = (uint32_t)strtoull(text + 1, NULL, 10),
		};
		cursor.bin = number;
	}
	if (!status)
		status = mb_ebpf_reader_collect(&reader, UINT64_MAX / 2, step_at ? step_at : 1000000, &drops);
	printf("{\"status\": %d, \"drops\": ", status);
	print_losses(&drops);
	printf(", \"later\": ");
	print_losses(&reader.later);
	printf("}\n");
	mb_ebpf_reader_deinit(&reader);
	return 0;
}

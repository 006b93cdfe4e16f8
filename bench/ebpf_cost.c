/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost of the program of --backend ebpf, one JSON object a line:
 *   ebpf_cost               a program that does nothing, one that reads the clock and one that counts, each at tcx and
 *                           (except the clock) at XDP, run on one frame repeatedly (BPF_PROG_TEST_RUN)
 *   ebpf_cost IFACE SECONDS attached to an interface, as the kernel measures it (BPF_ENABLE_STATS)
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "backend/ebpf/attach.h"
#include "backend/ebpf/kernel.h"

#define RUNS 2000000
#define ROUNDS 5

static struct mb_ebpf_kernel kernel = MB_EBPF_KERNEL_NONE;

static int counting(const char *name)
{
	return bpf_program__fd(bpf_object__find_program_by_name(kernel.object, name));
}

static int load_instructions(enum bpf_prog_type type, const struct bpf_insn *instructions, size_t count)
{
	return bpf_prog_load(type, "bench", "GPL", instructions, count, NULL);
}

/* The least of several rounds: disturbances only add to it. */
static int print_cost(const char *name, int program)
{
	static unsigned char frame[114] = { 2,    0, 0,  0,  0, 1, 2,  0, 0, 0, 0,  2, 8, 0, 0x45, 0, 0, 100, 0, 1,
					    0x40, 0, 64, 17, 0, 0, 10, 1, 0, 1, 10, 9, 0, 2, 0,    1, 0, 9,   0, 80 };
	unsigned least = ~0u;

	for (int i = 0; i < ROUNDS; i++) {
		LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = frame, .data_size_in = sizeof(frame),
			    .repeat = RUNS);

		if (bpf_prog_test_run_opts(program, &options))
			return -1;
		least = options.duration < least ? options.duration : least;
	}
	printf("{\"program\": \"%s\", \"ns\": %u}\n", name, least);
	return 0;
}

static int load(enum mb_hook hook, struct mb_error *error)
{
	const struct mb_backend_options options = {
		.backend = "ebpf", .bin_ns = 10000, .source_bin_ns = 1000000, .hook = hook
	};
	int status = mb_ebpf_load(&kernel, &options, "bench", error);

	if (!status)
		kernel.variables->phase = 1000000; /* no bin has the number 0 */
	return status;
}

static int print_costs(struct mb_error *error)
{
	const struct bpf_insn leave[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = -1 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	const struct bpf_insn pass[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = XDP_PASS },
		leave[1],
	};
	const struct bpf_insn clock[] = {
		{ .code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_ktime_get_ns },
		leave[0],
		leave[1],
	};

	return print_cost("empty", load_instructions(BPF_PROG_TYPE_SCHED_CLS, leave, 2)) ||
	       print_cost("clock", load_instructions(BPF_PROG_TYPE_SCHED_CLS, clock, 3)) ||
	       print_cost("counts", counting("count_arriving")) ||
	       (mb_ebpf_unload(&kernel), load(MB_HOOK_XDP, error)) || print_cost("xdp", counting("count_received")) ||
	       print_cost("empty_xdp", load_instructions(BPF_PROG_TYPE_XDP, pass, 2));
}

static int print_real(const char *interface, unsigned seconds, struct mb_error *error)
{
	const int measuring = bpf_enable_stats(BPF_STATS_RUN_TIME);
	struct bpf_prog_info info = { 0 };
	__u32 size = sizeof(info);

	if (measuring < 0 || mb_ebpf_attach(&kernel, 0, if_nametoindex(interface), interface, error))
		return -1;
	printf("{\"ready\": true}\n");
	fflush(stdout);
	sleep(seconds);
	if (bpf_obj_get_info_by_fd(counting("count_arriving"), &info, &size))
		return -1;
	printf("{\"packets\": %llu, \"ns\": %.1f}\n", (unsigned long long)info.run_cnt,
	       (double)info.run_time_ns / (info.run_cnt ? (double)info.run_cnt : 1));
	close(measuring);
	return 0;
}

int main(int argc, char **argv)
{
	struct mb_error error = { "" };
	int status = load(MB_HOOK_TC, &error);

	if (!status)
		status = argc > 2 ? print_real(argv[1], (unsigned)atoi(argv[2]), &error) : print_costs(&error);
	if (status)
		fprintf(stderr, "%s\n", *error.message ? error.message : "this kernel does not run or measure it");
	mb_ebpf_unload(&kernel);
	return status != 0;
}

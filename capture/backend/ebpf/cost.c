/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/ebpf/rings.h"

#include <errno.h>

#ifdef MB_EBPF_OBJECT

#include <bpf/bpf.h>
#include <linux/bpf.h>

#include "cleanup.h"

#define COST_REPEATS 100000
#define COST_ROUNDS 5

/* The shortest time, in ns, that PROGRAM takes for a datagram: disturbances only add to it. 0 if it cannot be
 * measured. */
static uint32_t time_program(int program)
{
	static unsigned char frame[114] = { [12] = 8,  [14] = 0x45, [17] = 100, [22] = 64,
					    [23] = 17, [26] = 10,   [30] = 10 };
	LIBBPF_OPTS(bpf_test_run_opts, run, .data_in = frame, .data_size_in = sizeof(frame), .repeat = COST_REPEATS);
	uint32_t least = UINT32_MAX;

	for (int i = 0; i < COST_ROUNDS; i++) {
		if (bpf_prog_test_run_opts(program, &run))
			return 0;
		least = run.duration < least ? run.duration : least;
	}
	return least;
}

static uint32_t time_nothing(void)
{
	const struct bpf_insn leave[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = -1 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	mb_auto_close int program = bpf_prog_load(BPF_PROG_TYPE_SCHED_CLS, "nothing", "GPL", leave, 2, NULL);

	return program < 0 ? 0 : time_program(program);
}

int mb_ebpf_cost(struct mb_backend_cost *cost)
{
	const struct mb_backend_options options = { .backend = "ebpf", .bin_ns = 100000, .source_bin_ns = 1000000 };
	struct mb_ebpf_kernel kernel;
	int status = mb_ebpf_load(&kernel, &options, "ebpf", NULL);
	const uint32_t nothing = status ? 0 : time_nothing();
	uint32_t counting = 0;

	if (!status) {
		kernel.variables->phase = 1000000000; /* no bin has the number 0 */
		counting = time_program(mb_ebpf_program(&kernel, 0));
		cost->memory_bytes = mb_ebpf_memory(&kernel);
	}
	cost->packet_ns = counting > nothing ? counting - nothing : 0;
	mb_ebpf_unload(&kernel);
	return status;
}

#else

int mb_ebpf_cost(struct mb_backend_cost *cost)
{
	(void)cost;
	return -EOPNOTSUPP;
}

#endif

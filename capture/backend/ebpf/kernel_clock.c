/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/ebpf/kernel_clock.h"

#include "clock.h"

#define LEAST_STEP_NS 1000 /* of system time against CLOCK_MONOTONIC, which changes only if system time is set */
#define READINGS 5

/* System time minus CLOCK_MONOTONIC, from the reading that took the shortest. Returns how long that took. */
static int64_t read_offset(int64_t *offset_ns)
{
	int64_t shortest = INT64_MAX;

	for (int i = 0; i < READINGS; i++) {
		int64_t before = mb_clock_ns(CLOCK_MONOTONIC);
		int64_t real = mb_clock_ns(CLOCK_REALTIME);
		int64_t took = mb_clock_ns(CLOCK_MONOTONIC) - before;

		if (took >= shortest)
			continue;
		shortest = took;
		*offset_ns = real - (before + took / 2);
	}
	return shortest;
}

static int64_t modulo(int64_t value, int64_t width)
{
	int64_t rest = value % width;

	return rest < 0 ? rest + width : rest;
}

uint64_t mb_ebpf_clock_now(const struct mb_ebpf_kernel *kernel)
{
	return (uint64_t)mb_clock_ns(CLOCK_MONOTONIC) + kernel->variables->phase;
}

int64_t mb_ebpf_clock_begin(struct mb_ebpf_clock *clock, struct mb_ebpf_kernel *kernel)
{
	uint64_t phase;

	read_offset(&clock->offset_ns);
	/* Add a chunk, so that no bin has the number 0. */
	phase = (uint64_t)(modulo(clock->offset_ns, clock->chunk_ns) + clock->chunk_ns);
	kernel->variables->phase = phase;
	return clock->offset_ns - (int64_t)phase;
}

/* The phase only grows, so that the kernel's time does not go back. */
void mb_ebpf_clock_check(struct mb_ebpf_clock *clock, struct mb_ebpf_kernel *kernel)
{
	const uint64_t chunk = (uint64_t)clock->chunk_ns;
	int64_t offset_ns, step_ns, took_ns = read_offset(&offset_ns);
	uint64_t now;

	step_ns = offset_ns - clock->offset_ns;
	if (clock->stepping || (step_ns <= LEAST_STEP_NS + took_ns && step_ns >= -LEAST_STEP_NS - took_ns))
		return;
	clock->offset_ns = offset_ns;
	now = mb_ebpf_clock_now(kernel);
	kernel->variables->phase += (uint64_t)modulo(step_ns, clock->chunk_ns);
	clock->step_at_ns = (now / chunk + 1) * chunk;
	clock->step_base_ns = offset_ns - (int64_t)kernel->variables->phase;
	clock->stepping = true;
}

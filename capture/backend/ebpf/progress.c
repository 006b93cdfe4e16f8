/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/ebpf/progress.h"

#include <errno.h>

void mb_ebpf_progress_note(const struct mb_ebpf_reader *reader, const struct mb_ebpf_clock *clock)
{
	volatile struct mb_ebpf_variables *variables = reader->kernel->variables;
	const uint32_t next = !variables->current;

	mb_ebpf_reader_note(reader, next);
	variables->progress[next] = (struct mb_ebpf_progress){
		.until_ns = reader->until_ns,
		.phase = variables->phase,
		.offset_ns = clock->offset_ns,
		.base_ns = reader->base_ns,
		.step_base_ns = clock->step_base_ns,
		.step_at_ns = clock->stepping ? clock->step_at_ns : 0,
	};
	__atomic_store_n((uint64_t *)(uintptr_t)&variables->current, next, __ATOMIC_RELEASE);
}

int mb_ebpf_progress_resume(struct mb_ebpf_reader *reader, struct mb_ebpf_clock *clock, struct mb_ebpf_kernel *kernel,
			    int64_t *since_ns)
{
	const uint32_t current = (uint32_t)kernel->variables->current & 1;
	const struct mb_ebpf_progress found = kernel->variables->progress[current];

	if (found.phase != kernel->variables->phase)
		return -EAGAIN;
	if (mb_ebpf_reader_init(reader, kernel, 0))
		return -ENOMEM;
	mb_ebpf_reader_resume(reader, current, found.until_ns);
	clock->offset_ns = found.offset_ns;
	clock->stepping = found.step_at_ns > found.until_ns;
	clock->step_at_ns = found.step_at_ns;
	clock->step_base_ns = found.step_base_ns;
	reader->base_ns = found.step_at_ns && !clock->stepping ? found.step_base_ns : found.base_ns;
	*since_ns = (int64_t)found.until_ns + reader->base_ns;
	return 0;
}

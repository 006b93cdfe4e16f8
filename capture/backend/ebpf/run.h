/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies the slots of a ring of bins that the program in the kernel writes, in order of time.
 */
#ifndef MB_EBPF_RUN_H
#define MB_EBPF_RUN_H

#include <stdint.h>

#include "backend/ebpf/layout.h"

/* The memory of a ring of one cursor. */
struct mb_ebpf_ring_memory {
	const struct mb_ebpf_slot *slots;
	volatile __u64 *newest; /* the number of its newest slot */
	uint64_t size;          /* slots, a power of two */
	int64_t width_ns;
};

/* Copied bins of one cursor, oldest first; those before `next` were yielded. */
struct mb_ebpf_run {
	struct mb_ebpf_slot *slots;
	uint32_t count, next, capacity;
	uint64_t taken;   /* number of the newest bin ever copied */
	uint64_t packets; /* in all bins that were copied or lost */
};

/* Put SLOT at position AT of RUN. Returns 0 or -ENOMEM. */
int mb_ebpf_run_insert(struct mb_ebpf_run *run, uint32_t at, const struct mb_ebpf_slot *slot);

/* Copy the bins that end by SETTLED_NS, from the newest back to those that RUN has already had. The program may
 * overwrite the oldest of them at the same time: only slots that are still intact after copying count. It may also be
 * beginning the newest slot, which does not lead to an earlier one until then: search for that. Returns the position
 * of the first new slot in RUN, or -ENOMEM. */
int64_t mb_ebpf_run_copy(struct mb_ebpf_run *run, const struct mb_ebpf_ring_memory *ring, uint64_t settled_ns);

/* Packets of RUN, read or lost, before UNTIL_NS; bins after it were copied, too. */
uint64_t mb_ebpf_run_packets_before(const struct mb_ebpf_run *run, uint64_t until_ns, int64_t width_ns);

/* Continue behind UNTIL_NS, before which PACKETS were read or lost. */
void mb_ebpf_run_resume(struct mb_ebpf_run *run, uint64_t packets, uint64_t until_ns, int64_t width_ns);

#endif

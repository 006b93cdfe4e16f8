/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the rings that the program in the kernel writes, and yields counts: those of all processors are merged in order
 * of time. The program is never stopped: counts that it overwrote before they were read are a loss, exact to the
 * packet.
 */
#ifndef MB_EBPF_READER_H
#define MB_EBPF_READER_H

#include "backend/counts.h"
#include "backend/drop_queue.h"
#include "backend/ebpf/kernel.h"
#include "backend/ebpf/run.h"

struct mb_ebpf_part {
	struct mb_ebpf_run bins, others;
	uint64_t at, end; /* known entries of flows that were not yielded yet */
	uint64_t merged_at, merged_end; /* the same, of merged frames */
};

struct mb_ebpf_reader {
	struct mb_ebpf_kernel *kernel;
	struct mb_ebpf_part *parts; /* one for each cursor */
	int64_t base_ns;            /* system time minus the kernel's time, in which bins are numbered; … */
	uint64_t step_at_ns;        /* … from this time of the kernel on (UINT64_MAX: never) … */
	int64_t step_base_ns;       /* … it is this, because the clock was set */
	struct mb_drop_queue later; /* losses from then on */
	uint64_t read_ns;           /* bins that end by this were read, in the kernel's time */
	uint64_t until_ns;
	uint64_t packets, bytes;    /* yielded */
};

/* The entry of a flow at POSITION of what cursor PART has logged. */
struct mb_ebpf_flow *mb_ebpf_flow_at(const struct mb_ebpf_reader *reader, uint32_t part, uint64_t position);

/* BEGUN_NS: when counting begins, in the kernel's time. Returns 0 or -ENOMEM. */
int mb_ebpf_reader_init(struct mb_ebpf_reader *reader, struct mb_ebpf_kernel *kernel, uint64_t begun_ns);
void mb_ebpf_reader_deinit(struct mb_ebpf_reader *reader);

/* Copy the bins that end by SETTLED_NS of the kernel's time. Those that end by UNTIL_NS, which is not later than
 * SETTLED_NS and a multiple of both widths, will be yielded. Losses go to DROPS, those after a step of the clock to
 * `later`. Returns 0 or -ENOMEM. */
int mb_ebpf_reader_collect(struct mb_ebpf_reader *reader, uint64_t settled_ns, uint64_t until_ns,
			   struct mb_drop_queue *drops);

/* Write to copy WHICH in the shared memory how much of each cursor was read, up to until_ns. */
void mb_ebpf_reader_note(const struct mb_ebpf_reader *reader, uint32_t which);
/* Continue, before anything is collected, at the position UNTIL_NS of another reader that copy WHICH holds. */
void mb_ebpf_reader_resume(struct mb_ebpf_reader *reader, uint32_t which, uint64_t until_ns);

/* Merged frames that could not be recorded one by one, since counting began. */
uint64_t mb_ebpf_reader_unspread(const struct mb_ebpf_reader *reader);

/* Fill COUNTS with the next counts. Returns their number; 0 after all were yielded. */
int mb_ebpf_reader_fill(struct mb_ebpf_reader *reader, struct mb_counts *counts);

#endif

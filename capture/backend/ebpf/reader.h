/* SPDX-License-Identifier: Apache-2.0
 *
 * From the rings that the program in the kernel writes to counts: what all processors counted is merged in order of
 * time. The program is never stopped: what it wrote over before it was read is a loss, to the packet.
 */
#ifndef MB_EBPF_READER_H
#define MB_EBPF_READER_H

#include "backend/counts.h"
#include "backend/drop_queue.h"
#include "backend/ebpf/kernel.h"

/* Bins of one cursor, copied, from the oldest; those before `next` are yielded. */
struct mb_ebpf_run {
	struct mb_ebpf_slot *slots;
	uint32_t count, next, capacity;
	uint64_t taken;   /* number of the newest that was ever copied */
	uint64_t packets; /* in all that were copied or lost */
};

struct mb_ebpf_part {
	struct mb_ebpf_run bins, others;
	uint64_t at, end; /* entries of flows that were not yielded yet, as far as they are known */
	uint64_t merged_at, merged_end; /* likewise, of merged frames */
};

struct mb_ebpf_reader {
	struct mb_ebpf_kernel *kernel;
	struct mb_ebpf_part *parts; /* one for each cursor */
	int64_t base_ns;            /* system time less the kernel's, whose bins have numbers */
	uint64_t read_ns;           /* bins that end by it were read, in the kernel's time */
	uint64_t until_ns;
	uint64_t packets, bytes;    /* that were yielded */
	uint64_t unseen;            /* packets that were counted, but whose senders were written over */
};

/* BEGUN_NS: when counting begins, in the kernel's time. 0 or -ENOMEM. */
int mb_ebpf_reader_init(struct mb_ebpf_reader *reader, struct mb_ebpf_kernel *kernel, uint64_t begun_ns);
void mb_ebpf_reader_deinit(struct mb_ebpf_reader *reader);

/* Copy the bins that end by SETTLED_NS of the kernel's time; those that end by UNTIL_NS, no later and a multiple of both
 * widths, are to be yielded. What is lost goes to DROPS. 0 or -ENOMEM. */
int mb_ebpf_reader_collect(struct mb_ebpf_reader *reader, uint64_t settled_ns, uint64_t until_ns,
			   struct mb_drop_queue *drops);

/* Note in the shared memory, in copy WHICH, what was read of each cursor up to until_ns. */
void mb_ebpf_reader_note(const struct mb_ebpf_reader *reader, uint32_t which);
/* Go on, before anything is collected, where copy WHICH says that another reader was, UNTIL_NS. */
void mb_ebpf_reader_resume(struct mb_ebpf_reader *reader, uint32_t which, uint64_t until_ns);

/* Merged frames that could not be noted one by one, since counting began. */
uint64_t mb_ebpf_reader_unspread(const struct mb_ebpf_reader *reader);

/* Fill COUNTS with the next of them. How many; 0 when all were yielded. */
int mb_ebpf_reader_fill(struct mb_ebpf_reader *reader, struct mb_counts *counts);

#endif

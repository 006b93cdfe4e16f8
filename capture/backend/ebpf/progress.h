/* SPDX-License-Identifier: Apache-2.0
 *
 * How far a reader of the rings is, in the memory that it shares with the kernel: for one that goes on after it where
 * the program is pinned.
 */
#ifndef MB_EBPF_PROGRESS_H
#define MB_EBPF_PROGRESS_H

#include "backend/ebpf/kernel_clock.h"
#include "backend/ebpf/reader.h"

/* Note how far READER is: before anything of it is yielded, so that nothing is counted twice. One of both copies is
 * whole at any time. */
void mb_ebpf_progress_note(const struct mb_ebpf_reader *reader, const struct mb_ebpf_clock *clock);
/* Have READER, which is not initialized, and CLOCK go on where another reader of KERNEL was, until SINCE_NS of system
 * time. 0, -ENOMEM, or -EAGAIN when that one was killed while it set the phase. */
int mb_ebpf_progress_resume(struct mb_ebpf_reader *reader, struct mb_ebpf_clock *clock, struct mb_ebpf_kernel *kernel,
			    int64_t *since_ns);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The position of a reader of the rings, in the memory that it shares with the kernel: for a reader that continues
 * after it if the program is pinned.
 */
#ifndef MB_EBPF_PROGRESS_H
#define MB_EBPF_PROGRESS_H

#include "backend/ebpf/kernel_clock.h"
#include "backend/ebpf/reader.h"

/* Record the position of READER before any of its counts are yielded, so that nothing is counted twice. One of the two
 * copies is intact at any time. */
void mb_ebpf_progress_note(const struct mb_ebpf_reader *reader, const struct mb_ebpf_clock *clock);
/* Make READER, which is not initialized, and CLOCK continue where another reader of KERNEL ended, at SINCE_NS of system
 * time. Returns 0, -ENOMEM, or -EAGAIN if that reader was killed while it set the phase. */
int mb_ebpf_progress_resume(struct mb_ebpf_reader *reader, struct mb_ebpf_clock *clock, struct mb_ebpf_kernel *kernel,
			    int64_t *since_ns);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The time in which the kernel numbers bins: CLOCK_MONOTONIC and a phase, so that they begin where bins of system time
 * do. When the system's clock is set, bins go on, and from the next chunk on they are of another system time.
 */
#ifndef MB_EBPF_KERNEL_CLOCK_H
#define MB_EBPF_KERNEL_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/ebpf/kernel.h"

struct mb_ebpf_clock {
	int64_t chunk_ns;     /* the wider of both widths: a multiple of the other */
	int64_t offset_ns;    /* system time less CLOCK_MONOTONIC */
	bool stepping;        /* the clock was set: … */
	uint64_t step_at_ns;  /* … bins from here on, in the kernel's time … */
	int64_t step_base_ns; /* … have this base */
};

/* Now, in the kernel's time. */
uint64_t mb_ebpf_clock_now(const struct mb_ebpf_kernel *kernel);
/* Set the phase. The base: system time less the kernel's. */
int64_t mb_ebpf_clock_begin(struct mb_ebpf_clock *clock, struct mb_ebpf_kernel *kernel);
/* Whether the system's clock was set: then `stepping`, and the phase is another. */
void mb_ebpf_clock_check(struct mb_ebpf_clock *clock, struct mb_ebpf_kernel *kernel);

#endif

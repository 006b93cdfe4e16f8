/* SPDX-License-Identifier: Apache-2.0
 *
 * The time by which the kernel numbers bins: CLOCK_MONOTONIC plus a phase, so that they begin where bins of system time
 * do. If the system clock is set, bins continue, and from the next chunk on they belong to another system time.
 */
#ifndef MB_EBPF_KERNEL_CLOCK_H
#define MB_EBPF_KERNEL_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/ebpf/kernel.h"

struct mb_ebpf_clock {
	int64_t chunk_ns;     /* the wider of the two widths: a multiple of the other */
	int64_t offset_ns;    /* system time minus CLOCK_MONOTONIC */
	bool stepping;        /* the clock was set: … */
	uint64_t step_at_ns;  /* … bins from here on, in the kernel's time … */
	int64_t step_base_ns; /* … have this base */
};

/* The current time of the kernel's numbering. */
uint64_t mb_ebpf_clock_now(const struct mb_ebpf_kernel *kernel);
/* Set the phase. Returns the base: system time minus the kernel's time. */
int64_t mb_ebpf_clock_begin(struct mb_ebpf_clock *clock, struct mb_ebpf_kernel *kernel);
/* Check whether the system clock was set: then set `stepping` and a new phase. */
void mb_ebpf_clock_check(struct mb_ebpf_clock *clock, struct mb_ebpf_kernel *kernel);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that continues to count after its recorder has ended, and the recorder that continues to read. This
 * requires that all settings are the same: else the bins would not be as requested.
 */
#ifndef MB_EBPF_PINNED_H
#define MB_EBPF_PINNED_H

#include "backend/ebpf/kernel.h"
#include "backend/ebpf/pins.h"

/* Pin the program that is attached to interface INDEX, on all SIDES (bits). If this fails, the parts pinned so far are
 * removed. */
int mb_ebpf_pin(const struct mb_ebpf_kernel *kernel, const struct mb_ebpf_pins *pins, uint32_t index, uint32_t sides,
		const char *name, struct mb_error *error);
/* Set KERNEL, which is MB_EBPF_KERNEL_NONE, to the pinned program, if that is attached as OPTIONS and SIDES require.
 * Returns false, with KERNEL unchanged, if it is not, or if the interface is another one. */
bool mb_ebpf_adopt(struct mb_ebpf_kernel *kernel, const struct mb_ebpf_pins *pins,
		   const struct mb_backend_options *options, uint32_t index, uint32_t sides);

#endif

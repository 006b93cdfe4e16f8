/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that counts on when its recorder has ended, and the recorder that reads on. Only where all settings are the
 * same: else its bins would not be those that were asked for.
 */
#ifndef MB_EBPF_PINNED_H
#define MB_EBPF_PINNED_H

#include "backend/ebpf/kernel.h"
#include "backend/ebpf/pins.h"

/* Pin what is attached to interface INDEX, on all SIDES (bits). What was pinned of it is removed where it fails. */
int mb_ebpf_pin(const struct mb_ebpf_kernel *kernel, const struct mb_ebpf_pins *pins, uint32_t index, uint32_t sides,
		const char *name, struct mb_error *error);
/* Have KERNEL, which is MB_EBPF_KERNEL_NONE, be what is pinned, attached as OPTIONS and SIDES want it. False, with KERNEL as
 * it was, where that is not so, or the interface is another one. */
bool mb_ebpf_adopt(struct mb_ebpf_kernel *kernel, const struct mb_ebpf_pins *pins,
		   const struct mb_backend_options *options, uint32_t index, uint32_t sides);

#endif

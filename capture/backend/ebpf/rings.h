/* SPDX-License-Identifier: Apache-2.0
 *
 * The rings that the program writes: their sizes, and their addresses in the memory of this process.
 */
#ifndef MB_EBPF_RINGS_H
#define MB_EBPF_RINGS_H

#include "backend/ebpf/kernel.h"

/* Set the widths, the hook and the sizes. Returns 0 or a negative errno. */
int mb_ebpf_choose(struct mb_ebpf_kernel *kernel, const struct mb_backend_options *options);
/* Map RING, with these sizes, or the variables; FD is the descriptor of the map. Returns 0 or a negative errno. */
int mb_ebpf_map_ring(struct mb_ebpf_kernel *kernel, int ring, int fd);
int mb_ebpf_map_variables(struct mb_ebpf_kernel *kernel, int fd);
const char *mb_ebpf_ring_name(int ring);
bool mb_ebpf_ring_is_shared(int ring);
/* Unmap the rings and variables. */
void mb_ebpf_unmap(struct mb_ebpf_kernel *kernel);
/* Bytes that the rings take, once the program is loaded. */
size_t mb_ebpf_memory(const struct mb_ebpf_kernel *kernel);
/* Refuse rings that are too large for a host with many possible processors and little memory, unless the user asked for
 * this backend. Returns -ENOMEM in that case. */
int mb_ebpf_refuse_size(const struct mb_ebpf_kernel *kernel, const struct mb_backend_options *options,
			struct mb_error *error);

#endif

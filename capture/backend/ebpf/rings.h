/* SPDX-License-Identifier: Apache-2.0
 *
 * The rings that the program writes to: how large they are, and where they are in the memory of this process.
 */
#ifndef MB_EBPF_RINGS_H
#define MB_EBPF_RINGS_H

#include "backend/ebpf/kernel.h"

/* Set the widths, the hook and the sizes; 0 or a negative errno. */
int mb_ebpf_choose(struct mb_ebpf_kernel *kernel, const struct mb_backend_options *options);
/* Map RING, of these sizes, or the variables, of which FD is a map. 0 or a negative errno. */
int mb_ebpf_map_ring(struct mb_ebpf_kernel *kernel, int ring, int fd);
int mb_ebpf_map_variables(struct mb_ebpf_kernel *kernel, int fd);
const char *mb_ebpf_ring_name(int ring);
bool mb_ebpf_ring_is_shared(int ring);
/* Give back what is mapped. */
void mb_ebpf_unmap(struct mb_ebpf_kernel *kernel);
/* Bytes that its rings take, once it is loaded. */
size_t mb_ebpf_memory(const struct mb_ebpf_kernel *kernel);
/* Who has not asked for it has a host with many possible processors and little memory do without: -ENOMEM there. */
int mb_ebpf_refuse_size(const struct mb_ebpf_kernel *kernel, const struct mb_backend_options *options,
			struct mb_error *error);

#endif

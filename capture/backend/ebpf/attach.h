/* SPDX-License-Identifier: Apache-2.0
 *
 * The hooks of an interface to which the loaded program is attached: tcx, clsact if the kernel has no tcx, or XDP.
 */
#ifndef MB_EBPF_ATTACH_H
#define MB_EBPF_ATTACH_H

#include "backend/ebpf/kernel.h"

/* Count the frames of interface INDEX that arrive (side 0) or leave (side 1). */
int mb_ebpf_attach(struct mb_ebpf_kernel *kernel, int side, uint32_t index, const char *name, struct mb_error *error);
/* Whether the attached program stays after this process is killed, so that removing it needs CAP_NET_ADMIN. */
bool mb_ebpf_stays(const struct mb_ebpf_kernel *kernel);
/* Whether LINK is at interface INDEX; 0: at none. This waits for whoever changes any interface. */
bool mb_ebpf_is_at(int link, uint32_t index);
/* Whether another process has taken away what was attached. Only about a side that counted nothing for 10 s is the kernel
 * asked, as this waits likewise. */
bool mb_ebpf_is_taken(struct mb_ebpf_kernel *kernel);
/* Stop counting at once, even if the program is pinned. The counts stay. */
void mb_ebpf_stop(struct mb_ebpf_kernel *kernel);
/* Release the hooks: a program that is not pinned stops counting. The counts stay. */
void mb_ebpf_detach(struct mb_ebpf_kernel *kernel);
/* Whether frames of SIDE are counted in the driver (XDP). */
bool mb_ebpf_is_at_driver(const struct mb_ebpf_kernel *kernel, int side);
/* Whether those that arrive at interface INDEX are counted behind its driver (generic XDP), where merged ones are as one. */
bool mb_ebpf_is_generic(const struct mb_ebpf_kernel *kernel, uint32_t index);
/* Report that this process may not load or attach the program. Returns -EPERM. */
int mb_ebpf_forbidden(const char *name, struct mb_error *error);

#endif

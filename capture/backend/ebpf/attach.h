/* SPDX-License-Identifier: Apache-2.0
 *
 * The hooks of an interface that the loaded program is attached to: tcx, clsact where the kernel has no tcx, or XDP.
 */
#ifndef MB_EBPF_ATTACH_H
#define MB_EBPF_ATTACH_H

#include "backend/ebpf/kernel.h"

/* Let it count the frames of interface INDEX that arrive (side 0) or leave (side 1). */
int mb_ebpf_attach(struct mb_ebpf_kernel *kernel, int side, uint32_t index, const char *name, struct mb_error *error);
/* Whether what is attached stays when this process is killed, and takes CAP_NET_ADMIN to be taken away. */
bool mb_ebpf_stays(const struct mb_ebpf_kernel *kernel);
/* Count no more, at once, even where it is pinned. What was counted stays. */
void mb_ebpf_stop(struct mb_ebpf_kernel *kernel);
/* Hold the hooks no more: what is not pinned counts no more. What was counted stays. */
void mb_ebpf_detach(struct mb_ebpf_kernel *kernel);
/* Whether frames of SIDE are counted in the driver (XDP). */
bool mb_ebpf_is_at_driver(const struct mb_ebpf_kernel *kernel, int side);
/* This process lacks the rights to load or attach it. -EPERM. */
int mb_ebpf_forbidden(const char *name, struct mb_error *error);

#endif

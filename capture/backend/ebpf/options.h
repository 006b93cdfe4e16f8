/* SPDX-License-Identifier: Apache-2.0
 *
 * What cannot be asked of a program that counts in the kernel.
 */
#ifndef MB_EBPF_OPTIONS_H
#define MB_EBPF_OPTIONS_H

#include "backend/backend.h"

/* 0, or a negative errno where OPTIONS ask for what only frames give, or for widths that it does not count in. */
int mb_ebpf_refuse_options(const struct mb_backend_options *options, struct mb_error *error);

#endif

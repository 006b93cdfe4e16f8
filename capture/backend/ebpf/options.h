/* SPDX-License-Identifier: Apache-2.0
 *
 * Options that a program that counts in the kernel cannot support.
 */
#ifndef MB_EBPF_OPTIONS_H
#define MB_EBPF_OPTIONS_H

#include "backend/backend.h"

/* Returns 0, or a negative errno if OPTIONS need frames, or bins of a width that the program does not support. */
int mb_ebpf_refuse_options(const struct mb_backend_options *options, struct mb_error *error);

#endif

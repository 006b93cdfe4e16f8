/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * Hints for the compiler, where speed was measured. The program in the kernel (backend/ebpf/) uses them, too.
 */
#ifndef MB_COMPILER_H
#define MB_COMPILER_H

/* Whether CONDITION holds, as nearly always or hardly ever. */
#define mb_likely(condition) __builtin_expect(!!(condition), 1)
#define mb_unlikely(condition) __builtin_expect(!!(condition), 0)

/* A function that becomes part of each caller, specialized for arguments that are constants there. */
#define mb_inline inline __attribute__((always_inline))

#endif

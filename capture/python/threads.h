/* SPDX-License-Identifier: Apache-2.0
 *
 * What a process may do, given up in all of its threads. For the kernel, capabilities, no_new_privs and Landlock domains
 * are a thread's own (capabilities(7), landlock(7)); a thread that a library started earlier would keep them.
 */
#ifndef MB_THREADS_H
#define MB_THREADS_H

#include <stdbool.h>
#include <stdint.h>

struct mb_rights {
	bool limit;       /* no capabilities but those of KEPT that there are, and none passed on */
	uint64_t kept;    /* bit i: capability i */
	bool no_new;      /* no_new_privs */
	int ruleset;      /* of Landlock, to be restricted by; negative for none. Needs no_new_privs */
};

/* Apply RIGHTS to every thread of the process, those that block all signals too. *LEFT: how many threads did not answer
 * within two seconds, and keep what they had (all others, where the C library is not glibc). 0, or a negative errno
 * where the calling thread could not be restricted. */
int mb_rights_apply(const struct mb_rights *rights, uint32_t *left);

#endif

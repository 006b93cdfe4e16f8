/* SPDX-License-Identifier: Apache-2.0
 *
 * Gives up rights of a process in all of its threads. In the kernel, capabilities, no_new_privs and Landlock domains
 * belong to a thread (capabilities(7), landlock(7)); a thread that a library started earlier would keep them.
 */
#ifndef MB_THREADS_H
#define MB_THREADS_H

#include <stdbool.h>
#include <stdint.h>

struct mb_rights {
	bool limit;       /* keep at most the capabilities in KEPT, and pass none on */
	uint64_t kept;    /* bit i: capability i */
	bool no_new;      /* no_new_privs */
	int ruleset;      /* Landlock ruleset to apply; negative for none. Needs no_new_privs */
};

/* Apply RIGHTS to every thread of the process, including threads that block all signals. *LEFT: how many threads did
 * not answer within two seconds and keep their rights (all other threads, if the C library is not glibc). Returns 0, or
 * a negative errno if the calling thread could not be restricted. */
int mb_rights_apply(const struct mb_rights *rights, uint32_t *left);

#endif

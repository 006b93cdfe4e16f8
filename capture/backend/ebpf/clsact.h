/* SPDX-License-Identifier: Apache-2.0
 *
 * The hook of kernels before tcx: a filter at clsact. The filter is not removed with its process, so a process that is
 * killed leaves it behind; the next process here removes it. A live process holds a name in its network namespace.
 */
#ifndef MB_EBPF_CLSACT_H
#define MB_EBPF_CLSACT_H

#include <stdbool.h>
#include <stdint.h>

struct mb_clsact {
	int claim; /* a socket that holds the name, or -1 if nothing is attached */
	uint32_t index, handle;
	int side;
};

/* Attach PROGRAM to arriving (side 0) or leaving frames (side 1) of interface INDEX, and remove filters that dead
 * processes left there. Returns 0 or a negative errno: -EBUSY if too many programs count there already. */
int mb_clsact_attach(struct mb_clsact *hold, int program, uint32_t index, int side);
/* Whether the filter that was attached is there no more. */
bool mb_clsact_is_taken(const struct mb_clsact *hold);
/* Like attaching, this needs CAP_NET_ADMIN. The qdisc stays, empty: others may use it. Harmless if called twice. */
void mb_clsact_detach(struct mb_clsact *hold);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The hook of kernels before tcx: a filter at clsact. It does not go with its process, so that a process that is killed
 * leaves its filter; the next one here takes that away. Who is alive holds a name of its network namespace.
 */
#ifndef MB_EBPF_CLSACT_H
#define MB_EBPF_CLSACT_H

#include <stdint.h>

struct mb_clsact {
	int claim; /* a socket that holds the name, or -1 where nothing is attached */
	uint32_t index, handle;
	int side;
};

/* Attach PROGRAM to what arrives (side 0) or leaves (side 1) at interface INDEX, and take away what the dead have left
 * there. 0 or a negative errno: -EBUSY when too many count there already. */
int mb_clsact_attach(struct mb_clsact *hold, int program, uint32_t index, int side);
/* Needs CAP_NET_ADMIN, as attaching does. The qdisc stays, empty: others may use it. Harmless when called twice. */
void mb_clsact_detach(struct mb_clsact *hold);

#endif

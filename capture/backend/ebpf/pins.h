/* SPDX-License-Identifier: Apache-2.0
 *
 * A folder of bpffs for one interface: what is pinned there stays in the kernel when this process ends, however it ends.
 * Who has the folder open holds its lock; that goes with the process.
 */
#ifndef MB_EBPF_PINS_H
#define MB_EBPF_PINS_H

#include <stdint.h>

#include "error.h"

#define MB_EBPF_PINS "/sys/fs/bpf/mburst"

struct mb_ebpf_pins {
	int folder; /* a descriptor, or -1 */
	char path[64];
};

#define MB_EBPF_PINS_NONE ((struct mb_ebpf_pins){ .folder = -1 })

/* Open and lock the folder of interface INDEX of this network namespace, made where there is none. GROUP, and root, may
 * remove what is in it. NAME is that of the interface, for errors. 0, or a negative errno: -EBUSY when another process
 * has it. */
int mb_ebpf_pins_open(struct mb_ebpf_pins *pins, uint32_t index, uint32_t group, const char *name,
		      struct mb_error *error);
/* Pin what FD is of as FILE. 0 or a negative errno. */
int mb_ebpf_pins_put(const struct mb_ebpf_pins *pins, const char *file, int fd);
/* A descriptor of what is pinned as FILE, or a negative errno. */
int mb_ebpf_pins_get(const struct mb_ebpf_pins *pins, const char *file);
/* Detach the links that are pinned in the folder, and remove all that is. What nobody else holds then goes from the
 * kernel. How many files it had. */
int mb_ebpf_pins_clear(const struct mb_ebpf_pins *pins);
/* The same, and the folder with it where this process may remove it. Harmless without one. */
void mb_ebpf_pins_remove(struct mb_ebpf_pins *pins);
/* What is pinned stays; a folder without anything goes, likewise. Harmless when called twice. */
void mb_ebpf_pins_close(struct mb_ebpf_pins *pins);

#endif

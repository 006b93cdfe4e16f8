/* SPDX-License-Identifier: Apache-2.0
 *
 * A folder of bpffs for one interface: objects pinned there stay in the kernel when this process ends, however it ends.
 * The process that has the folder open holds its lock, which is released with the process.
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

/* Open and lock the folder of interface INDEX of this network namespace; create it if it does not exist. GROUP, and
 * root, may remove its content. NAME is the name of the interface, for errors. Returns 0, or a negative errno: -EBUSY
 * if another process holds it. */
int mb_ebpf_pins_open(struct mb_ebpf_pins *pins, uint32_t index, uint32_t group, const char *name,
		      struct mb_error *error);
/* Pin the object of FD as FILE. Returns 0 or a negative errno. */
int mb_ebpf_pins_put(const struct mb_ebpf_pins *pins, const char *file, int fd);
/* Returns a descriptor of the object that is pinned as FILE, or a negative errno. */
int mb_ebpf_pins_get(const struct mb_ebpf_pins *pins, const char *file);
/* Detach the links that are pinned in the folder, and remove all its files. The kernel frees the objects that nothing
 * else holds. Returns how many files there were. */
int mb_ebpf_pins_clear(const struct mb_ebpf_pins *pins);
/* The same, and remove the folder, too, if this process may. Harmless without a folder. */
void mb_ebpf_pins_remove(struct mb_ebpf_pins *pins);
/* Release the folder, and remove it if it is empty; pinned objects stay. Harmless if called twice. */
void mb_ebpf_pins_close(struct mb_ebpf_pins *pins);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The program that counts, loaded and attached to an interface, and the memory that it shares with this process. The
 * kernel detaches it when the process ends, however it ends.
 */
#ifndef MB_EBPF_KERNEL_H
#define MB_EBPF_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/backend.h"
#include "backend/ebpf/clsact.h"
#include "backend/ebpf/layout.h"
#include "error.h"

struct bpf_object;

enum mb_ebpf_ring {
	MB_EBPF_CURSORS,
	MB_EBPF_SLOTS,
	MB_EBPF_OTHERS,
	MB_EBPF_FLOWS,
	MB_EBPF_PLACES,
	MB_EBPF_MERGED,
	MB_EBPF_RINGS,
};

/* When a side was last seen to be attached: it had counted, or the kernel was asked. */
struct mb_ebpf_proof {
	int64_t at_ns;   /* CLOCK_MONOTONIC; 0: not yet */
	uint64_t newest; /* the number of its newest bin then */
};

struct mb_ebpf_kernel {
	int64_t bin_ns, source_bin_ns;
	bool inner;                          /* as in struct mb_backend_options */
	uint32_t n_cursors;                  /* possible processors × MB_EBPF_SIDES */
	uint32_t entries[MB_EBPF_RINGS];     /* of each cursor: a power of two */
	void *memory[MB_EBPF_RINGS];         /* n_cursors × entries; NULL if it is not mapped here */
	volatile struct mb_ebpf_variables *variables;
	struct bpf_object *object;
	int links[MB_EBPF_SIDES];            /* descriptors, or -1 */
	enum mb_hook hook;                   /* for arriving frames */
	bool may_stay;                       /* the program may stay on the interface if this process is killed */
	struct mb_clsact filters[MB_EBPF_SIDES]; /* if the kernel has no links */
	struct mb_ebpf_proof proofs[MB_EBPF_SIDES];
};

/* A state in which deinit() has nothing to do. */
#define MB_EBPF_KERNEL_NONE \
	((struct mb_ebpf_kernel){ .links = { -1, -1 }, .filters = { { .claim = -1 }, { .claim = -1 } } })

/* Load the program for the bins and the hook of OPTIONS: bins are at least 1 us and less than 4 s wide. NAME is the
 * name of the interface, for errors. */
int mb_ebpf_load(struct mb_ebpf_kernel *kernel, const struct mb_backend_options *options, const char *name,
		 struct mb_error *error);
/* Detach the program and release all memory. Harmless if called twice. */
void mb_ebpf_unload(struct mb_ebpf_kernel *kernel);

/* For pinning (pinned.c): descriptors of the maps of the loaded program. */
int mb_ebpf_ring_fd(const struct mb_ebpf_kernel *kernel, int ring);
int mb_ebpf_variables_fd(const struct mb_ebpf_kernel *kernel);
/* Hash of the built-in program: equal for equal programs, never 0. */
uint64_t mb_ebpf_program_hash(void);

/* Whether the program was built in, and this kernel and this process may run it. NAME is the name of the interface, or
 * NULL. */
int mb_ebpf_check(const char *name, struct mb_error *error);

/* The descriptor of the program for frames that arrive (side 0) or leave (side 1), once it is loaded. */
int mb_ebpf_program(const struct mb_ebpf_kernel *kernel, int side);

/* cost.c: the time that counting a packet takes here, beyond a program that does nothing. Returns 0 or a negative
 * errno. */
int mb_ebpf_cost(struct mb_backend_cost *cost);

#endif

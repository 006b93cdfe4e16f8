/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/ebpf/rings.h"

#include <errno.h>

#ifdef MB_EBPF_OBJECT

#include <bpf/libbpf.h>
#include <sys/mman.h>
#include <unistd.h>

/* Without a reader (for example, a recorder that begins on a busy host), bins of the last KEPT_NS are kept, or on many
 * processors at least of the last LEAST_KEPT_NS, within these limits. */
#define KEPT_NS 5000000000
#define LEAST_KEPT_NS 300000000
#define SLOTS_ALL (1u << 21)
#define LEAST_SLOTS 1024
#define MOST_SLOTS (1u << 17)
/* Flows of a direction: on all processors together if there are many; and on one of them. */
#define FLOWS_ALL (1u << 20)
#define MOST_FLOWS (1u << 16)
#define LEAST_FLOWS (1u << 13)
/* Merged frames of a direction that one processor records until they are read. */
#define MERGED (1u << 15)
/* The largest share (1/N) of all memory that `auto` uses. */
#define MEMORY_SHARE 20u

static const struct {
	const char *name;
	size_t size;
	bool shared; /* with this process */
} rings[MB_EBPF_RINGS] = {
	[MB_EBPF_CURSORS] = { "cursors", sizeof(struct mb_ebpf_cursor), true },
	[MB_EBPF_SLOTS] = { "slots", sizeof(struct mb_ebpf_slot), true },
	[MB_EBPF_OTHERS] = { "others", sizeof(struct mb_ebpf_slot), true },
	[MB_EBPF_FLOWS] = { "flows", sizeof(struct mb_ebpf_flow), true },
	[MB_EBPF_PLACES] = { "places", sizeof(struct mb_ebpf_index), false },
	[MB_EBPF_MERGED] = { "merged", sizeof(struct mb_ebpf_merged), true },
};

static uint32_t slots_for(int64_t width_ns, uint32_t n_cursors)
{
	uint32_t slots = LEAST_SLOTS;

	while (slots < MOST_SLOTS &&
	       slots * width_ns < ((uint64_t)2 * slots * n_cursors <= SLOTS_ALL ? KEPT_NS : LEAST_KEPT_NS))
		slots *= 2;
	return slots;
}

static uint32_t flows_for(uint32_t n_cursors)
{
	uint32_t flows = MOST_FLOWS;

	while (flows > LEAST_FLOWS && (uint64_t)flows * n_cursors > MB_EBPF_SIDES * FLOWS_ALL)
		flows /= 2;
	return flows;
}

int mb_ebpf_choose(struct mb_ebpf_kernel *kernel, const struct mb_backend_options *options)
{
	const int processors = libbpf_num_possible_cpus();

	if (processors < 1)
		return -EPROTO;
	kernel->bin_ns = options->bin_ns;
	kernel->source_bin_ns = options->source_bin_ns;
	kernel->inner = options->inner;
	kernel->hook = options->hook;
	kernel->n_cursors = (uint32_t)processors * MB_EBPF_SIDES;
	kernel->entries[MB_EBPF_CURSORS] = 1;
	kernel->entries[MB_EBPF_SLOTS] = slots_for(kernel->bin_ns, kernel->n_cursors);
	kernel->entries[MB_EBPF_OTHERS] = slots_for(kernel->source_bin_ns, kernel->n_cursors);
	kernel->entries[MB_EBPF_FLOWS] = flows_for(kernel->n_cursors);
	kernel->entries[MB_EBPF_PLACES] = kernel->entries[MB_EBPF_FLOWS];
	kernel->entries[MB_EBPF_MERGED] = options->splits_merged ? MERGED : 1;
	return 0;
}

static size_t size_of(const struct mb_ebpf_kernel *kernel, int ring)
{
	return (size_t)kernel->n_cursors * kernel->entries[ring] * rings[ring].size;
}

size_t mb_ebpf_memory(const struct mb_ebpf_kernel *kernel)
{
	size_t size = MB_EBPF_SEQUENCES * sizeof(struct mb_ebpf_sequences);

	for (int i = 0; i < MB_EBPF_RINGS; i++)
		size += size_of(kernel, i);
	return size;
}

int mb_ebpf_refuse_size(const struct mb_ebpf_kernel *kernel, const struct mb_backend_options *options,
			struct mb_error *error)
{
	const size_t size = mb_ebpf_memory(kernel) * ((size_t)options->beside + 1),
		     all = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);

	if (size <= all / MEMORY_SHARE)
		return 0;
	return mb_fail(error, ENOMEM,
		       "%s: counting in the kernel would take %zu MiB here, more than a %uth of memory: --backend ebpf "
		       "takes them all the same",
		       options->target, size >> 20, MEMORY_SHARE);
}

static void *map_shared(int fd, size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

int mb_ebpf_map_ring(struct mb_ebpf_kernel *kernel, int ring, int fd)
{
	kernel->memory[ring] = map_shared(fd, size_of(kernel, ring));
	return kernel->memory[ring] ? 0 : -errno;
}

int mb_ebpf_map_variables(struct mb_ebpf_kernel *kernel, int fd)
{
	kernel->variables = map_shared(fd, sizeof(*kernel->variables));
	return kernel->variables ? 0 : -errno;
}

const char *mb_ebpf_ring_name(int ring)
{
	return rings[ring].name;
}

bool mb_ebpf_ring_is_shared(int ring)
{
	return rings[ring].shared;
}

void mb_ebpf_unmap(struct mb_ebpf_kernel *kernel)
{
	for (int i = 0; i < MB_EBPF_RINGS; i++)
		if (kernel->memory[i])
			munmap(kernel->memory[i], size_of(kernel, i));
	if (kernel->variables)
		munmap((void *)(uintptr_t)kernel->variables, sizeof(*kernel->variables));
}

#endif

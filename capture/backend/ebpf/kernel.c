/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/ebpf/kernel.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

bool mb_ebpf_stays(const struct mb_ebpf_kernel *kernel)
{
	return kernel->filters[0].claim >= 0 || kernel->filters[1].claim >= 0;
}

#ifdef MB_EBPF_OBJECT

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cleanup.h"
#include "hash.h"
#include "seed.h"

/* Of linux/bpf.h since Linux 6.6. */
#define TCX_INGRESS 46
#define TCX_EGRESS 47
#define TCX_BEFORE (1u << 3)

/* Without a reader (a recorder that begins on a busy host, say), bins of so much time are kept, or on many processors at least of so much, within these limits. */
#define KEPT_NS 5000000000
#define LEAST_KEPT_NS 300000000
#define SLOTS_ALL (1u << 21)
#define LEAST_SLOTS 1024
#define MOST_SLOTS (1u << 17)
/* Flows of a direction, on all processors together where there are many; and on one of them. */
#define FLOWS_ALL (1u << 20)
#define MOST_FLOWS (1u << 16)
#define LEAST_FLOWS (1u << 13)
/* What `auto` takes of all memory at most. */
#define MEMORY_SHARE 20u

/* The program, as clang made it. */
asm(".pushsection .rodata\n"
    ".balign 8\n"
    "mb_ebpf_object: .incbin \"" MB_EBPF_OBJECT "\"\n"
    "mb_ebpf_object_end: .byte 0\n"
    ".popsection\n");
extern const char mb_ebpf_object[] __attribute__((visibility("hidden")));
extern const char mb_ebpf_object_end[] __attribute__((visibility("hidden")));

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
};

static int say_nothing(enum libbpf_print_level level, const char *format, va_list arguments)
{
	(void)level, (void)format, (void)arguments;
	return 0;
}

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

static struct bpf_map *find_section(const struct bpf_object *object, const char *suffix)
{
	struct bpf_map *map;

	bpf_object__for_each_map(map, object)
	{
		const char *dot = strrchr(bpf_map__name(map), '.');

		if (dot && !strcmp(dot, suffix))
			return map;
	}
	return NULL;
}

static int set_constants(const struct mb_ebpf_kernel *kernel)
{
	struct bpf_map *map = find_section(kernel->object, ".rodata");
	struct mb_ebpf_constants *constants;
	struct mb_seed seed;
	size_t size = 0;

	constants = map ? (void *)bpf_map__initial_value(map, &size) : NULL;
	if (!constants || size < sizeof(*constants))
		return -EPROTO;
	mb_seed_init(&seed);
	*constants = (struct mb_ebpf_constants){
		.bin_ns = (uint64_t)kernel->bin_ns,
		.source_bin_ns = (uint64_t)kernel->source_bin_ns,
		.slots_mask = kernel->entries[MB_EBPF_SLOTS] - 1,
		.others_mask = kernel->entries[MB_EBPF_OTHERS] - 1,
		.flows_mask = kernel->entries[MB_EBPF_FLOWS] - 1,
		.places_mask = kernel->entries[MB_EBPF_PLACES] - 1,
		.seed = seed.words[0],
		.factor = seed.words[1] | 1,
	};
	return 0;
}

int mb_ebpf_choose(struct mb_ebpf_kernel *kernel, const struct mb_backend_options *options)
{
	const int processors = libbpf_num_possible_cpus();

	if (processors < 1)
		return -EPROTO;
	kernel->bin_ns = options->bin_ns;
	kernel->source_bin_ns = options->source_bin_ns;
	kernel->hook = options->hook;
	kernel->n_cursors = (uint32_t)processors * MB_EBPF_SIDES;
	kernel->entries[MB_EBPF_CURSORS] = 1;
	kernel->entries[MB_EBPF_SLOTS] = slots_for(kernel->bin_ns, kernel->n_cursors);
	kernel->entries[MB_EBPF_OTHERS] = slots_for(kernel->source_bin_ns, kernel->n_cursors);
	kernel->entries[MB_EBPF_FLOWS] = flows_for(kernel->n_cursors);
	kernel->entries[MB_EBPF_PLACES] = kernel->entries[MB_EBPF_FLOWS];
	return 0;
}

static int set_sizes(const struct mb_ebpf_kernel *kernel)
{
	int status = 0;

	for (int i = 0; i < MB_EBPF_RINGS && !status; i++) {
		struct bpf_map *map = bpf_object__find_map_by_name(kernel->object, rings[i].name);

		status = map ? bpf_map__set_max_entries(map, kernel->n_cursors * kernel->entries[i]) : -EPROTO;
	}
	return status;
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

/* Who has not asked for it has a host with many possible processors and little memory do without. */
static int refuse_size(const struct mb_ebpf_kernel *kernel, const struct mb_backend_options *options,
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

int mb_ebpf_ring_fd(const struct mb_ebpf_kernel *kernel, int ring)
{
	return bpf_object__find_map_fd_by_name(kernel->object, rings[ring].name);
}

int mb_ebpf_variables_fd(const struct mb_ebpf_kernel *kernel)
{
	return bpf_map__fd(find_section(kernel->object, ".bss"));
}

uint64_t mb_ebpf_program_hash(void)
{
	uint64_t hash = 0, word;

	for (const char *at = mb_ebpf_object; at + sizeof(word) <= mb_ebpf_object_end; at += sizeof(word)) {
		memcpy(&word, at, sizeof(word));
		hash = mb_hash_fold(hash ^ word, 0x9e3779b97f4a7c15u);
	}
	return hash | 1;
}

static int map_memory(struct mb_ebpf_kernel *kernel)
{
	const struct bpf_map *variables = find_section(kernel->object, ".bss");
	int status = 0;

	if (!variables || bpf_map__value_size(variables) != sizeof(*kernel->variables))
		return -EPROTO;
	for (int i = 0; i < MB_EBPF_RINGS && !status; i++)
		if (rings[i].shared)
			status = mb_ebpf_map_ring(kernel, i, mb_ebpf_ring_fd(kernel, i));
	return status ? status : mb_ebpf_map_variables(kernel, mb_ebpf_variables_fd(kernel));
}

static int forbidden(const char *name, struct mb_error *error)
{
	return mb_fail(error, EPERM,
		       "%s: counting in the kernel is not allowed: run as root, or with the capabilities CAP_BPF, "
		       "CAP_PERFMON and CAP_NET_ADMIN",
		       name);
}

static int refused(const char *name, int status, struct mb_error *error)
{
	return status == -EPERM || status == -EACCES ?
		       forbidden(name, error) :
		       mb_fail_errno(error, -status, "%s: this kernel does not load the program that counts", name);
}

/* The first number in a file of the kernel, 0 where there is none. WORD: on the line that begins with it. */
static long long read_number(const char *path, const char *word)
{
	FILE *file = fopen(path, "re");
	char line[128];
	long long number = 0;

	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, word, strlen(word)) && (number = strtoll(line + strlen(word), NULL, 10)))
			break;
	if (file)
		fclose(file);
	return number;
}

/* What would make bins wrong. */
static int refuse_host(const char *name, struct mb_error *error)
{
	if (read_number("/sys/kernel/realtime", ""))
		return mb_fail(
			error, EOPNOTSUPP,
			"%s: this kernel (PREEMPT_RT) may interrupt the program that counts by itself: use --backend "
			"afpacket",
			name);
	if (read_number("/proc/self/timens_offsets", "monotonic"))
		return mb_fail(
			error, EOPNOTSUPP,
			"%s: this process has a time namespace, whose clock is not that of the program that counts: "
			"use --backend afpacket",
			name);
	return 0;
}

/* The program of SIDE, and what the kernel calls its hook. */
static struct bpf_program *program_of(const struct mb_ebpf_kernel *kernel, int side, int *place)
{
	const bool at_driver = !side && kernel->hook != MB_HOOK_TC;

	*place = at_driver ? BPF_XDP : side ? TCX_EGRESS : TCX_INGRESS;
	return bpf_object__find_program_by_name(kernel->object, at_driver ? "count_received" :
								side      ? "count_leaving" :
									    "count_arriving");
}

int mb_ebpf_program(const struct mb_ebpf_kernel *kernel)
{
	int place;

	return bpf_program__fd(program_of(kernel, 0, &place));
}

static void choose_programs(const struct mb_ebpf_kernel *kernel)
{
	struct bpf_program *program;
	int place;

	bpf_object__for_each_program(program, kernel->object) bpf_program__set_autoload(program, false);
	for (int side = 0; side < MB_EBPF_SIDES; side++)
		bpf_program__set_autoload(program_of(kernel, side, &place), true);
}

int mb_ebpf_load(struct mb_ebpf_kernel *kernel, const struct mb_backend_options *options, const char *name,
		 struct mb_error *error)
{
	int status = refuse_host(name, error);

	*kernel = MB_EBPF_KERNEL_NONE;
	if (status)
		return status;
	kernel->may_stay = !mb_backend_is_auto(options);
	libbpf_set_print(say_nothing);
	kernel->object = bpf_object__open_mem(mb_ebpf_object, (size_t)(mb_ebpf_object_end - mb_ebpf_object), NULL);
	if (!kernel->object)
		return mb_fail_errno(error, errno, "%s: the program that counts", name);
	status = mb_ebpf_choose(kernel, options);
	choose_programs(kernel);
	if (!status)
		status = set_sizes(kernel);
	if (!status && mb_backend_is_auto(options) && refuse_size(kernel, options, error))
		return -ENOMEM;
	if (!status)
		status = set_constants(kernel);
	if (!status)
		status = bpf_object__load(kernel->object);
	if (!status)
		status = map_memory(kernel);
	return status ? refused(name, status, error) : 0;
}

/* A link of XDP: in the driver, or behind it where that is asked for and the driver has none. */
static int link_at_driver(const struct mb_ebpf_kernel *kernel, int program, int index)
{
	LIBBPF_OPTS(bpf_link_create_opts, native, .flags = XDP_FLAGS_DRV_MODE);
	LIBBPF_OPTS(bpf_link_create_opts, generic, .flags = XDP_FLAGS_SKB_MODE);
	int link = bpf_link_create(program, index, BPF_XDP, &native);

	return link == -EOPNOTSUPP && kernel->hook == MB_HOOK_XDP_GENERIC ?
		       bpf_link_create(program, index, BPF_XDP, &generic) :
		       link;
}

/* A link of tcx: before all programs on what arrives, which may drop it, and behind all on what leaves. */
static int link_at_tc(int program, int index, int place)
{
	LIBBPF_OPTS(bpf_link_create_opts, options, .flags = place == TCX_INGRESS ? TCX_BEFORE : 0);

	return bpf_link_create(program, index, (enum bpf_attach_type)place, &options);
}

static int refuse_driver(int status, const char *name, struct mb_error *error)
{
	if (status == -EOPNOTSUPP)
		return mb_fail(
			error, EOPNOTSUPP,
			"%s: its driver has no XDP: use --hook tc, or --force to count behind the driver (generic "
			"XDP), which costs more than tc",
			name);
	if (status == -EBUSY)
		return mb_fail(error, EBUSY, "%s: another program is at XDP, which takes one: use --hook tc", name);
	return mb_fail_errno(error, -status, "%s: attaching the program that counts to XDP (try --hook tc)", name);
}

static int lacks_links(const char *name, struct mb_error *error)
{
	return mb_fail(
		error, EOPNOTSUPP,
		"%s: this kernel has no tcx (Linux 6.6, CONFIG_NET_XGRESS): --backend ebpf counts at clsact all the same, "
		"where the program stays if mburst is killed",
		name);
}

static int attach_filter(struct mb_ebpf_kernel *kernel, int program, int side, uint32_t index, const char *name,
			 struct mb_error *error)
{
	const int status = mb_clsact_attach(&kernel->filters[side], program, index, side);

	return status ? mb_fail_errno(error, -status,
				      "%s: this kernel has no tcx, and attaching the program that counts to clsact",
				      name) :
			0;
}

int mb_ebpf_attach(struct mb_ebpf_kernel *kernel, int side, uint32_t index, const char *name, struct mb_error *error)
{
	int place;
	const int program = bpf_program__fd(program_of(kernel, side, &place));
	const int link =
		place == BPF_XDP ? link_at_driver(kernel, program, (int)index) : link_at_tc(program, (int)index, place);

	if (link == -EPERM || link == -EACCES)
		return forbidden(name, error);
	if (link < 0 && place == BPF_XDP)
		return refuse_driver(link, name, error);
	if (link == -EINVAL)
		return kernel->may_stay ? attach_filter(kernel, program, side, index, name, error) :
					  lacks_links(name, error);
	if (link < 0)
		return mb_fail_errno(error, -link, "%s: attaching the program that counts", name);
	kernel->links[side] = link;
	return 0;
}

void mb_ebpf_detach(struct mb_ebpf_kernel *kernel)
{
	for (int side = 0; side < MB_EBPF_SIDES; side++) {
		if (kernel->links[side] >= 0)
			close(kernel->links[side]);
		kernel->links[side] = -1;
		mb_clsact_detach(&kernel->filters[side]);
	}
}

void mb_ebpf_unload(struct mb_ebpf_kernel *kernel)
{
	mb_ebpf_detach(kernel);
	for (int i = 0; i < MB_EBPF_RINGS; i++)
		if (kernel->memory[i])
			munmap(kernel->memory[i], size_of(kernel, i));
	if (kernel->variables)
		munmap((void *)(uintptr_t)kernel->variables, sizeof(*kernel->variables));
	bpf_object__close(kernel->object);
	*kernel = MB_EBPF_KERNEL_NONE;
}

/* Whether the kernel has the hook is seen at the loopback, which every namespace has. */
int mb_ebpf_check(const char *name, struct mb_error *error)
{
	const struct mb_backend_options options = { .backend = "ebpf",
						    .bin_ns = 1000000000,
						    .source_bin_ns = 1000000000 };
	struct mb_ebpf_kernel kernel;
	const unsigned int loopback = if_nametoindex("lo");
	int status;

	name = name ? name : "ebpf";
	status = mb_ebpf_load(&kernel, &options, name, error);
	kernel.may_stay = false;
	if (!status && loopback)
		status = mb_ebpf_attach(&kernel, 0, loopback, name, error);
	mb_ebpf_unload(&kernel);
	return status;
}

#else

static int missing(const char *name, struct mb_error *error)
{
	return mb_fail(
		error, EOPNOTSUPP,
		"%s: mburst was built without the program that counts in the kernel: apt install clang libbpf-dev, "
		"and build it again",
		name ? name : "ebpf");
}

int mb_ebpf_load(struct mb_ebpf_kernel *kernel, const struct mb_backend_options *options, const char *name,
		 struct mb_error *error)
{
	(void)kernel, (void)options;
	return missing(name, error);
}

int mb_ebpf_attach(struct mb_ebpf_kernel *kernel, int side, uint32_t index, const char *name, struct mb_error *error)
{
	(void)kernel, (void)side, (void)index;
	return missing(name, error);
}

void mb_ebpf_detach(struct mb_ebpf_kernel *kernel)
{
	(void)kernel;
}

void mb_ebpf_unload(struct mb_ebpf_kernel *kernel)
{
	(void)kernel;
}

int mb_ebpf_check(const char *name, struct mb_error *error)
{
	return missing(name, error);
}

#endif

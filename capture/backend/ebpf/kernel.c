/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/ebpf/kernel.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#ifdef MB_EBPF_OBJECT

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <net/if.h>
#include <stdlib.h>

#include "backend/ebpf/attach.h"
#include "backend/ebpf/rings.h"
#include "hash.h"
#include "seed.h"

/* The program that clang compiled. */
asm(".pushsection .rodata\n"
    ".balign 8\n"
    "mb_ebpf_object: .incbin \"" MB_EBPF_OBJECT "\"\n"
    "mb_ebpf_object_end: .byte 0\n"
    ".popsection\n");
extern const char mb_ebpf_object[] __attribute__((visibility("hidden")));
extern const char mb_ebpf_object_end[] __attribute__((visibility("hidden")));

static int say_nothing(enum libbpf_print_level level, const char *format, va_list arguments)
{
	(void)level, (void)format, (void)arguments;
	return 0;
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
		.merged_mask = kernel->entries[MB_EBPF_MERGED] - 1,
		.inner = kernel->inner,
		.seed = seed.words[0],
		.factor = seed.words[1] | 1,
	};
	return 0;
}

static int set_sizes(const struct mb_ebpf_kernel *kernel)
{
	int status = 0;

	for (int i = 0; i < MB_EBPF_RINGS && !status; i++) {
		struct bpf_map *map = bpf_object__find_map_by_name(kernel->object, mb_ebpf_ring_name(i));

		status = map ? bpf_map__set_max_entries(map, kernel->n_cursors * kernel->entries[i]) : -EPROTO;
	}
	return status;
}

int mb_ebpf_ring_fd(const struct mb_ebpf_kernel *kernel, int ring)
{
	return bpf_object__find_map_fd_by_name(kernel->object, mb_ebpf_ring_name(ring));
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
		if (mb_ebpf_ring_is_shared(i))
			status = mb_ebpf_map_ring(kernel, i, mb_ebpf_ring_fd(kernel, i));
	return status ? status : mb_ebpf_map_variables(kernel, mb_ebpf_variables_fd(kernel));
}

static int refused(const char *name, int status, struct mb_error *error)
{
	return status == -EPERM || status == -EACCES ?
		       mb_ebpf_forbidden(name, error) :
		       mb_fail_errno(error, -status, "%s: this kernel does not load the program that counts", name);
}

/* The first number in a file of the kernel, 0 if there is none. WORD: the number must be on the line that begins with
 * it. */
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

/* Refuse a host on which bins would be wrong. */
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

static struct bpf_program *program_of(const struct mb_ebpf_kernel *kernel, int side)
{
	return bpf_object__find_program_by_name(kernel->object, mb_ebpf_is_at_driver(kernel, side) ? "count_received" :
								side                               ? "count_leaving" :
												     "count_arriving");
}

int mb_ebpf_program(const struct mb_ebpf_kernel *kernel, int side)
{
	return bpf_program__fd(program_of(kernel, side));
}

static void choose_programs(const struct mb_ebpf_kernel *kernel)
{
	struct bpf_program *program;

	bpf_object__for_each_program(program, kernel->object) bpf_program__set_autoload(program, false);
	for (int side = 0; side < MB_EBPF_SIDES; side++)
		bpf_program__set_autoload(program_of(kernel, side), true);
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
	if (!status && mb_backend_is_auto(options) && mb_ebpf_refuse_size(kernel, options, error))
		return -ENOMEM;
	if (!status)
		status = set_constants(kernel);
	if (!status)
		status = bpf_object__load(kernel->object);
	if (!status)
		status = map_memory(kernel);
	return status ? refused(name, status, error) : 0;
}

void mb_ebpf_unload(struct mb_ebpf_kernel *kernel)
{
	mb_ebpf_detach(kernel);
	mb_ebpf_unmap(kernel);
	bpf_object__close(kernel->object);
	*kernel = MB_EBPF_KERNEL_NONE;
}

/* The loopback, which every namespace has, serves to test whether the kernel has the hook. */
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

void mb_ebpf_unload(struct mb_ebpf_kernel *kernel)
{
	(void)kernel;
}

int mb_ebpf_check(const char *name, struct mb_error *error)
{
	return missing(name, error);
}

#endif

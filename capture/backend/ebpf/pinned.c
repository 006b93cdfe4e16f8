/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/ebpf/pinned.h"

#ifdef MB_EBPF_OBJECT

#include <bpf/bpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <string.h>
#include <unistd.h>

#include "backend/ebpf/attach.h"
#include "backend/ebpf/rings.h"
#include "cleanup.h"

#define VARIABLES "variables"

static const char *const link_names[MB_EBPF_SIDES] = { "arriving", "leaving" };

static struct mb_ebpf_settings settings_of(const struct mb_ebpf_kernel *kernel, uint32_t index, uint32_t sides)
{
	struct mb_ebpf_settings settings = {
		.program = mb_ebpf_program_hash(),
		.bin_ns = (uint64_t)kernel->bin_ns,
		.source_bin_ns = (uint64_t)kernel->source_bin_ns,
		.n_cursors = kernel->n_cursors,
		.index = index,
		.sides = sides,
		.hook = kernel->hook,
		.inner = kernel->inner,
		.order = MB_EBPF_ORDER,
	};

	_Static_assert(sizeof(settings.entries) == sizeof(kernel->entries), "a ring of the settings each");
	memcpy(settings.entries, kernel->entries, sizeof(settings.entries));
	return settings;
}

static int put_all(const struct mb_ebpf_kernel *kernel, const struct mb_ebpf_pins *pins, uint32_t sides)
{
	int status = mb_ebpf_pins_put(pins, VARIABLES, mb_ebpf_variables_fd(kernel));

	for (int i = 0; i < MB_EBPF_RINGS && !status; i++)
		if (kernel->memory[i])
			status = mb_ebpf_pins_put(pins, mb_ebpf_ring_name(i), mb_ebpf_ring_fd(kernel, i));
	for (int side = 0; side < MB_EBPF_SIDES && !status; side++)
		if (sides >> side & 1)
			status = mb_ebpf_pins_put(pins, link_names[side], kernel->links[side]);
	return status;
}

int mb_ebpf_pin(const struct mb_ebpf_kernel *kernel, const struct mb_ebpf_pins *pins, uint32_t index, uint32_t sides,
		const char *name, struct mb_error *error)
{
	const struct mb_ebpf_settings settings = settings_of(kernel, index, sides);
	int status;

	if (mb_ebpf_stays(kernel))
		return mb_fail(error, EOPNOTSUPP,
			       "%s: --pin needs tcx (Linux 6.6, CONFIG_NET_XGRESS), which this kernel has not", name);
	status = put_all(kernel, pins, sides);
	if (status) {
		mb_ebpf_pins_clear(pins);
		return mb_fail_errno(error, -status, "%s: --pin: pinning in %s", name, pins->path);
	}
	kernel->variables->settings = settings; /* last: nothing is adopted without it */
	return 0;
}

static bool adopt_rings(struct mb_ebpf_kernel *kernel, const struct mb_ebpf_pins *pins)
{
	int status = 0;

	for (int i = 0; i < MB_EBPF_RINGS && !status; i++) {
		mb_auto_close int fd = -1;

		if (!mb_ebpf_ring_is_shared(i))
			continue;
		fd = mb_ebpf_pins_get(pins, mb_ebpf_ring_name(i));
		status = fd < 0 ? fd : mb_ebpf_map_ring(kernel, i, fd);
	}
	return !status;
}

static bool adopt_links(struct mb_ebpf_kernel *kernel, const struct mb_ebpf_pins *pins, uint32_t index, uint32_t sides)
{
	for (int side = 0; side < MB_EBPF_SIDES; side++) {
		if (!(sides >> side & 1))
			continue;
		kernel->links[side] = mb_ebpf_pins_get(pins, link_names[side]);
		if (kernel->links[side] < 0 || !mb_ebpf_is_at(kernel->links[side], index))
			return false;
	}
	return true;
}

static bool is_as_wanted(struct mb_ebpf_kernel *kernel, const struct mb_ebpf_pins *pins, uint32_t index, uint32_t sides)
{
	const struct mb_ebpf_settings wanted = settings_of(kernel, index, sides);
	mb_auto_close int fd = mb_ebpf_pins_get(pins, VARIABLES);
	struct mb_ebpf_settings found;

	if (fd < 0 || mb_ebpf_map_variables(kernel, fd))
		return false;
	found = kernel->variables->settings;
	return !memcmp(&found, &wanted, sizeof(wanted));
}

bool mb_ebpf_adopt(struct mb_ebpf_kernel *kernel, const struct mb_ebpf_pins *pins,
		   const struct mb_backend_options *options, uint32_t index, uint32_t sides)
{
	if (!mb_ebpf_choose(kernel, options) && is_as_wanted(kernel, pins, index, sides) && adopt_rings(kernel, pins) &&
	    adopt_links(kernel, pins, index, sides))
		return true;
	mb_ebpf_unload(kernel);
	return false;
}

#else

int mb_ebpf_pin(const struct mb_ebpf_kernel *kernel, const struct mb_ebpf_pins *pins, uint32_t index, uint32_t sides,
		const char *name, struct mb_error *error)
{
	(void)kernel, (void)pins, (void)index, (void)sides;
	return mb_ebpf_check(name, error);
}

bool mb_ebpf_adopt(struct mb_ebpf_kernel *kernel, const struct mb_ebpf_pins *pins,
		   const struct mb_backend_options *options, uint32_t index, uint32_t sides)
{
	(void)kernel, (void)pins, (void)options, (void)index, (void)sides;
	return false;
}

#endif

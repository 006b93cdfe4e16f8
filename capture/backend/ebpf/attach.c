/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/ebpf/attach.h"

bool mb_ebpf_stays(const struct mb_ebpf_kernel *kernel)
{
	return kernel->filters[0].claim >= 0 || kernel->filters[1].claim >= 0;
}

#ifdef MB_EBPF_OBJECT

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/if_link.h>
#include <unistd.h>

#include "clock.h"

#define ASK_NS 10000000000 /* from the last proof that a side is attached until the kernel is asked */

/* In linux/bpf.h since Linux 6.6. */
#define TCX_INGRESS 46
#define TCX_EGRESS 47
#define TCX_BEFORE (1u << 3)

int mb_ebpf_forbidden(const char *name, struct mb_error *error)
{
	return mb_fail(error, EPERM,
		       "%s: counting in the kernel is not allowed: run as root, or with the capabilities CAP_BPF, "
		       "CAP_PERFMON and CAP_NET_ADMIN",
		       name);
}

bool mb_ebpf_is_at_driver(const struct mb_ebpf_kernel *kernel, int side)
{
	return !side && kernel->hook != MB_HOOK_TC;
}

bool mb_ebpf_is_generic(const struct mb_ebpf_kernel *kernel, uint32_t index)
{
	LIBBPF_OPTS(bpf_xdp_query_opts, found);

	return kernel->hook == MB_HOOK_XDP_GENERIC && !bpf_xdp_query((int)index, 0, &found) &&
	       found.attach_mode == XDP_ATTACHED_SKB;
}

/* Attach an XDP link: in the driver, or behind it if the hook allows that and the driver has no XDP. */
static int link_at_driver(const struct mb_ebpf_kernel *kernel, int program, int index)
{
	LIBBPF_OPTS(bpf_link_create_opts, native, .flags = XDP_FLAGS_DRV_MODE);
	LIBBPF_OPTS(bpf_link_create_opts, generic, .flags = XDP_FLAGS_SKB_MODE);
	int link = bpf_link_create(program, index, BPF_XDP, &native);

	return link == -EOPNOTSUPP && kernel->hook == MB_HOOK_XDP_GENERIC ?
		       bpf_link_create(program, index, BPF_XDP, &generic) :
		       link;
}

/* Attach a tcx link before the programs that are there: one that accepts a frame (TCX_PASS) ends the run of the next ones. */
static int link_at_tc(int program, int index, int place)
{
	LIBBPF_OPTS(bpf_link_create_opts, options, .flags = TCX_BEFORE);

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

	if (status == -EINVAL || status == -ENOSPC) /* another kind, another protocol */
		return mb_fail(error, -status,
			       "%s: this kernel has no tcx, and at clsact a filter of another kind or protocol has "
			       "priority 1: give it another one, or use --backend afpacket",
			       name);
	if (status == -EXDEV)
		return mb_fail(
			error, -status,
			"%s: this kernel has no tcx, and the qdisc `ingress` of the interface has no filters for "
			"leaving frames: use clsact in its place, or --backend afpacket",
			name);
	return status ? mb_fail_errno(error, -status,
				      "%s: this kernel has no tcx, and attaching the program that counts to clsact",
				      name) :
			0;
}

int mb_ebpf_attach(struct mb_ebpf_kernel *kernel, int side, uint32_t index, const char *name, struct mb_error *error)
{
	const bool at_driver = mb_ebpf_is_at_driver(kernel, side);
	const int program = mb_ebpf_program(kernel, side);
	const int link = at_driver ? link_at_driver(kernel, program, (int)index) :
				     link_at_tc(program, (int)index, side ? TCX_EGRESS : TCX_INGRESS);

	if (link == -EPERM || link == -EACCES)
		return mb_ebpf_forbidden(name, error);
	if (link < 0 && at_driver)
		return refuse_driver(link, name, error);
	if (link == -EINVAL)
		return kernel->may_stay ? attach_filter(kernel, program, side, index, name, error) :
					  lacks_links(name, error);
	if (link < 0)
		return mb_fail_errno(error, -link, "%s: attaching the program that counts", name);
	kernel->links[side] = link;
	return 0;
}

bool mb_ebpf_is_at(int link, uint32_t index)
{
	struct bpf_link_info info = { 0 };
	uint32_t size = sizeof(info);

	/* of tcx and XDP alike that is what is behind the header */
	return !bpf_obj_get_info_by_fd(link, &info, &size) && info.xdp.ifindex == index;
}

static uint64_t newest_bin(const struct mb_ebpf_kernel *kernel, int side)
{
	volatile const struct mb_ebpf_cursor *cursors = kernel->memory[MB_EBPF_CURSORS];
	uint64_t newest = 0;

	for (uint32_t i = (uint32_t)side; i < kernel->n_cursors; i += MB_EBPF_SIDES)
		newest = cursors[i].bin > newest ? cursors[i].bin : newest;
	return newest;
}

/* Whether SIDE counted, or was asked about, a short while ago. */
static bool is_known(const struct mb_ebpf_kernel *kernel, struct mb_ebpf_proof *proof, int side)
{
	const int64_t now_ns = mb_clock_ns(CLOCK_MONOTONIC);
	const uint64_t newest = newest_bin(kernel, side);
	const bool is_shown = !proof->at_ns || newest != proof->newest;

	if (!is_shown && now_ns - proof->at_ns < ASK_NS)
		return true;
	*proof = (struct mb_ebpf_proof){ .at_ns = now_ns, .newest = newest };
	return is_shown;
}

bool mb_ebpf_is_taken(struct mb_ebpf_kernel *kernel)
{
	for (int side = 0; side < MB_EBPF_SIDES; side++)
		if (!is_known(kernel, &kernel->proofs[side], side) &&
		    ((kernel->links[side] >= 0 && mb_ebpf_is_at(kernel->links[side], 0)) ||
		     mb_clsact_is_taken(&kernel->filters[side])))
			return true;
	return false;
}

void mb_ebpf_stop(struct mb_ebpf_kernel *kernel)
{
	for (int side = 0; side < MB_EBPF_SIDES; side++)
		if (kernel->links[side] >= 0)
			bpf_link_detach(kernel->links[side]);
	mb_ebpf_detach(kernel);
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

#else

int mb_ebpf_attach(struct mb_ebpf_kernel *kernel, int side, uint32_t index, const char *name, struct mb_error *error)
{
	(void)kernel, (void)side, (void)index;
	return mb_ebpf_check(name, error);
}

bool mb_ebpf_is_generic(const struct mb_ebpf_kernel *kernel, uint32_t index)
{
	(void)kernel, (void)index;
	return false;
}

bool mb_ebpf_is_taken(struct mb_ebpf_kernel *kernel)
{
	(void)kernel;
	return false;
}

void mb_ebpf_stop(struct mb_ebpf_kernel *kernel)
{
	(void)kernel;
}

void mb_ebpf_detach(struct mb_ebpf_kernel *kernel)
{
	(void)kernel;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/ebpf/clsact.h"

#ifdef MB_EBPF_OBJECT

#include <bpf/libbpf.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define FIRST_HANDLE 0x6d620001u
#define HANDLES 8u /* of a side: arriving frames have the first ones, leaving frames those behind them */
#define PRIORITY 1u /* the first: a filter that accepts a frame (TC_ACT_OK) ends the run of those behind */
#define EARLIER_EGRESS 0xffffu /* the priority of leaving frames in an earlier mburst */

/* A socket that holds the name of a handle while this process lives; -1 if another process holds it. */
static int claim(uint32_t index, int side, uint32_t handle)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	const int length =
		snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "mburst clsact %u %d %x", index, side, handle);
	const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	if (!bind(fd, (struct sockaddr *)&name,
		  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)))
		return fd;
	close(fd);
	return -1;
}

static struct bpf_tc_hook hook_of(uint32_t index, int side)
{
	return (struct bpf_tc_hook){
		.sz = sizeof(struct bpf_tc_hook),
		.ifindex = (int)index,
		.attach_point = side ? BPF_TC_EGRESS : BPF_TC_INGRESS,
	};
}

static void remove_filter(uint32_t index, int side, uint32_t handle, uint32_t priority)
{
	const struct bpf_tc_hook hook = hook_of(index, side);
	LIBBPF_OPTS(bpf_tc_opts, options, .handle = handle, .priority = priority);

	bpf_tc_detach(&hook, &options);
}

/* Claim a handle. A filter with a handle that no other process claims belongs to a dead process; it is removed. */
static void claim_one(struct mb_clsact *hold)
{
	const uint32_t first = FIRST_HANDLE + (hold->side ? HANDLES : 0);

	for (uint32_t handle = first; handle < first + HANDLES; handle++) {
		const int fd = claim(hold->index, hold->side, handle);

		if (fd < 0)
			continue;
		remove_filter(hold->index, hold->side, handle, PRIORITY);
		if (hold->side) /* an earlier mburst gave both sides the first handles */
			remove_filter(hold->index, hold->side, handle - HANDLES, EARLIER_EGRESS);
		if (hold->claim >= 0) {
			close(fd);
			continue;
		}
		hold->claim = fd;
		hold->handle = handle;
	}
}

/* Whether a program that was attached for leaving frames is there for arriving ones: the qdisc `ingress`, which may be in
 * the place of clsact, has one list of filters for both. */
static bool meets_arriving(const struct mb_clsact *hold)
{
	const struct bpf_tc_hook hook = hook_of(hold->index, 0);
	LIBBPF_OPTS(bpf_tc_opts, options, .handle = hold->handle, .priority = PRIORITY);

	return hold->side && !bpf_tc_query(&hook, &options);
}

int mb_clsact_attach(struct mb_clsact *hold, int program, uint32_t index, int side)
{
	struct bpf_tc_hook hook = hook_of(index, side);
	LIBBPF_OPTS(bpf_tc_opts, options, .prog_fd = program, .priority = PRIORITY);
	int status = bpf_tc_hook_create(&hook);

	*hold = (struct mb_clsact){ .claim = -1, .index = index, .side = side };
	if (status && status != -EEXIST)
		return status;
	claim_one(hold);
	if (hold->claim < 0)
		return -EBUSY;
	options.handle = hold->handle;
	status = bpf_tc_attach(&hook, &options);
	if (!status && meets_arriving(hold))
		status = -EXDEV;
	if (status)
		mb_clsact_detach(hold);
	return status;
}

bool mb_clsact_is_taken(const struct mb_clsact *hold)
{
	const struct bpf_tc_hook hook = hook_of(hold->index, hold->side);
	LIBBPF_OPTS(bpf_tc_opts, options, .handle = hold->handle, .priority = PRIORITY);
	int status = hold->claim < 0 ? 0 : bpf_tc_query(&hook, &options);

	return status == -ENOENT || status == -EINVAL; /* no filter, or no qdisc */
}

void mb_clsact_detach(struct mb_clsact *hold)
{
	if (hold->claim < 0)
		return;
	remove_filter(hold->index, hold->side, hold->handle, PRIORITY);
	close(hold->claim);
	hold->claim = -1;
}

#endif

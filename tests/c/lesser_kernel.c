/* SPDX-License-Identifier: Apache-2.0
 *
 * For LD_PRELOAD: a kernel that lacks the feature of bpf(2) that LACKS names: tcx, hooks
 * (neither tcx nor clsact), xdp, mmap (arrays that a process can map), load (it
 * refuses the program), places (it says of each link that it is at no interface) or right
 * (it refuses everything); or memory, of which it has 64 MiB.
 */
#include <dlfcn.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool lacks(const char *what)
{
	const char *word = getenv("LACKS");

	return word && !strcmp(word, what);
}

/* Returns the error with which bpf(2) fails, or 0. */
static int failure(long command, const union bpf_attr *attributes)
{
	if (lacks("right"))
		return EPERM;
	if (command == BPF_PROG_LOAD && lacks("load") && attributes->insn_cnt > 1000)
		return EINVAL;
	if (command == BPF_MAP_CREATE && lacks("mmap") && attributes->map_flags & BPF_F_MMAPABLE)
		return EINVAL;
	if (command != BPF_LINK_CREATE)
		return 0;
	if (attributes->link_create.attach_type == BPF_XDP)
		return lacks("xdp") ? EOPNOTSUPP : 0;
	return lacks("tcx") || lacks("hooks") ? EINVAL : 0;
}

ssize_t send(int fd, const void *message, size_t length, int flags)
{
	static ssize_t (*real)(int, const void *, size_t, int);
	const struct nlmsghdr *header = message;

	if (lacks("hooks") && length >= sizeof(*header) && header->nlmsg_type == RTM_NEWQDISC) {
		errno = EOPNOTSUPP;
		return -1;
	}
	if (!real)
		real = (ssize_t (*)(int, const void *, size_t, int))dlsym(RTLD_NEXT, "send");
	return real(fd, message, length, flags);
}

long sysconf(int name)
{
	static long (*real)(int);

	if (name == _SC_PHYS_PAGES && lacks("memory"))
		return 16384;
	if (!real)
		real = (long (*)(int))dlsym(RTLD_NEXT, "sysconf");
	return real(name);
}

static void forget_place(long command, const union bpf_attr *attributes)
{
	if (command == BPF_OBJ_GET_INFO_BY_FD && attributes->info.info_len == sizeof(struct bpf_link_info))
		((struct bpf_link_info *)(uintptr_t)attributes->info.info)->xdp.ifindex = 0;
}

long syscall(long number, ...)
{
	static long (*real)(long number, ...);
	long given[6], returned;
	va_list list;
	int error;

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		given[i] = va_arg(list, long);
	va_end(list);
	if (!real)
		real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	error = number == SYS_bpf ? failure(given[0], (const union bpf_attr *)given[1]) : 0;
	if (error) {
		errno = error;
		return -1;
	}
	returned = real(number, given[0], given[1], given[2], given[3], given[4], given[5]);
	if (number == SYS_bpf && !returned && lacks("places"))
		forget_place(given[0], (const union bpf_attr *)given[1]);
	return returned;
}

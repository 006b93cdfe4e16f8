/* SPDX-License-Identifier: Apache-2.0
 *
 * Preloaded into a recorder: once the file that NO_BUFFERS names exists, its packet sockets report
 * ENOBUFS, as sockets do when the kernel is out of buffers. If NO_BUFFERS_RING is N, only that packet
 * socket does that joined a fanout after N others.
 */
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/if_packet.h>

static int joined, chosen = -1;

static bool is_due(int fd)
{
	const char *file = getenv("NO_BUFFERS");
	socklen_t length = sizeof(int);
	int domain;

	return file && !access(file, F_OK) && !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) &&
	       domain == AF_PACKET && (!getenv("NO_BUFFERS_RING") || fd == chosen);
}

int setsockopt(int fd, int level, int option, const void *value, socklen_t length)
{
	int (*real)(int, int, int, const void *, socklen_t) = dlsym(RTLD_NEXT, "setsockopt");
	const char *ring = getenv("NO_BUFFERS_RING");
	int status = real(fd, level, option, value, length);

	if (ring && level == SOL_PACKET && option == PACKET_FANOUT && !status && joined++ == atoi(ring))
		chosen = fd;
	return status;
}

int poll(struct pollfd *fds, nfds_t count, int timeout)
{
	int (*real)(struct pollfd *, nfds_t, int) = dlsym(RTLD_NEXT, "poll");
	int ready = real(fds, count, timeout);

	if (count != 1 || !is_due(fds->fd))
		return ready;
	fds->revents |= POLLERR;
	return 1;
}

int getsockopt(int fd, int level, int option, void *restrict value, socklen_t *restrict length)
{
	int (*real)(int, int, int, void *, socklen_t *) = dlsym(RTLD_NEXT, "getsockopt");

	if (level != SOL_SOCKET || option != SO_ERROR || !is_due(fd))
		return real(fd, level, option, value, length);
	*(int *)value = ENOBUFS;
	return 0;
}

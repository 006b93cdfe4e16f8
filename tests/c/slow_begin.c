/* SPDX-License-Identifier: Apache-2.0
 *
 * Preloaded into a recorder: each of the first SLOW_CALLS calls that bind a packet socket or give it a filter takes
 * 30 ms, as on a machine whose processors are busy at that moment.
 */
#include <dlfcn.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

static void wait_once(void)
{
	static int done;
	const char *slow = getenv("SLOW_CALLS");

	if (slow && done++ < atoi(slow))
		poll(NULL, 0, 30);
}

int bind(int fd, const struct sockaddr *address, socklen_t length)
{
	int (*real)(int, const struct sockaddr *, socklen_t) = dlsym(RTLD_NEXT, "bind");

	if (address->sa_family == AF_PACKET)
		wait_once();
	return real(fd, address, length);
}

int setsockopt(int fd, int level, int option, const void *value, socklen_t length)
{
	int (*real)(int, int, int, const void *, socklen_t) = dlsym(RTLD_NEXT, "setsockopt");

	if (level == SOL_SOCKET && option == SO_ATTACH_FILTER)
		wait_once();
	return real(fd, level, option, value, length);
}

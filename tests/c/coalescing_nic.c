/* SPDX-License-Identifier: Apache-2.0
 *
 * A network interface whose interrupts are coalesced, between a wire and a host:
 *   coalescing_nic WIRE TAP HOLD_US
 * WIRE is an interface without addresses; TAP is created for the host. Arriving frames are held until HOLD_US after
 * the first of them (rx-usecs of ethtool -C). Then all of them are handed to the host at once, in order, and get
 * their timestamps only there. Frames that the host sends leave at once, or with the next of these.
 * Prints "ready" when it carries frames, and at SIGTERM {"frames": N, "interrupts": N, "most": N}: the number of frames
 * that were handed over, the number of times, and the most at once.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define FRAME_BYTES 2048
#define BUFFER_BYTES (8 << 20)

struct totals {
	uint64_t frames, interrupts, most;
};

static volatile sig_atomic_t ended;

static void end(int signal)
{
	(void)signal;
	ended = 1;
}

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static int open_wire(const char *name)
{
	struct sockaddr_ll address = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(ETH_P_ALL),
		.sll_ifindex = (int)if_nametoindex(name),
	};
	struct packet_mreq all = { .mr_ifindex = address.sll_ifindex, .mr_type = PACKET_MR_PROMISC };
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, 0), bytes = BUFFER_BYTES, one = 1;

	if (fd < 0 || !address.sll_ifindex || setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) ||
	    setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof(one)) ||
	    setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof(all)) ||
	    bind(fd, (struct sockaddr *)&address, sizeof(address)))
		fail(name);
	return fd;
}

static int open_tap(const char *name)
{
	struct ifreq request = { .ifr_flags = IFF_TAP | IFF_NO_PI };
	int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK);

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	if (fd < 0 || ioctl(fd, TUNSETIFF, &request))
		fail(name);
	return fd;
}

/* Frames to a host that is not up yet are lost, as on a wire. */
static void put(int fd, const uint8_t *data, size_t bytes)
{
	while (write(fd, data, bytes) < 0 && errno == EINTR)
		;
}

/* Forwards all frames of FROM and returns their number. */
static uint64_t drain(int from, int to)
{
	uint8_t data[FRAME_BYTES];
	uint64_t count = 0;
	ssize_t bytes;

	for (; (bytes = read(from, data, sizeof(data))) > 0; count++) {
		if (bytes == FRAME_BYTES) {
			fprintf(stderr, "a frame of %d bytes or more: the offloads of the wire are on\n", FRAME_BYTES);
			exit(1);
		}
		put(to, data, (size_t)bytes);
	}
	return count;
}

static void interrupt(int wire, int tap, struct totals *totals)
{
	uint64_t count = drain(wire, tap);

	totals->frames += count;
	totals->interrupts += count > 0;
	totals->most = count > totals->most ? count : totals->most;
}

static void carry(int wire, int tap, const struct timespec *hold, struct totals *totals)
{
	struct pollfd events[] = { { .fd = wire, .events = POLLIN }, { .fd = tap, .events = POLLIN } };

	while (!ended) {
		poll(events, 2, -1);
		if (events[1].revents)
			drain(tap, wire);
		if (!events[0].revents)
			continue;
		nanosleep(hold, NULL);
		interrupt(wire, tap, totals);
	}
}

int main(int argc, char **argv)
{
	struct sched_param first = { .sched_priority = 1 };
	struct sigaction action = { .sa_handler = end };
	struct timespec hold = { 0 };
	struct totals totals = { 0 };
	int wire, tap;

	if (argc != 4 || (hold.tv_nsec = atol(argv[3]) * 1000) <= 0 || hold.tv_nsec >= 1000000000)
		return 2;
	sigaction(SIGTERM, &action, NULL);
	prctl(PR_SET_TIMERSLACK, 1);
	sched_setscheduler(0, SCHED_FIFO, &first);
	wire = open_wire(argv[1]);
	tap = open_tap(argv[2]);
	puts("ready");
	fflush(stdout);
	carry(wire, tap, &hold, &totals);
	printf("{\"frames\": %llu, \"interrupts\": %llu, \"most\": %llu}\n", (unsigned long long)totals.frames,
	       (unsigned long long)totals.interrupts, (unsigned long long)totals.most);
	return 0;
}

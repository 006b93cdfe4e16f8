/* SPDX-License-Identifier: Apache-2.0
 *
 * Sends frames with sequence numbers from an interface and prints what it sent:
 *   send IFACE COUNT RATE SIZE [FIRST]
 * COUNT frames of SIZE bytes at RATE a second (0: as fast as it can), numbered from FIRST, to
 * the broadcast address with EtherType 0x88b5 (IEEE 802 local experimental). Prints
 * {"sent": N, "bytes": N, "seconds": S}. Frames that the kernel refuses are sent again.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define BURST 32
#define SEQUENCE_OFFSET 20
#define SIZE_MAX_ 65536
#define LEAST_SLEEP_S 0.0005 /* a sleep ends late by less than this if the machine is idle */

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static int open_socket(const char *name)
{
	struct sockaddr_ll address = {
		.sll_family = AF_PACKET,
		.sll_ifindex = (int)if_nametoindex(name),
	};
	int fd = socket(AF_PACKET, SOCK_RAW, 0), one = 1;

	if (fd < 0 || !address.sll_ifindex || bind(fd, (struct sockaddr *)&address, sizeof(address)) ||
	    setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof(one))) {
		perror(name);
		exit(1);
	}
	return fd;
}

static void send_all(int fd, struct mmsghdr *messages, unsigned int count)
{
	for (unsigned int done = 0; done < count;) {
		int sent = sendmmsg(fd, messages + done, count - done, 0);

		if (sent > 0)
			done += (unsigned int)sent;
		else if (errno != ENOBUFS && errno != EAGAIN && errno != EINTR) {
			perror("sendmmsg");
			exit(1);
		}
	}
}

/* Sleeps if there is time for it: the program under test needs the processor, too. */
static void wait_until(double due)
{
	for (double left; (left = due - now()) > 0;)
		if (left > LEAST_SLEEP_S)
			usleep((useconds_t)((left - LEAST_SLEEP_S) * 1e6));
}

int main(int argc, char **argv)
{
	static uint8_t frames[BURST][SIZE_MAX_];
	struct iovec vectors[BURST];
	struct mmsghdr messages[BURST] = { 0 };

	if (argc < 5)
		return 2;
	const uint64_t count = strtoull(argv[2], NULL, 0), first = argc > 5 ? strtoull(argv[5], NULL, 0) : 0;
	const double rate = strtod(argv[3], NULL);
	const size_t size = strtoull(argv[4], NULL, 0);
	const int fd = open_socket(argv[1]);

	for (int i = 0; i < BURST; i++) {
		memcpy(frames[i], "\xff\xff\xff\xff\xff\xff\x02\x00\x00\x00\x00\x01\x88\xb5", 14);
		memcpy(frames[i] + SEQUENCE_OFFSET, "mbst", 4);
		vectors[i] = (struct iovec){ .iov_base = frames[i], .iov_len = size };
		messages[i].msg_hdr = (struct msghdr){ .msg_iov = &vectors[i], .msg_iovlen = 1 };
	}

	const double start = now();

	for (uint64_t done = 0; done < count;) {
		unsigned int some = count - done < BURST ? (unsigned int)(count - done) : BURST;

		for (unsigned int i = 0; i < some; i++) {
			uint64_t sequence = first + done + i;

			memcpy(frames[i] + SEQUENCE_OFFSET + 8, &sequence, sizeof(sequence));
		}
		if (rate > 0)
			wait_until(start + (double)done / rate);
		send_all(fd, messages, some);
		done += some;
	}
	printf("{\"sent\": %llu, \"bytes\": %llu, \"seconds\": %.6f}\n", (unsigned long long)count,
	       (unsigned long long)(count * size), now() - start);
	return 0;
}

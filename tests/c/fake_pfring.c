/* SPDX-License-Identifier: Apache-2.0
 *
 * A stand-in for libpfring that plays capture files, only for tests. It has two kinds of device:
 *   pcap:FILE  like libpfring's module of that name (pfring_mod_pcap.c of version 8.9): microseconds, no
 *              timestamp_ns, frames not cut, and -7 for direction, cluster, name and statistics
 *   card:FILE  like a capture card: hardware stamps (odd packets have only a software stamp in
 *              ns), directions (every third packet was sent), statistics (a drop each 10
 *              packets), clusters; after the file it is silent, like an idle line
 * Calls out of order, wrong arguments and a header that is too short end in abort(). As in the real
 * library, names of modules are searched anywhere in the name of the device, a failure to open is ENODEV,
 * and the libpcap that it uses is not linked, nor is another library that it never calls.
 */
#include <errno.h>
#include <pcap/pcap.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#define EXPORT __attribute__((visibility("default")))
#define NOT_SUPPORTED (-7)
#define NOT_ENABLED (-12)
#define HEADER_SIZE 400 /* releases from 7.3 to 8.9 write less than 512 */

struct header {
	struct timeval ts;
	uint32_t caplen, len;
	uint64_t timestamp_ns;
	uint32_t flags;
	uint8_t rx_direction;
	uint8_t rest[HEADER_SIZE - 37];
} __attribute__((packed));

struct ring {
	pcap_t *file;
	int card, named, mode, enabled;
	int direction; /* 0 both, 1 received, 2 sent */
	uint64_t packets;
};

/* A function of a card's vendor, whose module is in the library and is never called. */
int NT_Init(uint32_t version);

static void require(int condition, const char *what)
{
	if (condition)
		return;
	fprintf(stderr, "fake_pfring: %s\n", what);
	abort();
}

/* Returns the module that the real library would choose, which may not be the intended one. */
static const char *module_of(const char *device)
{
	static const char *const modules[] = { "default", "stack", "sysdig", "nt", "zc", "pcap" };

	if (!strncmp(device, "card:", 5))
		return "card";
	for (size_t i = 0; i < sizeof(modules) / sizeof(modules[0]); i++) {
		if (strstr(device, modules[i]))
			return modules[i];
	}
	return "default";
}

EXPORT struct ring *pfring_open(const char *device, uint32_t caplen, uint32_t flags)
{
	char reason[PCAP_ERRBUF_SIZE];
	struct ring *ring;
	const char *module = module_of(device);
	const int card = !strcmp(module, "card");
	pcap_t *file;

	require(caplen > 0, "caplen 0");
	require(flags & 1 << 2, "the header's stamps need PF_RING_LONG_HEADER");
	require(!(flags & ~0x23cu), "unknown flags");
	errno = ENODEV;
	if (!strcmp(module, "nt"))
		NT_Init(0);
	if (!card && strcmp(module, "pcap"))
		return NULL;
	file = pcap_open_offline_with_tstamp_precision(
		device + 5, card ? PCAP_TSTAMP_PRECISION_NANO : PCAP_TSTAMP_PRECISION_MICRO, reason);
	if (!file)
		return NULL;
	ring = calloc(1, sizeof(*ring));
	ring->file = file;
	ring->card = card;
	return ring;
}

EXPORT int pfring_set_application_name(struct ring *ring, char *name)
{
	ring->named = !strcmp(name, "mburst");
	return ring->card ? 0 : NOT_SUPPORTED;
}

EXPORT int pfring_set_direction(struct ring *ring, int direction)
{
	require(direction >= 0 && direction <= 2, "direction");
	ring->direction = direction;
	return ring->card ? 0 : NOT_SUPPORTED;
}

EXPORT int pfring_set_socket_mode(struct ring *ring, int mode)
{
	if (ring->enabled || mode != 2)
		return -1;
	ring->mode = mode;
	return 0;
}

EXPORT int pfring_set_cluster(struct ring *ring, unsigned int id, int type)
{
	require(!ring->enabled && id && type == 2, "cluster");
	return ring->card ? 0 : NOT_SUPPORTED;
}

EXPORT int pfring_set_bpf_filter(struct ring *ring, char *filter)
{
	struct bpf_program program;

	if (pcap_compile(ring->file, &program, filter, 1, PCAP_NETMASK_UNKNOWN))
		return -1;
	pcap_setfilter(ring->file, &program);
	pcap_freecode(&program);
	return 0;
}

EXPORT int pfring_enable_ring(struct ring *ring)
{
	require(ring->named && ring->mode == 2 && !ring->enabled, "calls out of order");
	ring->enabled = 1;
	return 0;
}

static void stamp(struct ring *ring, struct header *header, const struct pcap_pkthdr *packet)
{
	int64_t ns = packet->ts.tv_sec * 1000000000ll + packet->ts.tv_usec; /* read with ns precision */

	header->ts.tv_usec = packet->ts.tv_usec / 1000;
	header->timestamp_ns = (uint64_t)(ring->packets % 2 ? ns : ns + 5000);
	header->rx_direction = ring->packets % 3 != 2;
}

EXPORT int pfring_recv(struct ring *ring, uint8_t **buffer, unsigned int buffer_len, struct header *header,
		       uint8_t wait)
{
	struct pcap_pkthdr *packet;
	const u_char *data;
	int status;

	require(buffer_len == 0 && (wait == 0 || wait == 1), "recv");
	if (!ring->enabled)
		return NOT_ENABLED;
	status = pcap_next_ex(ring->file, &packet, &data);
	if (status != 1)
		return ring->card && status == -2 ? 0 : status;
	*buffer = (uint8_t *)data;
	memset(header, ring->card ? 0xa5 : 0, sizeof(*header)); /* up to its last byte */
	memcpy(header, packet, sizeof(*packet));
	if (ring->card)
		stamp(ring, header, packet);
	ring->packets++;
	if (ring->card && ring->direction && (ring->direction == 1) != header->rx_direction)
		return pfring_recv(ring, buffer, buffer_len, header, wait);
	return 1;
}

EXPORT int pfring_stats(struct ring *ring, uint64_t stats[3])
{
	if (!ring->card)
		return NOT_SUPPORTED;
	stats[0] = ring->packets;
	stats[1] = ring->packets / 10;
	stats[2] = 0;
	return 0;
}

EXPORT void pfring_close(struct ring *ring)
{
	pcap_close(ring->file);
	free(ring);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * libpcap_loop count|bins FILE: a pcap_dispatch loop over a file, with which the engine is compared.
 *
 * `count` counts packets and bytes, the least that any such loop costs. `bins` does the engine's work for the plain
 * case (Ethernet, VLAN, IPv4, IPv6, TCP, UDP; in order): 10 µs bins, exact senders with their flows per millisecond,
 * TCP sequences that went back. Prints one line of JSON: the totals, and the CPU time from opening the file to its end.
 */
#include <arpa/inet.h>
#include <pcap/pcap.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BIN_NS 10000
#define SOURCE_BIN_NS 1000000
#define ROWS 65536 /* a program would hand rows on in blocks of this size */

struct key {
	uint8_t source[16], destination[16]; /* IPv4: in the first four bytes */
	uint32_t ports;
	uint8_t version, protocol;
	uint16_t zero;
};

struct flow {
	struct key key;
	uint32_t next_sequence;
	int64_t seen_bin; /* the source bin in which it was last counted */
};

struct sender {
	uint8_t address[16];
	uint8_t version;
	int64_t bin;
	uint64_t bytes, packets, flows;
	int64_t first_ns, last_ns;
};

struct bin_row {
	int64_t ts_ns;
	uint64_t bytes, wire_bytes, packets, ce_packets, retransmits;
};

/* Open addressing, doubled when half full. Entries stay, so that later lookups find them at once. */
static struct flow *flows;
static uint32_t flow_slots = 1 << 14, n_flows;
static struct sender *senders;
static uint32_t sender_slots = 1 << 12, n_senders;
static uint32_t *active; /* the slots of the senders in the open source bin */
static uint32_t n_active;

static struct bin_row bin, bin_rows[ROWS];
static struct sender sender_rows[ROWS];
static uint64_t n_bin_rows, n_sender_rows;
static int64_t source_bin = -1;
static struct bin_row total;
static uint64_t total_flows;

static void *allocate(size_t count, size_t size)
{
	void *memory = calloc(count, size);

	if (!memory) {
		perror("libpcap_loop");
		exit(1);
	}
	return memory;
}

static uint64_t hash_words(const void *bytes, size_t n)
{
	uint64_t hash = 0, word;

	for (size_t i = 0; i < n; i += 8) {
		memcpy(&word, (const uint8_t *)bytes + i, 8);
		hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
		hash ^= hash >> 32;
	}
	return hash;
}

static struct flow *flow_slot(const struct key *key)
{
	uint32_t i = (uint32_t)hash_words(key, sizeof(*key)) & (flow_slots - 1);

	while (flows[i].key.version && memcmp(&flows[i].key, key, sizeof(*key)))
		i = (i + 1) & (flow_slots - 1);
	return &flows[i];
}

static struct flow *find_flow(const struct key *key, uint32_t sequence)
{
	struct flow *flow = flow_slot(key), *old = flows;

	if (flow->key.version)
		return flow;
	if (++n_flows > flow_slots / 2) {
		flow_slots *= 2;
		flows = allocate(flow_slots, sizeof(*flows));
		for (uint32_t i = 0; i < flow_slots / 2; i++)
			if (old[i].key.version)
				*flow_slot(&old[i].key) = old[i];
		free(old);
		flow = flow_slot(key);
	}
	*flow = (struct flow){ .key = *key, .next_sequence = sequence, .seen_bin = -1 };
	return flow;
}

static uint32_t sender_slot(const uint8_t *address, uint8_t version)
{
	uint32_t i = (uint32_t)hash_words(address, 16) & (sender_slots - 1);

	while (senders[i].version && (senders[i].version != version || memcmp(senders[i].address, address, 16)))
		i = (i + 1) & (sender_slots - 1);
	return i;
}

static void close_source_bin(void)
{
	for (uint32_t i = 0; i < n_active; i++) {
		sender_rows[n_sender_rows++ % ROWS] = senders[active[i]];
		total_flows += senders[active[i]].flows;
	}
	n_active = 0;
}

/* Slots move, so the table grows only between source bins; it never fills up in one. */
static void grow_senders(void)
{
	struct sender *old = senders;

	if (n_senders < sender_slots / 4)
		return;
	sender_slots *= 2;
	senders = allocate(sender_slots, sizeof(*senders));
	for (uint32_t i = 0; i < sender_slots / 2; i++)
		if (old[i].version)
			senders[sender_slot(old[i].address, old[i].version)] = old[i];
	free(old);
	free(active);
	active = allocate(sender_slots, sizeof(*active));
}

static void count_sender(const struct key *key, int64_t ns, uint32_t bytes, bool new_flow)
{
	uint32_t slot = sender_slot(key->source, key->version);
	struct sender *sender = &senders[slot];

	if (!sender->version) {
		if (++n_senders == sender_slots) {
			fprintf(stderr, "libpcap_loop: too many senders in a millisecond\n");
			exit(1);
		}
		memcpy(sender->address, key->source, 16);
		sender->version = key->version;
		sender->bin = -1;
	}
	if (sender->bin != source_bin) {
		sender->bin = source_bin;
		sender->bytes = sender->packets = sender->flows = 0;
		sender->first_ns = ns;
		active[n_active++] = slot;
	}
	sender->bytes += bytes;
	sender->packets++;
	sender->flows += new_flow;
	sender->last_ns = ns;
}

static void close_bin(void)
{
	bin_rows[n_bin_rows++ % ROWS] = bin;
	total.bytes += bin.bytes;
	total.wire_bytes += bin.wire_bytes;
	total.packets += bin.packets;
	total.ce_packets += bin.ce_packets;
	total.retransmits += bin.retransmits;
}

static void advance(int64_t ns)
{
	int64_t start = ns - ns % BIN_NS, source_start = ns - ns % SOURCE_BIN_NS;

	if (start != bin.ts_ns) {
		if (bin.packets)
			close_bin();
		bin = (struct bin_row){ .ts_ns = start };
	}
	if (source_start != source_bin) {
		close_source_bin();
		grow_senders();
		source_bin = source_start;
	}
}

static uint16_t read16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static uint32_t read32(const uint8_t *p)
{
	uint32_t value;

	memcpy(&value, p, 4);
	return ntohl(value);
}

/* Whether a TCP segment of LENGTH bytes behind P repeats sequence space that its flow has sent. */
static bool went_back(struct flow *flow, const uint8_t *p, uint32_t length)
{
	uint32_t sequence = read32(p + 4);
	uint32_t end = sequence + length - (p[12] >> 4) * 4;
	bool back = (int32_t)(sequence - flow->next_sequence) < 0;

	if (end == sequence)
		return false;
	if ((int32_t)(end - flow->next_sequence) > 0)
		flow->next_sequence = end;
	return back;
}

static void count_ip(const uint8_t *p, const uint8_t *end, int64_t ns, uint32_t bytes)
{
	struct key key = { .version = p < end ? p[0] >> 4 : 0 };
	const uint8_t *transport;
	uint32_t length;
	struct flow *flow;
	bool tcp, new_flow;

	if (key.version == 4 && end - p >= 20) {
		uint32_t header = (p[0] & 15) * 4u;

		memcpy(key.source, p + 12, 4);
		memcpy(key.destination, p + 16, 4);
		key.protocol = p[9];
		length = read16(p + 2) - header;
		transport = p + header;
		bin.ce_packets += (p[1] & 3) == 3;
	} else if (key.version == 6 && end - p >= 40) {
		memcpy(key.source, p + 8, 16);
		memcpy(key.destination, p + 24, 16);
		key.protocol = p[6];
		length = read16(p + 4);
		transport = p + 40;
		bin.ce_packets += (p[1] >> 4 & 3) == 3;
	} else {
		return;
	}
	tcp = key.protocol == 6 && end - transport >= 14;
	if ((tcp || key.protocol == 17) && end - transport >= 4)
		memcpy(&key.ports, transport, 4);
	flow = find_flow(&key, tcp ? read32(transport + 4) : 0);
	new_flow = flow->seen_bin != source_bin;
	flow->seen_bin = source_bin;
	if (tcp)
		bin.retransmits += went_back(flow, transport, length);
	count_sender(&key, ns, bytes, new_flow);
}

static void count_into_bins(u_char *user, const struct pcap_pkthdr *header, const u_char *frame)
{
	int64_t ns = header->ts.tv_sec * INT64_C(1000000000) + header->ts.tv_usec;
	const uint8_t *end = frame + header->caplen, *p = frame + 14;
	uint16_t type;

	(void)user;
	advance(ns);
	bin.packets++;
	bin.bytes += header->len;
	bin.wire_bytes += (header->len < 60 ? 60 : header->len) + 24;
	if (header->caplen < 14)
		return;
	type = read16(frame + 12);
	while ((type == 0x8100 || type == 0x88A8) && end - p >= 4) {
		type = read16(p + 2);
		p += 4;
	}
	if (type == 0x0800 || type == 0x86DD)
		count_ip(p, end, ns, header->len);
}

static void count_only(u_char *user, const struct pcap_pkthdr *header, const u_char *frame)
{
	(void)user, (void)frame;
	total.packets++;
	total.bytes += header->len;
}

static int64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

int main(int argc, char **argv)
{
	char error[PCAP_ERRBUF_SIZE];
	int64_t start = cpu_ns();
	bool bins = argc == 3 && !strcmp(argv[1], "bins");
	pcap_t *pcap;
	int count;

	if (argc != 3 || (!bins && strcmp(argv[1], "count"))) {
		fprintf(stderr, "usage: libpcap_loop count|bins FILE\n");
		return 2;
	}
	pcap = pcap_open_offline_with_tstamp_precision(argv[2], PCAP_TSTAMP_PRECISION_NANO, error);
	if (!pcap || pcap_datalink(pcap) != DLT_EN10MB) {
		fprintf(stderr, "libpcap_loop: %s\n", pcap ? "not Ethernet" : error);
		return 1;
	}
	flows = allocate(flow_slots, sizeof(*flows));
	senders = allocate(sender_slots, sizeof(*senders));
	active = allocate(sender_slots, sizeof(*active));
	while ((count = pcap_dispatch(pcap, -1, bins ? count_into_bins : count_only, NULL)) > 0)
		;
	if (count < 0) {
		fprintf(stderr, "libpcap_loop: %s\n", pcap_geterr(pcap));
		return 1;
	}
	if (bins) {
		close_bin();
		close_source_bin();
	}
	printf("{\"cpu_ns\": %lld, \"packets\": %llu, \"bytes\": %llu, \"wire_bytes\": %llu, "
	       "\"ce_packets\": %llu, \"retransmits\": %llu, \"bins\": %llu, \"senders\": %llu, "
	       "\"flows\": %llu}\n",
	       (long long)(cpu_ns() - start), (unsigned long long)total.packets, (unsigned long long)total.bytes,
	       (unsigned long long)total.wire_bytes, (unsigned long long)total.ce_packets,
	       (unsigned long long)total.retransmits, (unsigned long long)n_bin_rows, (unsigned long long)n_sender_rows,
	       (unsigned long long)total_flows);
	pcap_close(pcap);
	return 0;
}

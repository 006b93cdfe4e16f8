/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * Runs in the kernel for every frame: counts it into a bin and into an entry of its flow, and lets it go on. The build
 * compiles it with clang for eBPF; no C file includes it. It decodes as decode/ does, down to the outermost IP header
 * and the ports behind it; tests/capture/test_ebpf.py holds both to the same answers. A frame that it cannot read that
 * far counts for the MAC address that sent it.
 */
#include <linux/bpf.h>
#include <stdbool.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "backend/ebpf/layout.h"

#define inlined static inline __attribute__((always_inline))
#define likely(condition) __builtin_expect(!!(condition), 1)
#define unlikely(condition) __builtin_expect(!!(condition), 0)
#define NEXT_PROGRAM (-1) /* TCX_NEXT, and TC_ACT_UNSPEC */
#define HEADERS 192       /* bytes that are looked at */
#define TAGS 10           /* tags and labels before IP, in all */
#define EXTENSIONS 6      /* extension headers of IPv6 */

enum {
	ETHERNET = 14,
	SHORTEST = 60,
	OVERHEAD = 24,
	TYPE_IPV4 = 0x0800,
	TYPE_IPV6 = 0x86dd,
	TYPE_VLAN = 0x8100,
	TYPE_QINQ = 0x88a8,
	TYPE_QINQ_OLD = 0x9100,
	TYPE_MPLS = 0x8847,
	TYPE_MPLS_UPSTREAM = 0x8848,
	TYPE_PPPOE = 0x8864,
	LEAST_TYPE = 0x600,
	PPP_IPV4 = 0x0021,
	PPP_IPV6 = 0x0057,
	FAMILY_IPV4 = 4,
	FAMILY_IPV6 = 6,
	FAMILY_MAC = 48,
	PROTOCOL_HOPOPTS = 0,
	PROTOCOL_TCP = 6,
	PROTOCOL_UDP = 17,
	PROTOCOL_DCCP = 33,
	PROTOCOL_ROUTING = 43,
	PROTOCOL_FRAGMENT = 44,
	PROTOCOL_AH = 51,
	PROTOCOL_DSTOPTS = 60,
	PROTOCOL_SCTP = 132,
	PROTOCOL_UDPLITE = 136,
	PORT_ROCE = 4791,
	ROCE_HEADERS = 8 + 12, /* UDP's and InfiniBand's base transport header */
	ROCE_CNP = 0x81,
};

const volatile struct mb_ebpf_constants constants;

/* Set by user space at any time. */
volatile struct mb_ebpf_variables variables;

#define RING(name, what)                           \
	struct {                                   \
		__uint(type, BPF_MAP_TYPE_ARRAY);  \
		__uint(map_flags, BPF_F_MMAPABLE); \
		__uint(max_entries, 1);            \
		__type(key, __u32);                \
		__type(value, what);               \
	} name SEC(".maps")

RING(cursors, struct mb_ebpf_cursor);
RING(slots, struct mb_ebpf_slot);
RING(others, struct mb_ebpf_slot); /* what found no entry, by bin of sources */
RING(flows, struct mb_ebpf_flow);
RING(places, struct mb_ebpf_index);

/* Of all processors: flows move between them. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MB_EBPF_SEQUENCES);
	__type(key, __u32);
	__type(value, struct mb_ebpf_sequences);
} sequences SEC(".maps");

/* A frame at either hook: what of it can be read, and what is not in it. */
struct frame {
	const __u8 *data, *end;
	__u32 length;
	__u32 tag;      /* bytes of a tag that was taken out */
	__u32 gso_size; /* of a merged frame */
};

struct packet {
	__u64 hi, lo, flow;
	__u32 bytes, wire_bytes, ports, family;
	__u32 first, length; /* of TCP: its sequence number, and the sequence space that it takes */
	bool ce, cnp, merged;
};

/* What of the frame can be read, and where reading is. */
struct walk {
	const __u8 *data, *end;
	__u32 at;
	__u32 length; /* of the frame, without a tag that was taken out */
};

inlined const __u8 *peek(struct walk *walk, __u32 length)
{
	const __u8 *header;

	if (walk->at > HEADERS)
		return NULL;
	header = walk->data + walk->at;
	return header + length <= walk->end ? header : NULL;
}

inlined __u32 load16(const __u8 *bytes)
{
	return bpf_ntohs(*(const __u16 *)bytes);
}

inlined __u32 load32(const __u8 *bytes)
{
	return bpf_ntohl(*(const __u32 *)bytes);
}

inlined __u64 load64(const __u8 *bytes)
{
	return (__u64)load32(bytes) << 32 | load32(bytes + 4);
}

inlined __u64 mix(__u64 hash, __u64 word)
{
	hash = (hash ^ word) * constants.factor;
	return hash ^ hash >> 29;
}

inlined __u32 wire_bytes(__u32 l2)
{
	return (l2 < SHORTEST ? SHORTEST : l2) + OVERHEAD;
}

inlined __u32 read_label(struct walk *walk)
{
	const __u8 *label = peek(walk, 5);

	if (!label)
		return 0;
	walk->at += 4;
	if (!(label[2] & 1))
		return TYPE_MPLS;
	return label[4] >> 4 == 4 ? TYPE_IPV4 : label[4] >> 4 == 6 ? TYPE_IPV6 : 0;
}

/* A type field that holds a length announces IEEE 802.2. */
inlined __u32 read_llc(struct walk *walk)
{
	const __u8 *header = peek(walk, 8);
	__u32 oui;

	if (!header || load16(header) != 0xaaaa || header[2] != 0x03)
		return 0;
	oui = header[3] << 16 | load16(header + 4);
	walk->at += 8;
	return oui == 0x000000 || oui == 0x0000f8 ? load16(header + 6) : 0; /* RFC 1042, 802.1H */
}

/* Session data of version 1, type 1 (RFC 2516). */
inlined __u32 read_pppoe(struct walk *walk)
{
	const __u8 *header = peek(walk, 8);

	if (!header || load16(header) != 0x1100)
		return 0;
	walk->at += 8;
	return load16(header + 6) == PPP_IPV4 ? TYPE_IPV4 : load16(header + 6) == PPP_IPV6 ? TYPE_IPV6 : 0;
}

/* The verifier follows every way that a frame can be read in, unless it has seen one as general: make it forget where
 * exactly reading is, or it takes a second. */
inlined void forget_position(struct walk *walk)
{
	walk->at = (walk->at + variables.zero) & 0xff;
}

/* Step over tags, labels and shims. Returns the Ethernet type behind them, 0 where none is known. */
inlined __u32 read_tags(struct walk *walk, __u32 type)
{
	for (int i = 0; i < TAGS; i++) {
		const __u8 *tag;

		if (type == TYPE_VLAN || type == TYPE_QINQ || type == TYPE_QINQ_OLD) {
			tag = peek(walk, 4);
			if (!tag)
				return 0;
			type = load16(tag + 2);
			walk->at += 4;
		} else if (type == TYPE_MPLS || type == TYPE_MPLS_UPSTREAM) {
			type = read_label(walk);
		} else if (type == TYPE_PPPOE) {
			type = read_pppoe(walk);
		} else if (type && type < LEAST_TYPE) {
			type = read_llc(walk);
		} else {
			break;
		}
		forget_position(walk);
	}
	return type;
}

/* What a segment takes of its flow's sequence space; LENGTH bytes of it are in the IP packet. Where its payload begins. */
inlined __u32 read_tcp(struct walk *walk, struct packet *packet, __u32 length)
{
	const __u8 *header = peek(walk, 14);
	__u32 header_length;

	if (!header)
		return 0;
	header_length = (header[12] >> 4) * 4;
	if (header_length < 20 || header_length > length || length > walk->length - walk->at)
		return walk->at + header_length;
	packet->first = load32(header + 4);
	packet->length = length - header_length + (((header[13] & 3) + 1) >> 1); /* SYN, FIN */
	return walk->at + header_length;
}

/* Ports, notifications, and where the payload begins that was cut into segments (0: nowhere known). */
inlined __u32 read_transport(struct walk *walk, struct packet *packet, __u32 protocol, __u32 length)
{
	const __u8 *header;

	if (protocol != PROTOCOL_TCP && protocol != PROTOCOL_UDP && protocol != PROTOCOL_DCCP &&
	    protocol != PROTOCOL_SCTP && protocol != PROTOCOL_UDPLITE)
		return 0;
	header = peek(walk, 4);
	if (!header)
		return 0;
	packet->ports = load32(header);
	if (protocol == PROTOCOL_TCP)
		return read_tcp(walk, packet, length);
	if (protocol != PROTOCOL_UDP)
		return 0;
	if (unlikely((packet->ports & 0xffff) == PORT_ROCE) && length >= ROCE_HEADERS) {
		header = peek(walk, 9);
		packet->cnp = header && header[8] == ROCE_CNP;
	}
	return walk->at + 8;
}

inlined __u32 read_ipv4(struct walk *walk, struct packet *packet)
{
	const __u8 *header = peek(walk, 20);
	__u32 protocol, length, header_length, payload = 0;

	if (!header || header[0] >> 4 != 4 || (header[0] & 0xf) < 5)
		return 0;
	header_length = (header[0] & 0xf) * 4;
	length = load16(header + 2);
	protocol = header[9];
	packet->family = FAMILY_IPV4;
	packet->lo = 0xffffull << 32 | load32(header + 12);
	packet->ce = (header[1] & 3) == 3;
	packet->flow = mix(constants.seed, load64(header + 12));
	if (!(load16(header + 6) & 0x3fff)) {
		length = length ? length : walk->length - walk->at;
		walk->at += header_length;
		length -= header_length;
		if (unlikely(protocol == PROTOCOL_AH)) {
			header = peek(walk, 2);
			if (!header)
				return 0;
			protocol = header[0];
			walk->at += header[1] * 4u + 8;
			length -= header[1] * 4u + 8;
		}
		payload = read_transport(walk, packet, protocol, length);
	}
	packet->flow = mix(packet->flow, (__u64)FAMILY_IPV4 << 40 | (__u64)protocol << 32 | packet->ports);
	return payload;
}

/* Step over extension headers. Returns the protocol behind them; FRAGMENT set where it is one. */
inlined __u32 skip_extensions(struct walk *walk, __u32 protocol, bool *fragment)
{
	for (int i = 0; i < EXTENSIONS; i++) {
		const __u8 *header;

		if (protocol != PROTOCOL_HOPOPTS && protocol != PROTOCOL_ROUTING && protocol != PROTOCOL_DSTOPTS &&
		    protocol != PROTOCOL_AH && protocol != PROTOCOL_FRAGMENT)
			break;
		header = peek(walk, 8);
		if (!header) {
			*fragment = true; /* nothing to read behind it, likewise */
			break;
		}
		if (protocol == PROTOCOL_FRAGMENT) {
			*fragment = load16(header + 2) & 0xfff9;
			protocol = header[0];
			walk->at += 8;
			if (*fragment)
				break;
			continue;
		}
		walk->at += protocol == PROTOCOL_AH ? header[1] * 4u + 8 : header[1] * 8u + 8;
		if (walk->at > HEADERS) {
			*fragment = true; /* behind what is looked at, likewise */
			break;
		}
		protocol = header[0];
	}
	return protocol;
}

inlined __u32 read_ipv6(struct walk *walk, struct packet *packet)
{
	const __u8 *header = peek(walk, 40);
	__u32 protocol, length, payload = 0, start;
	bool fragment = false;

	if (!header || header[0] >> 4 != 6)
		return 0;
	protocol = header[6];
	length = load16(header + 4);
	packet->family = FAMILY_IPV6;
	packet->hi = load64(header + 8);
	packet->lo = load64(header + 16);
	packet->ce = (header[1] >> 4 & 3) == 3;
	packet->flow = mix(mix(constants.seed, packet->hi), packet->lo);
	packet->flow = mix(mix(packet->flow, load64(header + 24)), load64(header + 32));
	walk->at += 40;
	start = walk->at;
	protocol = skip_extensions(walk, protocol, &fragment);
	if (!fragment)
		payload = read_transport(walk, packet, protocol,
					 length ? length - (walk->at - start) : walk->length - walk->at);
	packet->flow = mix(packet->flow, (__u64)FAMILY_IPV6 << 40 | (__u64)protocol << 32 | packet->ports);
	return payload;
}

/* Have the headers in one piece, where DATA can be read. */
inlined void reach_headers(struct __sk_buff *skb)
{
	__u32 length = skb->len < HEADERS ? skb->len : HEADERS;

	if (unlikely((__u64)skb->data + length > (__u64)skb->data_end))
		bpf_skb_pull_data(skb, length);
}

/* Wire bytes of the segments that a merged frame stands for: all headers with each. As mb_merged_wire_bytes(). */
inlined void divide(struct packet *packet, __u32 offset, __u32 size)
{
	__u32 payload, full;

	if (!offset || offset >= packet->bytes || !size)
		return;
	payload = packet->bytes - offset;
	if (payload <= size)
		return;
	full = (payload - 1) / size;
	packet->merged = true;
	packet->wire_bytes = full * wire_bytes(offset + size) + wire_bytes(offset + (payload - full * size));
}

/* False for what is no frame of Ethernet. */
inlined bool read_packet(const struct frame *frame, struct packet *packet)
{
	struct walk walk = { .data = frame->data, .end = frame->end, .length = frame->length };
	const __u8 *header;
	__u32 type, payload = 0;

	packet->bytes = frame->length + frame->tag;
	packet->wire_bytes = wire_bytes(packet->bytes);
	header = peek(&walk, ETHERNET);
	if (!header)
		return false;
	packet->lo = (__u64)load16(header + 6) << 32 | load32(header + 8);
	packet->family = FAMILY_MAC;
	walk.at = ETHERNET;
	type = read_tags(&walk, load16(header + 12));
	if (type == TYPE_IPV4)
		payload = read_ipv4(&walk, packet);
	else if (type == TYPE_IPV6)
		payload = read_ipv6(&walk, packet);
	if (!packet->flow)
		packet->flow = mix(mix(constants.seed, packet->lo), FAMILY_MAC);
	packet->flow += !packet->flow;
	if (unlikely(frame->gso_size))
		divide(packet, payload ? payload + frame->tag : 0, frame->gso_size);
	return true;
}

inlined struct mb_ebpf_slot *slot_of(void *ring, __u32 at, __u32 mask, __u64 number)
{
	__u32 key = at * (mask + 1) + ((__u32)number & mask);

	return bpf_map_lookup_elem(ring, &key);
}

/* Begin bin NUMBER. Before anything of the slot changes, the cursor says so: a reader that copied it looks there
 * afterwards. */
inlined struct mb_ebpf_slot *begin(struct mb_ebpf_slot *slot, volatile __u64 *newest, __u64 *before, __u32 packets,
				   __u64 number)
{
	__u64 back = number - *newest;

	*before += packets;
	*newest = number;
	*(volatile __u64 *)&slot->number = 0;
	barrier();
	slot->back = back > 0xffffffffu ? 0xffffffffu : (__u32)back;
	slot->retransmits = 0;
	slot->before = *before;
	slot->bytes = slot->wire_bytes = 0;
	slot->packets = slot->ce_packets = slot->merged = slot->cnp_packets = 0;
	slot->first = slot->last = 0;
	barrier();
	*(volatile __u64 *)&slot->number = number;
	return slot;
}

/* The slot of a RING for STAMP, begun where it is new. *OFFSET is the stamp's in it. */
inlined struct mb_ebpf_slot *reach(void *ring, __u32 at, __u32 mask, __u64 *newest, __u64 *before, __u64 stamp,
				   __u64 width, __u32 *offset)
{
	struct mb_ebpf_slot *slot = slot_of(ring, at, mask, *newest);
	__u64 start = *newest * width, number;
	__u32 packets;

	if (!slot)
		return NULL;
	*offset = (__u32)(stamp - start);
	if (stamp - start < width)
		return slot;
	if (unlikely(stamp < start)) { /* time does not go back; its phase may */
		*offset = 0;
		return slot;
	}
	number = stamp / width;
	*offset = (__u32)(stamp - number * width);
	packets = slot->packets;
	slot = slot_of(ring, at, mask, number);
	return slot ? begin(slot, newest, before, packets, number) : NULL;
}

inlined void add_to_slot(struct mb_ebpf_slot *slot, const struct packet *packet, __u32 offset)
{
	if (!slot->packets)
		slot->first = offset;
	if (offset > slot->last)
		slot->last = offset;
	slot->bytes += packet->bytes;
	slot->wire_bytes += packet->wire_bytes;
	slot->ce_packets += packet->ce;
	slot->merged += packet->merged;
	slot->cnp_packets += packet->cnp;
	slot->packets++;
}

/* What is known of a flow of TCP that has TAG, begun with FIRST where that is nothing. */
inlined __u64 *find_sequence(struct mb_ebpf_sequences *found, __u32 tag, __u32 first)
{
	__u64 newer = found->ways[0], older = found->ways[1];

	if (likely(newer >> 32 == tag))
		return &found->ways[0];
	found->ways[1] = newer;
	found->ways[0] = older >> 32 == tag ? older : (__u64)tag << 32 | first;
	return &found->ways[0];
}

/* Whether a segment repeats sequence space that its flow has sent: as mb_sequence_back() says. */
inlined bool goes_back(const struct packet *packet)
{
	const __u32 key = (__u32)(packet->flow >> 32) & (MB_EBPF_SEQUENCES - 1), tag = (__u32)packet->flow | 1;
	const __u32 end = packet->first + packet->length;
	struct mb_ebpf_sequences *found = bpf_map_lookup_elem(&sequences, &key);
	__u64 *sequence;
	__u32 next;
	bool back;

	if (!found)
		return false;
	sequence = find_sequence(found, tag, packet->first);
	next = (__u32)*sequence;
	if (packet->length == 1 && end == next) /* a keep-alive */
		return false;
	back = (__s32)(packet->first - next) < 0;
	if (!back || (__s32)(end - next) > 0)
		*sequence = (__u64)tag << 32 | end;
	return back;
}

inlined void add_to_flow(struct mb_ebpf_flow *flow, const struct packet *packet, __u32 offset)
{
	flow->bytes += packet->bytes;
	flow->packets++;
	flow->cnp_packets += packet->cnp;
	flow->last = offset;
}

inlined struct mb_ebpf_flow *entry_at(__u32 at, __u64 position)
{
	__u32 key = at * (constants.flows_mask + 1) + ((__u32)position & constants.flows_mask);

	return bpf_map_lookup_elem(&flows, &key);
}

/* The entry of the packet's flow, a new one where the index does not lead to it. NULL where there is no room. */
inlined struct mb_ebpf_flow *find_flow(struct mb_ebpf_cursor *cursor, __u32 at, const struct packet *packet,
				       __u32 offset)
{
	__u32 key = at * (constants.places_mask + 1) + ((__u32)(packet->flow >> 32) & constants.places_mask);
	struct mb_ebpf_index *place = bpf_map_lookup_elem(&places, &key);
	struct mb_ebpf_flow *flow;

	if (!place)
		return NULL;
	if (place->bin == (__u32)cursor->source_bin) {
		flow = entry_at(at, place->at);
		if (flow && flow->flow == packet->flow && flow->lo == packet->lo && flow->hi == packet->hi &&
		    flow->number == cursor->source_bin)
			return flow;
	}
	if (cursor->logged - *(volatile __u64 *)&cursor->taken > constants.flows_mask)
		return NULL;
	flow = entry_at(at, cursor->logged);
	if (!flow)
		return NULL;
	*flow = (struct mb_ebpf_flow){
		.number = cursor->source_bin,
		.flow = packet->flow,
		.hi = packet->hi,
		.lo = packet->lo,
		.first = offset,
		.ports = packet->ports,
		.family = packet->family,
	};
	place->bin = (__u32)cursor->source_bin;
	place->at = (__u32)cursor->logged;
	barrier();
	*(volatile __u64 *)&cursor->logged = cursor->logged + 1;
	return flow;
}

inlined void add_to_sources(struct mb_ebpf_cursor *cursor, __u32 at, const struct packet *packet, __u64 stamp)
{
	__u64 start = cursor->source_bin * constants.source_bin_ns;
	struct mb_ebpf_flow *flow;
	struct mb_ebpf_slot *other;
	__u32 offset;

	if (stamp > start && stamp - start >= constants.source_bin_ns) {
		cursor->source_bin = stamp / constants.source_bin_ns;
		start = cursor->source_bin * constants.source_bin_ns;
	}
	offset = stamp > start ? (__u32)(stamp - start) : 0;
	flow = find_flow(cursor, at, packet, offset);
	if (flow) {
		add_to_flow(flow, packet, offset);
		return;
	}
	other = reach(&others, at, constants.others_mask, &cursor->other, &cursor->others_before, stamp,
		      constants.source_bin_ns, &offset);
	if (other)
		add_to_slot(other, packet, offset);
}

inlined __u64 now(void)
{
	return bpf_ktime_get_ns() + variables.phase;
}

inlined void count(const struct frame *frame, __u32 side, __u64 stamp)
{
	const __u32 at = bpf_get_smp_processor_id() * MB_EBPF_SIDES + side;
	struct mb_ebpf_cursor *cursor = bpf_map_lookup_elem(&cursors, &at);
	struct packet packet = { 0 };
	struct mb_ebpf_slot *slot;
	__u32 offset;

	if (!cursor || !read_packet(frame, &packet))
		return;
	slot = reach(&slots, at, constants.slots_mask, &cursor->bin, &cursor->before, stamp, constants.bin_ns, &offset);
	if (slot) {
		add_to_slot(slot, &packet, offset);
		if (packet.length)
			slot->retransmits += goes_back(&packet);
	}
	add_to_sources(cursor, at, &packet, stamp);
}

inlined int count_buffer(struct __sk_buff *skb, __u32 side)
{
	const __u64 stamp = now();
	struct frame frame;

	reach_headers(skb);
	frame = (struct frame){
		.data = (const __u8 *)(long)skb->data,
		.end = (const __u8 *)(long)skb->data_end,
		.length = skb->len,
		.tag = skb->vlan_present ? 4 : 0,
		.gso_size = skb->gso_size,
	};
	count(&frame, side, stamp);
	return NEXT_PROGRAM;
}

SEC("tc")
int count_arriving(struct __sk_buff *skb)
{
	return count_buffer(skb, 0);
}

SEC("tc")
int count_leaving(struct __sk_buff *skb)
{
	return count_buffer(skb, 1);
}

/* Before there is a buffer: as the frame came, not merged. */
SEC("xdp.frags")
int count_received(struct xdp_md *context)
{
	const struct frame frame = {
		.data = (const __u8 *)(long)context->data,
		.end = (const __u8 *)(long)context->data_end,
		.length = (__u32)bpf_xdp_get_buff_len(context),
	};

	count(&frame, 0, now());
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";

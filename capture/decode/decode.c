/* SPDX-License-Identifier: Apache-2.0
 *
 * There are two paths to the same result, and tests/capture/test_decode_agrees.py verifies that they agree. The usual
 * frame (Ethernet, at most one tag, IP without options or fragments, TCP or UDP, not merged, consistent) takes the fast
 * path, with one load for each word that is needed. Every other frame is walked header by header.
 */
#include "decode/decode.h"

#include "compiler.h"
#include "decode/walk.h"
#include "linktype.h"

/* Decode TCP or UDP behind an IP header of IP_HEADER bytes; LENGTH includes that header. Returns the tail of the
 * fingerprint; 0 for any other protocol and for inconsistent lengths. */
static mb_inline uint64_t usual_transport(const uint8_t *ip, uint32_t ip_header, enum mb_family family,
					  uint8_t protocol, uint32_t length, uint32_t marks, bool inner,
					  struct mb_packet *restrict packet)
{
	const uint8_t *transport = ip + ip_header;
	uint32_t header;

	if (protocol == MB_IPPROTO_TCP) {
		header = transport[12] >> 2 & 0x3c;
		if (mb_unlikely(header < 20 || ip_header + header > length))
			return 0;
		packet->tcp_seq = mb_be32(transport + 4);
		packet->tcp_len = length - ip_header - header + (((transport[13] & 3u) + 1) >> 1); /* SYN, FIN */
		packet->marks = (uint8_t)(marks | MB_MARK_TCP);
		packet->ports = mb_be32(transport);
		return mb_flow_tail(packet->ports, MB_IPPROTO_TCP, family);
	}
	if (mb_unlikely(protocol != MB_IPPROTO_UDP || inner || length < ip_header + 8))
		return 0;
	packet->tcp_seq = 0;
	packet->tcp_len = 0;
	packet->marks = (uint8_t)marks;
	packet->ports = mb_be32(transport);
	if (mb_unlikely((uint16_t)packet->ports == MB_PORT_ROCE) && length >= ip_header + 8 + MB_ROCE_HEADER &&
	    mb_is_cnp(transport[8]))
		packet->marks |= MB_MARK_CNP;
	return mb_flow_tail(packet->ports, MB_IPPROTO_UDP, family);
}

static mb_inline bool usual_ipv4(const uint8_t *ip, uint32_t available, const struct mb_decode_options *options,
				 struct mb_packet *restrict packet)
{
	uint64_t head = mb_be64(ip), addresses, tail;
	uint32_t length = head >> 32 & 0xffff;
	uint32_t ce = mb_is_ce((uint32_t)(head >> 48));

	/* version 4 and 20 bytes of header; no further fragments, no offset */
	if (mb_unlikely((head & 0xff00000000003fff) != 0x4500000000000000 || length > available))
		return false;
	tail = usual_transport(ip, 20, MB_FAMILY_IPV4, ip[9], length, ce, options->inner, packet);
	if (mb_unlikely(!tail))
		return false;
	addresses = mb_be64(ip + 12);
	packet->source.hi = 0;
	packet->source.lo = MB_IPV4_MAPPED | addresses >> 32;
	packet->source.family = MB_FAMILY_IPV4;
	packet->flow = mb_flow_ipv4(addresses, tail, &options->seed);
	return true;
}

static mb_inline bool usual_ipv6(const uint8_t *ip, uint32_t available, const struct mb_decode_options *options,
				 struct mb_packet *restrict packet)
{
	struct mb_address destination;
	uint64_t head = mb_be64(ip), tail;
	uint32_t length = (head >> 16 & 0xffff) + 40;
	uint32_t ce = mb_is_ce((uint32_t)(head >> 52));

	if (mb_unlikely(head >> 60 != 6 || length > available))
		return false;
	tail = usual_transport(ip, 40, MB_FAMILY_IPV6, ip[6], length, ce, options->inner, packet);
	if (mb_unlikely(!tail))
		return false;
	packet->source.hi = mb_be64(ip + 8);
	packet->source.lo = mb_be64(ip + 16);
	packet->source.family = MB_FAMILY_IPV6;
	destination.hi = mb_be64(ip + 24);
	destination.lo = mb_be64(ip + 32);
	packet->flow = mb_flow_ipv6(&packet->source, &destination, tail, &options->seed);
	return true;
}

/* Bytes that must be in memory, from the IP header to TCP's flags, before the fast path reads any. */
enum { USUAL_IPV4 = 20 + 14, USUAL_IPV6 = 40 + 14 };

/* Values that mb_decode() keeps in registers. */
struct common {
	const struct mb_interface *interface;
	const struct mb_decode_options *options;
	uint32_t fcs_len;
	uint32_t largest; /* largest IP packet that is surely not merged */
};

/* Decode the IP packet that NEXT announces at offset L3, with USUAL_IPV4 bytes of it in memory. Returns false if it is
 * not a usual one. BYTES may be less than L3 and wrap around zero: it is then too large. */
static mb_inline bool usual_ip(const struct mb_frame *restrict frame, uint32_t l3, uint32_t next, uint32_t bytes,
			       const struct common *common, struct mb_packet *restrict packet)
{
	const uint8_t *ip = frame->data + l3;
	uint32_t available = bytes - l3;

	if (mb_unlikely(available > common->largest || frame->gso_size))
		return false;
	if (next == MB_NEXT_IPV4)
		return usual_ipv4(ip, available, common->options, packet);
	if (next == MB_NEXT_IPV6 && frame->caplen >= l3 + USUAL_IPV6)
		return usual_ipv6(ip, available, common->options, packet);
	return false;
}

static mb_inline bool usual_ethernet(const struct mb_frame *restrict frame, const struct common *common,
				     struct mb_packet *restrict packet)
{
	enum { TAGGED_HEADER = MB_ETHERNET_HEADER + MB_VLAN_TAG };
	const uint8_t *data = frame->data;
	uint32_t bytes = frame->len - common->fcs_len;

	if (mb_unlikely(frame->caplen < TAGGED_HEADER + USUAL_IPV4))
		return false;
	packet->ts_ns = frame->ts_ns;
	packet->bytes = bytes;
	packet->wire_bytes = (uint32_t)mb_wire_bytes(bytes);
	packet->quality = 0;
	packet->direction = frame->direction;
	/* twice, so that each has constant offsets */
	if (mb_be16(data + 12) == MB_NEXT_VLAN)
		return usual_ip(frame, TAGGED_HEADER, mb_be16(data + 16), bytes, common, packet);
	return usual_ip(frame, MB_ETHERNET_HEADER, mb_be16(data + 12), bytes, common, packet);
}

static void walk_init(struct mb_walk *walk, const struct mb_frame *frame, const struct mb_interface *interface)
{
	walk->data = frame->data;
	walk->offset = 0;
	walk->end = mb_frame_bytes(frame, interface->fcs_len);
	walk->visible = frame->caplen < walk->end ? frame->caplen : walk->end;
	walk->marks = 0;
	walk->seed = NULL;
}

static void read_to_ip(const struct mb_frame *frame, const struct mb_interface *interface, const struct mb_seed *seed,
		       struct mb_headers *headers)
{
	struct mb_walk *walk = &headers->walk;
	uint32_t next;

	walk_init(walk, frame, interface);
	walk->seed = seed;
	headers->bytes = walk->end;
	next = mb_link_read(walk, interface, &headers->link);
	headers->control = next == MB_NEXT_MAC_CONTROL ? walk->offset : 0;
	headers->next = mb_walk_to_ip(walk, next);
	headers->l3 = walk->offset;
}

static void read_ip(const struct mb_frame *frame, const struct common *common, struct mb_headers *headers,
		    struct mb_packet *packet)
{
	const struct mb_ip *ip = &headers->ip;
	uint32_t marks = 0, merged;

	headers->has_ip = mb_ip_read(&headers->walk, headers->next, &headers->ip);
	merged = mb_merged_wire_bytes(headers, frame->gso_size, common->options, &marks);
	if (merged) {
		marks |= MB_MARK_MERGED;
		packet->wire_bytes = merged;
	}
	if (common->options->inner && headers->has_ip)
		mb_tunnel_descend(&headers->walk, &headers->ip);
	packet->source = headers->has_ip ? ip->source : headers->link.sender;
	packet->flow = ip->flow;
	packet->ports = ip->ports;
	packet->tcp_seq = ip->tcp_seq;
	packet->tcp_len = ip->tcp_len;
	if (headers->control && mb_pause_read(&headers->walk, packet))
		marks |= MB_MARK_PAUSE;
	packet->marks = (uint8_t)(marks | headers->walk.marks | ip->marks);
}

static __attribute__((noinline)) void decode_any(const struct mb_frame *frame, const struct common *common,
						 struct mb_packet *packet)
{
	struct mb_headers headers;

	read_to_ip(frame, common->interface, &common->options->seed, &headers);
	packet->ts_ns = frame->ts_ns;
	packet->bytes = headers.bytes;
	packet->wire_bytes = mb_link_wire_bytes(headers.bytes, headers.link.header);
	packet->quality = 0;
	packet->direction = headers.link.direction ? headers.link.direction : frame->direction;
	if (headers.l3 + USUAL_IPV4 > frame->caplen ||
	    !usual_ip(frame, headers.l3, headers.next, headers.bytes, common, packet))
		read_ip(frame, common, &headers, packet);
}

void mb_decode(const struct mb_frame *frames, uint32_t count, const struct mb_interface *interface,
	       const struct mb_decode_options *options, struct mb_packet *packets)
{
	const struct common common = {
		.interface = interface,
		.options = options,
		.fcs_len = interface->fcs_len,
		.largest = options->mtu && options->mtu < UINT16_MAX ? options->mtu : UINT16_MAX,
	};

	if (interface->linktype != MB_LINKTYPE_ETHERNET) {
		for (uint32_t i = 0; i < count; i++)
			decode_any(&frames[i], &common, &packets[i]);
		return;
	}
	for (uint32_t i = 0; i < count; i++)
		if (mb_unlikely(!usual_ethernet(&frames[i], &common, &packets[i])))
			decode_any(&frames[i], &common, &packets[i]);
}

bool mb_decode_macs(const struct mb_frame *frame, const struct mb_interface *interface, uint64_t *sender,
		    uint64_t *receiver)
{
	struct mb_walk walk;
	struct mb_link link;

	walk_init(&walk, frame, interface);
	mb_link_read(&walk, interface, &link);
	*sender = link.sender.lo;
	*receiver = link.receiver;
	return link.sender.family == MB_FAMILY_MAC;
}

/* The same for Ethernet with at most one tag, without a walk. Returns false if it is another frame. */
static bool usual_destination(const struct mb_frame *frame, uint32_t visible, struct mb_address *destination)
{
	const uint8_t *ip = frame->data + MB_ETHERNET_HEADER;

	if (visible < MB_ETHERNET_HEADER + 4 + 40)
		return false;
	if (mb_be16(ip - 2) == MB_NEXT_VLAN)
		ip += 4;
	if (mb_be16(ip - 2) == MB_NEXT_IPV4 && ip[0] == 0x45)
		*destination = (struct mb_address){ .lo = MB_IPV4_MAPPED | mb_be32(ip + 16), .family = MB_FAMILY_IPV4 };
	else if (mb_be16(ip - 2) == MB_NEXT_IPV6 && ip[0] >> 4 == 6)
		*destination = (struct mb_address){ mb_be64(ip + 24), mb_be64(ip + 32), MB_FAMILY_IPV6 };
	else
		return false;
	return true;
}

bool mb_decode_destination(const struct mb_frame *frame, const struct mb_interface *interface,
			   const struct mb_decode_options *options, struct mb_address *destination)
{
	const uint32_t bytes = mb_frame_bytes(frame, interface->fcs_len);
	struct mb_headers headers;

	if (interface->linktype == MB_LINKTYPE_ETHERNET && !options->inner &&
	    usual_destination(frame, frame->caplen < bytes ? frame->caplen : bytes, destination))
		return true;
	read_to_ip(frame, interface, &options->seed, &headers);
	if (!mb_ip_read(&headers.walk, headers.next, &headers.ip))
		return false;
	if (options->inner)
		mb_tunnel_descend(&headers.walk, &headers.ip);
	*destination = headers.ip.destination;
	return true;
}

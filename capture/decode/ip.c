/* SPDX-License-Identifier: Apache-2.0
 *
 * IPv4 (RFC 791), IPv6 and its extension headers (RFC 8200, 2675, 4302), ECN (RFC 3168),
 * TCP (RFC 9293).
 */
#include "decode/walk.h"

/* End the walk where the IP header says that the packet ends. A length beyond the frame is a contradiction. */
static void end_packet(struct mb_walk *walk, uint64_t length)
{
	uint32_t available = walk->end - walk->offset;

	if (length > available) {
		walk->marks |= MB_MARK_UNPARSED;
		return;
	}
	walk->end = walk->offset + (uint32_t)length;
}

/* Skip an extension header of UNIT × its length field + BIAS bytes. */
static bool skip_extension(struct mb_walk *walk, struct mb_ip *ip, uint32_t unit, uint32_t bias)
{
	const uint8_t *header = mb_walk_peek(walk, 2);

	if (!header || !mb_walk_skip(walk, header[1] * unit + bias))
		return false;
	ip->protocol = header[0];
	return true;
}

static bool skip_authentication(struct mb_walk *walk, struct mb_ip *ip)
{
	return skip_extension(walk, ip, 4, 8);
}

static bool read_ipv4(struct mb_walk *walk, struct mb_ip *ip)
{
	const uint8_t *header = mb_walk_peek(walk, 20);
	uint32_t header_length, length;

	if (!header)
		return false;
	header_length = (header[0] & 0xf) * 4u;
	if (header[0] >> 4 != 4 || header_length < 20) {
		walk->marks |= MB_MARK_UNPARSED;
		return false;
	}
	ip->source = (struct mb_address){ .lo = MB_IPV4_MAPPED | mb_be32(header + 12), .family = MB_FAMILY_IPV4 };
	ip->destination = (struct mb_address){ .lo = MB_IPV4_MAPPED | mb_be32(header + 16), .family = MB_FAMILY_IPV4 };
	ip->protocol = header[9];
	ip->fragment = mb_be16(header + 6) & 0x3fff; /* more fragments follow, or it is not the first */
	if (mb_is_ce(header[1]))
		ip->marks |= MB_MARK_CE;

	length = mb_be16(header + 2);
	if (length && length < header_length)
		walk->marks |= MB_MARK_UNPARSED;
	else if (length) /* 0: segmentation offload, the length is that of the frame */
		end_packet(walk, length);
	if (!mb_walk_skip(walk, header_length))
		return true;
	if (!ip->fragment && ip->protocol == MB_IPPROTO_AH && !skip_authentication(walk, ip))
		return true;
	ip->transport = walk->offset;
	return true;
}

/* The payload length in a jumbo payload option of the hop-by-hop header (RFC 2675), counted from the end of the IPv6
 * header; 0 if there is none. */
static uint32_t read_jumbo(struct mb_walk *walk)
{
	enum { PAD1 = 0, JUMBO = 0xc2 };
	const uint8_t *header = mb_walk_peek(walk, 2);
	uint32_t length, at = 2;

	if (!header)
		return 0;
	length = header[1] * 8u + 8;
	header = mb_walk_peek(walk, length);
	if (!header)
		return 0;
	while (at + 2 <= length) {
		if (header[at] == PAD1) {
			at++;
			continue;
		}
		if (header[at] == JUMBO && header[at + 1] == 4 && at + 6 <= length)
			return mb_be32(header + at + 2);
		at += 2u + header[at + 1];
	}
	return 0;
}

/* Returns false if the chain was cut off or contradicts itself. */
static bool skip_extensions(struct mb_walk *walk, struct mb_ip *ip)
{
	const uint8_t *header;

	for (;;) {
		switch (ip->protocol) {
		case MB_IPPROTO_HOPOPTS:
		case MB_IPPROTO_ROUTING:
		case MB_IPPROTO_DSTOPTS:
			if (!skip_extension(walk, ip, 8, 8))
				return false;
			break;
		case MB_IPPROTO_AH:
			if (!skip_authentication(walk, ip))
				return false;
			break;
		case MB_IPPROTO_FRAGMENT:
			header = mb_walk_peek(walk, 8);
			if (!header)
				return false;
			walk->offset += 8;
			ip->protocol = header[0];
			ip->fragment = mb_be16(header + 2) & 0xfff9;
			if (ip->fragment) /* only the first fragment has the rest of the chain */
				return true;
			break;
		default:
			return true;
		}
	}
}

static bool read_ipv6(struct mb_walk *walk, struct mb_ip *ip)
{
	const uint8_t *header = mb_walk_peek(walk, 40);
	uint32_t length;

	if (!header)
		return false;
	if (header[0] >> 4 != 6) {
		walk->marks |= MB_MARK_UNPARSED;
		return false;
	}
	ip->source = (struct mb_address){ mb_be64(header + 8), mb_be64(header + 16), MB_FAMILY_IPV6 };
	ip->destination = (struct mb_address){ mb_be64(header + 24), mb_be64(header + 32), MB_FAMILY_IPV6 };
	ip->protocol = header[6];
	if (mb_is_ce(mb_be16(header) >> 4u))
		ip->marks |= MB_MARK_CE;

	walk->offset += 40;
	length = mb_be16(header + 4);
	if (!length && ip->protocol == MB_IPPROTO_HOPOPTS)
		length = read_jumbo(walk);
	if (length || ip->protocol == MB_IPPROTO_NONE)
		end_packet(walk, length); /* else segmentation offload, the length is that of the frame */
	if (skip_extensions(walk, ip))
		ip->transport = walk->offset;
	return true;
}

static void read_tcp(struct mb_walk *walk, struct mb_ip *ip)
{
	enum { FIN = 1, SYN = 2 };
	const uint8_t *header = mb_walk_peek(walk, 14); /* up to the flags */
	uint32_t header_length;

	if (!header)
		return;
	header_length = (header[12] >> 4) * 4u;
	if (header_length < 20 || header_length > walk->end - walk->offset) {
		walk->marks |= MB_MARK_UNPARSED;
		return;
	}
	ip->payload = walk->offset + header_length;
	if (walk->marks & MB_MARK_UNPARSED) /* the length cannot be trusted */
		return;
	ip->tcp_seq = mb_be32(header + 4);
	ip->tcp_len = walk->end - ip->payload + !!(header[13] & SYN) + !!(header[13] & FIN);
	ip->marks |= MB_MARK_TCP;
}

/* Returns source port << 16 | destination port; 0 if there are none to read. */
static uint32_t read_transport(struct mb_walk *walk, struct mb_ip *ip)
{
	const uint8_t *header;

	switch (ip->protocol) {
	case MB_IPPROTO_TCP:
	case MB_IPPROTO_UDP:
	case MB_IPPROTO_DCCP:
	case MB_IPPROTO_SCTP:
	case MB_IPPROTO_UDPLITE:
		break;
	default:
		return 0;
	}
	header = mb_walk_peek(walk, 4);
	if (ip->protocol == MB_IPPROTO_UDP && walk->end - walk->offset >= 8)
		ip->payload = walk->offset + 8;
	if (!header)
		return 0;
	if (ip->protocol == MB_IPPROTO_UDP) {
		ip->destination_port = mb_be16(header + 2);
		if (ip->destination_port == MB_PORT_ROCE)
			ip->marks |= mb_cnp_read(walk);
	}
	if (ip->protocol == MB_IPPROTO_TCP)
		read_tcp(walk, ip);
	return mb_be32(header);
}

bool mb_ip_read(struct mb_walk *walk, uint32_t next, struct mb_ip *ip)
{
	uint64_t tail;

	memset(ip, 0, sizeof(*ip));
	if (next == MB_NEXT_IPV4 ? !read_ipv4(walk, ip) : next != MB_NEXT_IPV6 || !read_ipv6(walk, ip))
		return false;
	if (ip->transport && !ip->fragment)
		ip->ports = read_transport(walk, ip);
	tail = mb_flow_tail(ip->ports, ip->protocol, ip->source.family);
	if (next == MB_NEXT_IPV4)
		ip->flow = mb_flow_ipv4(ip->source.lo << 32 | (uint32_t)ip->destination.lo, tail, walk->seed);
	else
		ip->flow = mb_flow_ipv6(&ip->source, &ip->destination, tail, walk->seed);
	return true;
}

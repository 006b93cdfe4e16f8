/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * From an IP header in the kernel to its payload, as in decode/tunnel.c, except rare tunnels: GRE with source routes
 * (RFC 1701), PPTP's (RFC 2637), WCCP. These are not decoded.
 */
#ifndef MB_EBPF_TUNNEL_H
#define MB_EBPF_TUNNEL_H

#include "backend/ebpf/decode.bpf.h"

#define TUNNELS 2 /* most nested tunnels */

/* The version in the first four bits. */
inlined __u32 type_of_ip(struct walk *walk)
{
	const __u8 *header = within(walk, 1);

	if (!header)
		return 0;
	return header[0] >> 4 == 4 ? MB_NEXT_IPV4 : header[0] >> 4 == 6 ? MB_NEXT_IPV6 : 0;
}

/* Types II and III; type I has no header. */
inlined __u32 enter_erspan(struct walk *walk)
{
	const __u8 *header = within(walk, 8);
	__u32 frame;

	if (!header)
		return 0;
	if (header[0] >> 4 == 1) {
		walk->at += 8;
		return MB_NEXT_TEB;
	}
	if (header[0] >> 4 != 2)
		return 0;
	header = within(walk, 12);
	if (!header)
		return 0;
	frame = load16(header + 10) >> 10 & 0x1f;
	walk->at += header[11] & 1 ? 20 : 12; /* platform subheader */
	return frame == 0 ? MB_NEXT_TEB : frame == 2 ? type_of_ip(walk) : 0;
}

inlined __u32 enter_gre(struct walk *walk)
{
	const __u8 *header = within(walk, 4);
	__u32 flags, type;

	if (!header)
		return 0;
	flags = load16(header);
	type = load16(header + 2);
	if (flags & (MB_GRE_ROUTING | MB_GRE_VERSION))
		return 0;
	walk->at += 4 + (flags & MB_GRE_CHECKSUM ? 4 : 0) + (flags & MB_GRE_KEY ? 4 : 0) +
		    (flags & MB_GRE_SEQUENCE ? 4 : 0);
	if (type == MB_GRE_ERSPAN)
		return flags & MB_GRE_SEQUENCE ? enter_erspan(walk) : MB_NEXT_TEB;
	return type == MB_GRE_ERSPAN_III ? enter_erspan(walk) : type;
}

inlined __u32 enter_udp(struct walk *walk, __u32 port)
{
	const __u8 *header = within(walk, 16); /* the UDP header, and one of 8 bytes behind it */

	if (!header)
		return 0;
	if (port == MB_PORT_VXLAN || port == MB_PORT_VXLAN_LINUX) {
		walk->at += 16;
		return header[8] & 0x08 ? MB_NEXT_TEB : 0;
	}
	if (port != MB_PORT_GENEVE || header[8] >> 6)
		return 0;
	walk->at += 16 + (header[8] & 0x3f) * 4u;
	return load16(header + 10);
}

/* Enter the payload of the IP packet that WALK is in. Returns its Ethernet type, 0 if none is known. */
inlined __u32 enter(struct walk *walk, __u32 ports)
{
	const __u32 protocol = walk->protocol;

	walk->protocol = 0;
	if (protocol == MB_IPPROTO_IPV4)
		return MB_NEXT_IPV4;
	if (protocol == MB_IPPROTO_IPV6)
		return MB_NEXT_IPV6;
	if (protocol == MB_IPPROTO_MPLS)
		return MB_NEXT_MPLS;
	if (protocol == MB_IPPROTO_ETHERNET)
		return MB_NEXT_TEB;
	if (protocol == MB_IPPROTO_GRE)
		return enter_gre(walk);
	return protocol == MB_IPPROTO_UDP ? enter_udp(walk, ports & 0xffff) : 0;
}

/* Read from the header that TYPE announces down to the innermost IP packet. PACKET holds the bytes of the frame, and
 * becomes that packet. Returns where its payload begins, or 0. */
inlined __u32 read_innermost(struct walk *walk, __u32 type, struct packet *packet)
{
	__u32 payload = 0;

	for (int i = 0; i <= TUNNELS && type; i++) {
		struct packet inner = { .bytes = packet->bytes, .wire_bytes = packet->wire_bytes };
		__u32 found;

		advance(walk, 0);
		type = hidden(type, 0xffff);
		found = read_ip(walk, read_tags(walk, type, INNER_TAGS), &inner);
		if (!inner.family)
			break;
		*packet = inner;
		payload = hidden(found, 0xffff);
		type = enter(walk, inner.ports);
	}
	return payload;
}

#endif

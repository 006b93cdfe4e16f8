/* SPDX-License-Identifier: Apache-2.0
 *
 * IP in IP (RFC 2003, 2473, 4213), MPLS in IP (RFC 4023), Ethernet in IP (RFC 8986), GRE
 * (RFC 1701, 2784, 2890, PPTP's of RFC 2637), ERSPAN (draft-foschiano-erspan-03), WCCP
 * (draft-wilson-wrec-wccp-v2-01), VXLAN (RFC 7348), Geneve (RFC 8926).
 */
#include "decode/walk.h"

/* Skip the source route entries of RFC 1701; the last has neither family nor length. */
static bool skip_gre_routing(struct mb_walk *walk)
{
	const uint8_t *entry;

	do {
		entry = mb_walk_peek(walk, 4);
		if (!entry || !mb_walk_skip(walk, 4u + entry[3]))
			return false;
	} while (mb_be16(entry) || entry[3]);
	return true;
}

/* Version 1 is type II, version 2 is type III; without GRE's sequence number it is type I, which has no header. */
static uint32_t read_erspan(struct mb_walk *walk)
{
	const uint8_t *header = mb_walk_peek(walk, 8);

	if (!header)
		return MB_NEXT_OTHER;
	switch (header[0] >> 4) {
	case 1:
		return mb_walk_skip(walk, 8) ? MB_NEXT_TEB : MB_NEXT_OTHER;
	case 2:
		header = mb_walk_peek(walk, 12);
		if (!header || !mb_walk_skip(walk, header[11] & 1 ? 20 : 12)) /* platform subheader */
			return MB_NEXT_OTHER;
		/* frame type: 0 Ethernet, 2 IP */
		switch (mb_be16(header + 10) >> 10 & 0x1f) {
		case 0:
			return MB_NEXT_TEB;
		case 2:
			return MB_NEXT_IP;
		}
	}
	return MB_NEXT_OTHER;
}

/* Packets redirected by a router: version 2 of the protocol has a header of four bytes, version 1 has none. */
static uint32_t read_wccp(struct mb_walk *walk)
{
	const uint8_t *header = mb_walk_peek(walk, 4);

	if (header && header[0] >> 4 != 4)
		walk->offset += 4;
	return header ? MB_NEXT_IPV4 : MB_NEXT_OTHER;
}

static uint32_t read_gre(struct mb_walk *walk)
{
	const uint8_t *header = mb_walk_peek(walk, 4);
	uint32_t flags, length = 4;

	if (!header)
		return MB_NEXT_OTHER;
	flags = mb_be16(header);
	if ((flags & MB_GRE_VERSION) > 1)
		return MB_NEXT_OTHER;
	length += flags & (MB_GRE_CHECKSUM | MB_GRE_ROUTING) ? 4 : 0;
	length += flags & MB_GRE_KEY ? 4 : 0;
	length += flags & MB_GRE_SEQUENCE ? 4 : 0;
	length += (flags & MB_GRE_VERSION) == 1 && flags & MB_GRE_ACK ? 4 : 0;
	if (!mb_walk_skip(walk, length) || (flags & MB_GRE_ROUTING && !skip_gre_routing(walk)))
		return MB_NEXT_OTHER;
	switch (mb_be16(header + 2)) {
	case MB_NEXT_PPP_TYPE: /* a mere acknowledgement has no sequence number and no payload */
		return flags & MB_GRE_SEQUENCE ? MB_NEXT_PPP_TYPE : MB_NEXT_OTHER;
	case MB_GRE_ERSPAN:
		return flags & MB_GRE_SEQUENCE ? read_erspan(walk) : MB_NEXT_TEB;
	case MB_GRE_ERSPAN_III:
		return read_erspan(walk);
	case MB_GRE_WCCP:
		return read_wccp(walk);
	default:
		return mb_be16(header + 2);
	}
}

static uint32_t read_vxlan(struct mb_walk *walk)
{
	enum { VNI_PRESENT = 0x08 };
	const uint8_t *header = mb_walk_peek(walk, 8);

	if (!header || !(header[0] & VNI_PRESENT))
		return MB_NEXT_OTHER;
	walk->offset += 8;
	return MB_NEXT_TEB;
}

static uint32_t read_geneve(struct mb_walk *walk)
{
	const uint8_t *header = mb_walk_peek(walk, 8);

	if (!header || header[0] >> 6 || !mb_walk_skip(walk, 8 + (header[0] & 0x3f) * 4u))
		return MB_NEXT_OTHER;
	return mb_be16(header + 2);
}

static uint32_t read_udp(struct mb_walk *walk, const struct mb_ip *ip)
{
	switch (ip->destination_port) {
	case MB_PORT_VXLAN:
	case MB_PORT_VXLAN_LINUX:
		return mb_walk_skip(walk, 8) ? read_vxlan(walk) : MB_NEXT_OTHER;
	case MB_PORT_GENEVE:
		return mb_walk_skip(walk, 8) ? read_geneve(walk) : MB_NEXT_OTHER;
	default:
		return MB_NEXT_OTHER;
	}
}

static uint32_t enter(struct mb_walk *walk, const struct mb_ip *ip)
{
	if (!ip->transport || ip->fragment)
		return MB_NEXT_OTHER;
	switch (ip->protocol) {
	case MB_IPPROTO_IPV4:
		return MB_NEXT_IPV4;
	case MB_IPPROTO_IPV6:
		return MB_NEXT_IPV6;
	case MB_IPPROTO_MPLS:
		return MB_NEXT_MPLS;
	case MB_IPPROTO_ETHERNET:
		return MB_NEXT_TEB;
	case MB_IPPROTO_GRE:
		return read_gre(walk);
	case MB_IPPROTO_UDP:
		return read_udp(walk, ip);
	default:
		return MB_NEXT_OTHER;
	}
}

void mb_tunnel_descend(struct mb_walk *walk, struct mb_ip *ip)
{
	struct mb_ip inner;

	while (mb_ip_read(walk, mb_walk_to_ip(walk, enter(walk, ip)), &inner))
		*ip = inner;
}

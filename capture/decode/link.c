/* SPDX-License-Identifier: Apache-2.0
 *
 * Link layers, as https://www.tcpdump.org/linktypes.html describes them.
 */
#include "decode/walk.h"
#include "linktype.h"

/* A type field that holds a length announces an IEEE 802.2 header. */
static uint32_t type_or_length(uint16_t type)
{
	return type < MB_LEAST_TYPE ? MB_NEXT_LLC : type;
}

static void set_sender(struct mb_link *link, const uint8_t *mac)
{
	link->sender = (struct mb_address){ .lo = mb_mac(mac), .family = MB_FAMILY_MAC };
}

static uint32_t read_ethernet(struct mb_walk *walk, struct mb_link *link)
{
	const uint8_t *header;

	link->header = MB_ETHERNET_HEADER;
	header = mb_walk_peek(walk, link->header);
	if (!header)
		return MB_NEXT_OTHER;
	link->receiver = mb_mac(header);
	set_sender(link, header + 6);
	walk->offset += link->header;
	return type_or_length(mb_be16(header + 12));
}

struct cooked {
	uint16_t protocol, hardware, packet_type, address_length;
	const uint8_t *address;
};

static uint32_t read_cooked(const struct cooked *cooked, struct mb_link *link)
{
	enum { ARPHRD_FRAD = 770, ARPHRD_IEEE80211_RADIOTAP = 803, ARPHRD_NETLINK = 824 };
	enum { PACKET_OTHERHOST = 3, PACKET_OUTGOING = 4, PROTOCOL_802_2 = 4 };

	if (cooked->packet_type <= PACKET_OTHERHOST)
		link->direction = MB_DIRECTION_IN;
	else if (cooked->packet_type == PACKET_OUTGOING)
		link->direction = MB_DIRECTION_OUT;
	if (cooked->address_length == MB_MAC_LENGTH)
		set_sender(link, cooked->address);
	switch (cooked->hardware) {
	case ARPHRD_FRAD:
	case ARPHRD_IEEE80211_RADIOTAP:
	case ARPHRD_NETLINK: /* their protocol field is not an Ethernet type */
		return MB_NEXT_OTHER;
	}
	if (cooked->protocol == PROTOCOL_802_2)
		return MB_NEXT_LLC;
	return cooked->protocol < MB_LEAST_TYPE ? MB_NEXT_OTHER : cooked->protocol;
}

static uint32_t read_sll(struct mb_walk *walk, struct mb_link *link)
{
	const uint8_t *header;

	link->header = 16;
	header = mb_walk_peek(walk, link->header);
	if (!header)
		return MB_NEXT_OTHER;
	walk->offset += link->header;
	return read_cooked(&(struct cooked){ .packet_type = mb_be16(header),
					     .hardware = mb_be16(header + 2),
					     .address_length = mb_be16(header + 4),
					     .address = header + 6,
					     .protocol = mb_be16(header + 14) },
			   link);
}

static uint32_t read_sll2(struct mb_walk *walk, struct mb_link *link)
{
	const uint8_t *header;

	link->header = 20;
	header = mb_walk_peek(walk, link->header);
	if (!header)
		return MB_NEXT_OTHER;
	walk->offset += link->header;
	return read_cooked(&(struct cooked){ .protocol = mb_be16(header),
					     .hardware = mb_be16(header + 8),
					     .packet_type = header[10],
					     .address_length = header[11],
					     .address = header + 12 },
			   link);
}

/* BSD loopback: an address family of four bytes, in the byte order of the machine that wrote it (NULL) or in network
 * order (LOOP). AF_INET is 2 everywhere; AF_INET6 varies. */
static uint32_t read_loopback(struct mb_walk *walk, struct mb_link *link, bool either_order)
{
	const uint8_t *header;
	uint32_t family;

	link->header = 4;
	header = mb_walk_peek(walk, link->header);
	if (!header)
		return MB_NEXT_OTHER;
	walk->offset += link->header;
	family = mb_be32(header);
	if (either_order && family > 0xffff)
		family = __builtin_bswap32(family);
	switch (family) {
	case 2:
		return MB_NEXT_IPV4;
	case 10: /* Linux */
	case 24: /* NetBSD, OpenBSD */
	case 28: /* FreeBSD */
	case 30: /* Darwin */
		return MB_NEXT_IPV6;
	default:
		return MB_NEXT_OTHER;
	}
}

static uint32_t read_c_hdlc(struct mb_walk *walk, struct mb_link *link)
{
	const uint8_t *header;
	uint16_t protocol;

	link->header = 4;
	header = mb_walk_peek(walk, link->header);
	if (!header)
		return MB_NEXT_OTHER;
	walk->offset += link->header;
	protocol = mb_be16(header + 2);
	return protocol < MB_LEAST_TYPE ? MB_NEXT_OTHER : protocol;
}

/* The protocol field of PPP (RFC 1661), which may be compressed to one byte, behind address and control (RFC 1662),
 * which may be absent. */
static uint32_t read_ppp(struct mb_walk *walk)
{
	const uint8_t *header = mb_walk_peek(walk, 1);
	uint16_t protocol;

	if (header && header[0] == 0xff) {
		if (!mb_walk_peek(walk, 2) || header[1] != 0x03)
			return MB_NEXT_OTHER;
		walk->offset += 2;
		header = mb_walk_peek(walk, 1);
	}
	if (!header)
		return MB_NEXT_OTHER;
	if (header[0] & 1) {
		protocol = header[0];
		walk->offset += 1;
	} else {
		if (!mb_walk_peek(walk, 2))
			return MB_NEXT_OTHER;
		protocol = mb_be16(header);
		walk->offset += 2;
	}
	switch (protocol) {
	case MB_PPP_IPV4:
		return MB_NEXT_IPV4;
	case MB_PPP_IPV6:
		return MB_NEXT_IPV6;
	case 0x0281:
	case 0x0283:
		return MB_NEXT_MPLS;
	default:
		return MB_NEXT_OTHER;
	}
}

static uint32_t read_ppp_link(struct mb_walk *walk, struct mb_link *link)
{
	uint32_t next = read_ppp(walk);

	link->header = walk->offset;
	return next;
}

static uint32_t read_ppp_hdlc(struct mb_walk *walk, struct mb_link *link)
{
	const uint8_t *header = mb_walk_peek(walk, 1);

	if (!header)
		return MB_NEXT_OTHER;
	if (header[0] == 0x0f || header[0] == 0x8f)
		return read_c_hdlc(walk, link);
	return read_ppp_link(walk, link);
}

uint32_t mb_link_read(struct mb_walk *walk, const struct mb_interface *interface, struct mb_link *link)
{
	memset(link, 0, sizeof(*link));
	switch (interface->linktype) {
	case MB_LINKTYPE_ETHERNET:
		return read_ethernet(walk, link);
	case MB_LINKTYPE_LINUX_SLL:
		return read_sll(walk, link);
	case MB_LINKTYPE_LINUX_SLL2:
		return read_sll2(walk, link);
	case MB_LINKTYPE_NULL:
		return read_loopback(walk, link, true);
	case MB_LINKTYPE_LOOP:
		return read_loopback(walk, link, false);
	case MB_LINKTYPE_PPP:
		return read_ppp_link(walk, link);
	case MB_LINKTYPE_PPP_HDLC:
		return read_ppp_hdlc(walk, link);
	case MB_LINKTYPE_PPP_ETHER:
		return MB_NEXT_PPPOE;
	case MB_LINKTYPE_C_HDLC:
		return read_c_hdlc(walk, link);
	case MB_LINKTYPE_RAW:
	case MB_LINKTYPE_RAW_12:
	case MB_LINKTYPE_RAW_14:
		return MB_NEXT_IP;
	case MB_LINKTYPE_IPV4:
		return MB_NEXT_IPV4;
	case MB_LINKTYPE_IPV6:
		return MB_NEXT_IPV6;
	default:
		walk->marks |= MB_MARK_UNPARSED;
		return MB_NEXT_OTHER;
	}
}

static uint32_t read_llc(struct mb_walk *walk)
{
	static const uint8_t snap[] = { 0xaa, 0xaa, 0x03 };
	const uint8_t *header = mb_walk_peek(walk, sizeof(snap));
	uint32_t oui;

	if (!header || memcmp(header, snap, sizeof(snap)))
		return MB_NEXT_OTHER;
	header = mb_walk_peek(walk, 8);
	if (!header)
		return MB_NEXT_OTHER;
	walk->offset += 8;
	oui = mb_be32(header + 2) & 0xffffff;
	/* RFC 1042, and 802.1H's bridge tunnel */
	return oui == 0x000000 || oui == 0x0000f8 ? mb_be16(header + 6) : MB_NEXT_OTHER;
}

static uint32_t read_tag(struct mb_walk *walk)
{
	const uint8_t *tag = mb_walk_peek(walk, 4);

	if (!tag)
		return MB_NEXT_OTHER;
	walk->offset += 4;
	return type_or_length(mb_be16(tag + 2));
}

static uint32_t read_label(struct mb_walk *walk)
{
	const uint8_t *label = mb_walk_peek(walk, 4);

	if (!label)
		return MB_NEXT_OTHER;
	walk->offset += 4;
	return label[2] & 1 ? MB_NEXT_UNLABELLED : MB_NEXT_MPLS;
}

static uint32_t read_pppoe(struct mb_walk *walk)
{
	const uint8_t *header = mb_walk_peek(walk, 6);

	if (!header)
		return MB_NEXT_OTHER;
	walk->offset += 6;
	/* version 1, type 1, code 0: session data (RFC 2516) */
	return mb_be16(header) == 0x1100 ? MB_NEXT_PPP : MB_NEXT_OTHER;
}

static uint32_t read_version(struct mb_walk *walk)
{
	const uint8_t *header = mb_walk_peek(walk, 1);

	if (!header)
		return MB_NEXT_OTHER;
	switch (header[0] >> 4) {
	case 4:
		return MB_NEXT_IPV4;
	case 6:
		return MB_NEXT_IPV6;
	default:
		return MB_NEXT_OTHER;
	}
}

static uint32_t read_raw(struct mb_walk *walk)
{
	uint32_t next = read_version(walk);

	if (next == MB_NEXT_OTHER && !walk->marks)
		walk->marks |= MB_MARK_UNPARSED;
	return next;
}

uint32_t mb_walk_to_ip(struct mb_walk *walk, uint32_t next)
{
	struct mb_link inner;

	for (;;) {
		switch (next) {
		case MB_NEXT_IPV4:
		case MB_NEXT_IPV6:
			return next;
		case MB_NEXT_VLAN:
		case MB_NEXT_QINQ:
		case MB_NEXT_QINQ_OLD:
			next = read_tag(walk);
			break;
		case MB_NEXT_MPLS:
		case MB_NEXT_MPLS_UPSTREAM:
			next = read_label(walk);
			break;
		case MB_NEXT_UNLABELLED:
			next = read_version(walk);
			break;
		case MB_NEXT_LLC:
			next = read_llc(walk);
			break;
		case MB_NEXT_PPPOE:
			next = read_pppoe(walk);
			break;
		case MB_NEXT_PPP:
		case MB_NEXT_PPP_TYPE:
			next = read_ppp(walk);
			break;
		case MB_NEXT_TEB:
			next = read_ethernet(walk, &inner);
			break;
		case MB_NEXT_IP:
			next = read_raw(walk);
			break;
		default:
			return MB_NEXT_OTHER;
		}
	}
}

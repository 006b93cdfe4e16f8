/* SPDX-License-Identifier: Apache-2.0 */
#include "decode/walk.h"

/* Offset of the payload that was cut into segments; 0 if there is no such payload. */
static uint32_t payload_offset(struct mb_headers *headers)
{
	struct mb_walk *walk = &headers->walk;
	struct mb_ip *ip = &headers->ip;

	if (headers->has_ip)
		mb_tunnel_descend(walk, ip);
	if (ip->fragment)
		return 0;
	if (!(walk->marks & MB_MARK_TRUNCATED))
		return ip->payload;
	if (!headers->has_ip)
		return walk->offset + (headers->next == MB_NEXT_IPV6 ? MB_IPV6_HEADER : MB_IPV4_HEADER) + MB_TCP_HEADER;
	if (!ip->transport)
		return walk->offset + MB_TCP_HEADER;
	switch (walk->offset == ip->transport ? ip->protocol : MB_IPPROTO_NONE) {
	case MB_IPPROTO_TCP:
		return walk->offset + MB_TCP_HEADER;
	case MB_IPPROTO_UDP:
		return ip->payload;
	case MB_IPPROTO_DCCP:
	case MB_IPPROTO_SCTP:
	case MB_IPPROTO_UDPLITE:
		return 0;
	default: /* cut inside a tunnel */
		return walk->offset + MB_IPV4_HEADER + MB_TCP_HEADER;
	}
}

uint32_t mb_merged_wire_bytes(const struct mb_headers *headers, uint16_t gso_size,
			      const struct mb_decode_options *options, uint32_t *marks)
{
	/* The walk ends with the IP packet, where that states its length: an FCS that the file does not declare, or
	 * another trailer, may be behind it. The kernel's merged frames have none. */
	const uint32_t end = gso_size ? headers->bytes : headers->walk.end;
	struct mb_headers inner;
	uint32_t offset, payload, mss, full;

	if (!gso_size && (!options->mtu || end - headers->l3 <= options->mtu))
		return 0;
	if (headers->next == MB_NEXT_OTHER)
		return 0;
	inner = *headers;
	offset = payload_offset(&inner);
	if (!offset || offset >= end)
		return 0;
	payload = end - offset;
	if (!gso_size && options->mtu <= offset - headers->l3)
		return 0; /* not a possible MTU: it does not even hold the headers */
	mss = gso_size ? gso_size : options->mtu - (offset - headers->l3);
	if (payload <= mss)
		return 0;
	*marks |= inner.walk.marks & MB_MARK_TRUNCATED;
	full = (payload - 1) / mss; /* segments before the last */
	return mb_saturate((uint64_t)full * mb_link_wire_bytes(offset + mss, headers->link.header) +
			   mb_link_wire_bytes(headers->bytes - full * mss, headers->link.header));
}

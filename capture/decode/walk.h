/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the decoder share: the walk over a frame's headers, one step a function.
 * Every step consumes bytes, so a walk ends with the frame, whatever the frame says.
 *
 *   decode.c  frames → packets, and the fast path for usual frames
 *   link.c    link layer, tags and labels, down to an IP header
 *   ip.c      IPv4, IPv6, extension headers, ports, TCP
 *   tunnel.c  from an IP header to its payload
 *   control.c pause frames and congestion notifications
 *   merged.c  wire bytes of a frame that was several on the wire
 */
#ifndef MB_WALK_H
#define MB_WALK_H

#include <stddef.h>
#include <string.h>

#include "decode/decode.h"

enum { MB_ECN = 3 }; /* bits of IP's traffic class */

struct mb_walk {
	const uint8_t *data;
	uint32_t offset;  /* of the next header; at most `end` */
	uint32_t end;     /* where the packet that is being walked ends, captured or not */
	uint32_t visible; /* captured bytes; may be less or more than `offset` */
	uint32_t marks;   /* enum mb_mark: why the walk ended early */
	const struct mb_seed *seed; /* of fingerprints; not needed before an IP header */
};

struct mb_link {
	uint32_t header;           /* bytes before the payload that Ethernet would carry */
	struct mb_address sender;  /* its MAC, or no family */
	uint64_t receiver;         /* MAC of an Ethernet frame, else 0 */
	uint8_t direction;         /* enum mb_direction from the header */
};

struct mb_ip {
	struct mb_address source, destination;
	uint64_t flow;
	uint32_t transport; /* offset of the transport header; 0 if a header before it was cut off */
	uint32_t payload;   /* offset behind a TCP or UDP header; 0 if there is none or it was cut off */
	uint32_t tcp_seq, tcp_len;
	uint32_t ports;     /* as in struct mb_packet */
	uint16_t destination_port; /* of UDP */
	uint8_t protocol;
	uint8_t marks;      /* MB_MARK_CE, MB_MARK_TCP, MB_MARK_CNP */
	bool fragment;
};

static inline uint16_t mb_be16(const uint8_t *bytes)
{
	return (uint16_t)(bytes[0] << 8 | bytes[1]);
}

static inline uint32_t mb_be32(const uint8_t *bytes)
{
	return (uint32_t)mb_be16(bytes) << 16 | mb_be16(bytes + 2);
}

static inline uint64_t mb_be64(const uint8_t *bytes)
{
	return (uint64_t)mb_be32(bytes) << 32 | mb_be32(bytes + 4);
}

static inline uint64_t mb_mac(const uint8_t *bytes)
{
	return (uint64_t)mb_be16(bytes) << 32 | mb_be32(bytes + 2);
}

/* Whether a RoCEv2 packet with this opcode is a congestion notification. */
static inline bool mb_is_cnp(uint8_t opcode)
{
	return opcode == MB_ROCE_CNP;
}

/* Whether the ECN field of an IP header's traffic class, its two lowest bits, is CE (RFC 3168). */
static inline bool mb_is_ce(uint32_t traffic_class)
{
	return (traffic_class & MB_ECN) == MB_ECN;
}

static inline uint32_t mb_frame_bytes(const struct mb_frame *frame, uint32_t fcs_len)
{
	return frame->len - (fcs_len < frame->len ? fcs_len : frame->len);
}

/* Wire bytes of an Ethernet frame with L2 bytes without FCS. */
static inline uint64_t mb_wire_bytes(uint64_t l2)
{
	return (l2 < MB_WIRE_SHORTEST ? MB_WIRE_SHORTEST : l2) + MB_WIRE_OVERHEAD;
}

static inline uint32_t mb_saturate(uint64_t value)
{
	return value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

/* The next LENGTH bytes; NULL, with the reason marked, if some of them are missing. */
static inline const uint8_t *mb_walk_peek(struct mb_walk *walk, uint32_t length)
{
	if (length > walk->end - walk->offset) {
		walk->marks |= MB_MARK_UNPARSED;
		return NULL;
	}
	if ((uint64_t)walk->offset + length > walk->visible) {
		walk->marks |= MB_MARK_TRUNCATED;
		return NULL;
	}
	return walk->data + walk->offset;
}

/* Skip LENGTH bytes, captured or not. Returns false, with the reason marked, if the packet ends before. */
static inline bool mb_walk_skip(struct mb_walk *walk, uint32_t length)
{
	if (length > walk->end - walk->offset) {
		walk->marks |= MB_MARK_UNPARSED;
		return false;
	}
	walk->offset += length;
	return true;
}

/* Fingerprint of a flow: two rounds of multiply-and-fold as in wyhash. The factors are folded in again, so that a
 * factor of zero does not hide the other, and SEED is in each, so that nobody can choose addresses and ports with the
 * same fingerprint: a factor of 2^64 - 1 would leave little of the other. TAIL: ports, protocol, family. Never 0. */
static inline uint64_t mb_flow_mix(uint64_t addresses, uint64_t tail, const struct mb_seed *seed)
{
	uint64_t factor = tail ^ seed->words[0] ^ 0xe7037ed1a0b428db, low, high;
	unsigned __int128 product;

	addresses ^= seed->words[2] ^ 0x589965cc75374cc3;
	product = (unsigned __int128)addresses * factor;
	low = (uint64_t)product ^ addresses;
	high = (uint64_t)(product >> 64) ^ factor;
	product = (unsigned __int128)(low ^ seed->words[1] ^ 0x8ebc6af09c88c6e3) * high;
	low ^= (uint64_t)product ^ (uint64_t)(product >> 64);
	return low + !low;
}

static inline uint64_t mb_flow_fold(uint64_t hi, uint64_t lo, const struct mb_seed *seed)
{
	unsigned __int128 product = (unsigned __int128)(hi ^ seed->words[2] ^ 0x1d8e4e27c47d124f) *
				    (lo ^ seed->words[3] ^ 0xeb44accab455d165);

	return ((uint64_t)product ^ (uint64_t)(product >> 64)) + lo;
}

/* PORTS: source << 16 | destination, 0 if there are none. */
static inline uint64_t mb_flow_tail(uint32_t ports, uint8_t protocol, enum mb_family family)
{
	return (uint64_t)family << 40 | (uint64_t)protocol << 32 | ports;
}

/* ADDRESSES: source << 32 | destination. */
static inline uint64_t mb_flow_ipv4(uint64_t addresses, uint64_t tail, const struct mb_seed *seed)
{
	return mb_flow_mix(addresses, tail, seed);
}

static inline uint64_t mb_flow_ipv6(const struct mb_address *source, const struct mb_address *destination,
				    uint64_t tail, const struct mb_seed *seed)
{
	return mb_flow_mix(mb_flow_fold(source->hi, source->lo, seed),
			   mb_flow_fold(destination->hi, destination->lo, seed) ^ tail, seed);
}

/* A frame, read down to the transport header behind its outermost IP header. */
struct mb_headers {
	struct mb_walk walk; /* at that transport header, or where reading ended */
	struct mb_link link;
	uint32_t bytes;      /* of the frame, without FCS */
	uint32_t control;    /* offset of a MAC control frame's payload; 0 if it is another frame */
	uint32_t l3;         /* offset of the IP header, or of what is in its place */
	uint32_t next;       /* MB_NEXT_IPV4 or MB_NEXT_IPV6, read or cut off; else MB_NEXT_OTHER */
	bool has_ip;         /* `ip` is valid */
	struct mb_ip ip;
};

/* Read the link-layer header of a frame on INTERFACE. Returns the header that follows (enum mb_next). */
uint32_t mb_link_read(struct mb_walk *walk, const struct mb_interface *interface, struct mb_link *link);

/* Skip tags, labels and shims from NEXT to an IP header. Returns MB_NEXT_IPV4, MB_NEXT_IPV6, or MB_NEXT_OTHER if there
 * is none. */
uint32_t mb_walk_to_ip(struct mb_walk *walk, uint32_t next);

/* Read the IP header that NEXT announces and the transport header behind it; the walk is then at the transport header
 * and ends with the packet. Returns false if there is no IP header to read. */
bool mb_ip_read(struct mb_walk *walk, uint32_t next, struct mb_ip *ip);

/* Whether a MAC control frame is a pause frame; WALK is at its payload. Fills in the fields of PACKET on pauses. */
bool mb_pause_read(struct mb_walk *walk, struct mb_packet *packet);

/* MB_MARK_CNP if a RoCEv2 packet is a congestion notification, else 0; WALK is at its UDP header. */
uint8_t mb_cnp_read(struct mb_walk *walk);

/* Replace IP, whose transport header the walk is at, by the innermost IP header of the tunnels that it carries.
 * Fragments are not decoded: all fragments of a datagram then have the same source. */
void mb_tunnel_descend(struct mb_walk *walk, struct mb_ip *ip);

/* Wire bytes of a frame on a link with link headers of LINK_HEADER bytes: those of an Ethernet frame with the same
 * payload. */
static inline uint32_t mb_link_wire_bytes(uint32_t bytes, uint32_t link_header)
{
	uint64_t payload = bytes > link_header ? bytes - link_header : 0;

	return mb_saturate(mb_wire_bytes(payload + MB_ETHERNET_HEADER));
}

/* Wire bytes of the segments in a merged frame: each has all headers up to the innermost transport header, and as much
 * of the payload as OPTIONS->mtu or GSO_SIZE allows. Returns 0 if the frame was one on the wire. Adds MB_MARK_TRUNCATED
 * to *MARKS if headers were cut off and IP and TCP headers without options had to be assumed. */
uint32_t mb_merged_wire_bytes(const struct mb_headers *headers, uint16_t gso_size,
			      const struct mb_decode_options *options, uint32_t *marks);

#endif

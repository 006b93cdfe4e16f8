/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * Decodes a frame in the kernel: its sender, its bytes on the wire, its marks. It decodes as decode/ does, one step in
 * each function; tests/capture/test_ebpf.py verifies that both give the same answers. read.bpf.h calls the steps.
 */
#ifndef MB_EBPF_DECODE_H
#define MB_EBPF_DECODE_H

#include <linux/bpf.h>
#include <stdbool.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "backend/ebpf/layout.h"
#include "compiler.h"
#include "protocols.h"

#define inlined static mb_inline
#define HEADERS 192       /* bytes that can be read */
#define FURTHEST 0x7ff    /* no header that begins within HEADERS is so long that the next begins behind this */
#define TAGS 10           /* most tags and labels before IP, in all */
#define INNER_TAGS 5      /* the same, if tunnels are decoded */
#define EXTENSIONS 6      /* most extension headers of IPv6 */

/* Set by user space before the program is loaded. */
const volatile struct mb_ebpf_constants constants;

/* Set by user space at any time. */
volatile struct mb_ebpf_variables variables;

/* A frame at either hook: the readable data, and the facts that are not in it. */
struct frame {
	const __u8 *data, *end;
	__u32 length;
	__u32 tag; /* bytes of a tag that the kernel took out */
};

struct packet {
	__u64 hi, lo, flow;
	__u32 bytes, wire_bytes, ports, family;
	__u32 first, length; /* of TCP: the sequence number, and the length in sequence space */
	bool ce, cnp, merged;
};

/* The readable data of a frame, and the position of the reader. */
struct walk {
	const __u8 *data, *end;
	__u32 at;
	__u32 limit; /* where the packet ends, readable or not */
	__u32 protocol; /* protocol behind an IP header; 0 if that was not reached, and in fragments */
	__u32 exact; /* 1 until an IP header states a length that the frame contradicts */
};

/* The next LENGTH bytes of the frame; NULL if some cannot be read. */
inlined const __u8 *peek(struct walk *walk, __u32 length)
{
	const __u8 *header;

	if (walk->at > HEADERS)
		return NULL;
	header = walk->data + walk->at;
	return header + length <= walk->end ? header : NULL;
}

/* The same, of the packet that is read. The verifier learns nothing of LIMIT from a difference: it would follow each
 * range separately. */
inlined const __u8 *within(struct walk *walk, __u32 length)
{
	return (__s32)(walk->limit - walk->at - length) < 0 ? NULL : peek(walk, length);
}

/* A number up to MOST (a power of two less one), the exact value of which the verifier does not know. Otherwise it
 * follows every path through the headers separately, instead of recognizing one as covered by a more general one, and
 * takes a second. */
inlined __u32 hidden(__u32 number, __u32 most)
{
	return (number + (__u32)variables.zero) & most;
}

inlined void advance(struct walk *walk, __u32 length)
{
	walk->at = hidden(walk->at + length, FURTHEST);
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
	return (l2 < MB_WIRE_SHORTEST ? MB_WIRE_SHORTEST : l2) + MB_WIRE_OVERHEAD;
}

inlined __u32 read_label(struct walk *walk)
{
	const __u8 *label = peek(walk, 5);

	if (!label)
		return 0;
	walk->at += 4;
	if (!(label[2] & 1))
		return MB_NEXT_MPLS;
	return label[4] >> 4 == 4 ? MB_NEXT_IPV4 : label[4] >> 4 == 6 ? MB_NEXT_IPV6 : 0;
}

/* A type field that holds a length announces an IEEE 802.2 header. */
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

inlined __u32 read_ethernet(struct walk *walk)
{
	const __u8 *header = peek(walk, MB_ETHERNET_HEADER);

	walk->at += MB_ETHERNET_HEADER;
	return header ? load16(header + 12) : 0;
}

/* Session data have version 1 and type 1 (RFC 2516). */
inlined __u32 read_pppoe(struct walk *walk)
{
	const __u8 *header = peek(walk, 8);

	if (!header || load16(header) != 0x1100)
		return 0;
	walk->at += 8;
	return load16(header + 6) == MB_PPP_IPV4 ? MB_NEXT_IPV4 : load16(header + 6) == MB_PPP_IPV6 ? MB_NEXT_IPV6 : 0;
}

/* Skip up to MOST tags, labels and shims. Returns the Ethernet type behind them, 0 if none is known. */
inlined __u32 read_tags(struct walk *walk, __u32 type, int most)
{
	for (int i = 0; i < most; i++) {
		const __u8 *tag;

		if (mb_likely(type == MB_NEXT_IPV4 || type == MB_NEXT_IPV6))
			break;
		if (type == MB_NEXT_VLAN || type == MB_NEXT_QINQ || type == MB_NEXT_QINQ_OLD) {
			tag = peek(walk, 4);
			if (!tag)
				return 0;
			type = load16(tag + 2);
			walk->at += 4;
		} else if (type == MB_NEXT_MPLS || type == MB_NEXT_MPLS_UPSTREAM) {
			type = read_label(walk);
		} else if (type == MB_NEXT_PPPOE) {
			type = read_pppoe(walk);
		} else if (type && type < MB_LEAST_TYPE) {
			type = read_llc(walk);
		} else if (type == MB_NEXT_TEB) {
			type = read_ethernet(walk);
		} else {
			break;
		}
		advance(walk, 0);
	}
	return type;
}

/* End the walk after the LENGTH bytes that an IP header of LEAST bytes states. */
inlined void end_packet(struct walk *walk, __u32 length, __u32 least)
{
	if (length < least || length > walk->limit - walk->at)
		walk->exact = 0;
	else
		walk->limit = hidden(walk->at + length, ~0u);
	walk->exact = hidden(walk->exact, 1);
}

/* Read the sequence space of a TCP segment, if its length is exact. Returns where its payload begins. */
inlined __u32 read_tcp(struct walk *walk, struct packet *packet)
{
	const __u8 *header = within(walk, 14);
	__u32 header_length, length;

	if (!header)
		return 0;
	barrier_var(header); /* read from the same value that the verifier saw checked */
	header_length = (header[12] >> 4) * 4;
	length = walk->limit - walk->at;
	if (header_length < 20 || header_length > length)
		return 0;
	if (walk->exact) {
		packet->first = load32(header + 4);
		packet->length = length - header_length + (((header[13] & 3) + 1) >> 1); /* SYN, FIN */
	}
	return walk->at + header_length;
}

/* Read ports and notifications. Returns where the payload begins that was cut into segments (0: unknown). */
inlined __u32 read_transport(struct walk *walk, struct packet *packet, __u32 protocol)
{
	const __u8 *header;

	protocol = hidden(protocol, 0xff);
	if (protocol != MB_IPPROTO_TCP && protocol != MB_IPPROTO_UDP && protocol != MB_IPPROTO_DCCP &&
	    protocol != MB_IPPROTO_SCTP && protocol != MB_IPPROTO_UDPLITE)
		return 0;
	header = within(walk, 4);
	if (!header)
		return 0;
	packet->ports = load32(header);
	if (protocol == MB_IPPROTO_TCP)
		return read_tcp(walk, packet);
	if (protocol != MB_IPPROTO_UDP)
		return 0;
	if (mb_unlikely((packet->ports & 0xffff) == MB_PORT_ROCE) &&
	    walk->limit - walk->at >= MB_UDP_HEADER + MB_ROCE_HEADER) {
		header = within(walk, 9);
		packet->cnp = header && header[8] == MB_ROCE_CNP;
	}
	return walk->limit - walk->at >= MB_UDP_HEADER ? walk->at + MB_UDP_HEADER : 0;
}

/* Skip a header of UNIT × its length field + 8 bytes. *PROTOCOL becomes that of the next header. Returns false if it is
 * cut off. */
inlined bool skip_extension(struct walk *walk, __u32 unit, __u32 *protocol)
{
	const __u8 *header = within(walk, 2);
	__u32 length;

	if (!header)
		return false;
	length = header[1] * unit + 8;
	if ((__s32)(walk->limit - walk->at - length) < 0)
		return false;
	advance(walk, length);
	*protocol = header[0];
	return true;
}

inlined __u32 read_ipv4(struct walk *walk, struct packet *packet)
{
	const __u8 *header = within(walk, 20);
	__u32 protocol, length, header_length, payload = 0;

	if (!header || header[0] >> 4 != 4 || (header[0] & 0xf) < 5)
		return 0;
	header_length = (header[0] & 0xf) * 4;
	length = load16(header + 2);
	protocol = header[9];
	packet->family = MB_FAMILY_IPV4;
	packet->lo = MB_IPV4_MAPPED | load32(header + 12);
	packet->ce = (header[1] & 3) == 3;
	packet->flow = mix(constants.seed, load64(header + 12));
	if (length) /* 0: that of the frame */
		end_packet(walk, length, header_length);
	if (!(load16(header + 6) & 0x3fff)) {
		advance(walk, header_length);
		if (mb_likely(protocol != MB_IPPROTO_AH) || skip_extension(walk, 4, &protocol)) {
			walk->protocol = protocol;
			payload = read_transport(walk, packet, protocol);
		}
	}
	packet->flow = mix(packet->flow, (__u64)MB_FAMILY_IPV4 << 40 | (__u64)protocol << 32 | packet->ports);
	return payload;
}

/* Skip a fragment header. Returns false if the packet is a fragment, or the header is cut off. */
inlined bool skip_fragment_header(struct walk *walk, __u32 *protocol)
{
	const __u8 *header = within(walk, 8);

	if (!header)
		return false;
	advance(walk, 8);
	*protocol = header[0];
	return !(load16(header + 2) & 0xfff9);
}

/* Skip extension headers. *PROTOCOL becomes that behind them. Returns false if nothing behind them can be read. */
inlined bool skip_extensions(struct walk *walk, __u32 *protocol)
{
	for (int i = 0; i < EXTENSIONS; i++) {
		bool skipped;

		if (*protocol == MB_IPPROTO_FRAGMENT)
			skipped = skip_fragment_header(walk, protocol);
		else if (*protocol == MB_IPPROTO_AH)
			skipped = skip_extension(walk, 4, protocol);
		else if (*protocol == MB_IPPROTO_HOPOPTS || *protocol == MB_IPPROTO_ROUTING ||
			 *protocol == MB_IPPROTO_DSTOPTS)
			skipped = skip_extension(walk, 8, protocol);
		else
			break;
		if (!skipped)
			return false;
	}
	return true;
}

inlined __u32 read_ipv6(struct walk *walk, struct packet *packet)
{
	const __u8 *header = within(walk, 40);
	__u32 protocol, length, payload = 0;

	if (!header || header[0] >> 4 != 6)
		return 0;
	protocol = header[6];
	length = load16(header + 4);
	packet->family = MB_FAMILY_IPV6;
	packet->hi = load64(header + 8);
	packet->lo = load64(header + 16);
	packet->ce = (header[1] >> 4 & 3) == 3;
	packet->flow = mix(mix(constants.seed, packet->hi), packet->lo);
	packet->flow = mix(mix(packet->flow, load64(header + 24)), load64(header + 32));
	advance(walk, 40);
	if (length || protocol == MB_IPPROTO_NONE)
		end_packet(walk, length, 0);
	if (skip_extensions(walk, &protocol)) {
		walk->protocol = protocol;
		payload = read_transport(walk, packet, protocol);
	}
	packet->flow = mix(packet->flow, (__u64)MB_FAMILY_IPV6 << 40 | (__u64)protocol << 32 | packet->ports);
	return payload;
}

/* Read the IP header that TYPE announces. Returns where the payload begins, or 0. PACKET has a family if the header
 * could be read. */
inlined __u32 read_ip(struct walk *walk, __u32 type, struct packet *packet)
{
	if (type == MB_NEXT_IPV4)
		return read_ipv4(walk, packet);
	return type == MB_NEXT_IPV6 ? read_ipv6(walk, packet) : 0;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * Sizes and numbers of protocols, for the engine and for its program in the kernel (backend/ebpf/), which decode the
 * same.
 */
#ifndef MB_PROTOCOLS_H
#define MB_PROTOCOLS_H

/* Bytes that an Ethernet frame takes on the wire (IEEE 802.3): it is padded to 60 bytes, and every frame has an FCS of
 * 4, a preamble of 8 and a gap of 12 bytes. */
#define MB_WIRE_SHORTEST 60
#define MB_WIRE_OVERHEAD 24

enum {
	MB_MAC_LENGTH = 6,
	MB_ETHERNET_HEADER = 14,
	MB_VLAN_TAG = 4,
	MB_IPV4_HEADER = 20, /* without options, as is TCP's */
	MB_IPV6_HEADER = 40,
	MB_TCP_HEADER = 20,
	MB_UDP_HEADER = 8,
	MB_ROCE_HEADER = 12, /* InfiniBand's base transport header, behind UDP's; its first byte is the opcode */
};

/* IANA protocol numbers. */
enum {
	MB_IPPROTO_HOPOPTS = 0,
	MB_IPPROTO_IPV4 = 4,
	MB_IPPROTO_TCP = 6,
	MB_IPPROTO_UDP = 17,
	MB_IPPROTO_DCCP = 33,
	MB_IPPROTO_IPV6 = 41,
	MB_IPPROTO_ROUTING = 43,
	MB_IPPROTO_FRAGMENT = 44,
	MB_IPPROTO_GRE = 47,
	MB_IPPROTO_AH = 51,
	MB_IPPROTO_NONE = 59,
	MB_IPPROTO_DSTOPTS = 60,
	MB_IPPROTO_SCTP = 132,
	MB_IPPROTO_UDPLITE = 136,
	MB_IPPROTO_MPLS = 137,
	MB_IPPROTO_ETHERNET = 143,
};

/* The next header in a frame: an Ethernet type or, in the engine, one of these. */
enum mb_next {
	MB_NEXT_IPV4 = 0x0800,
	MB_NEXT_TEB = 0x6558, /* an Ethernet frame (transparent Ethernet bridging) */
	MB_NEXT_VLAN = 0x8100,
	MB_NEXT_IPV6 = 0x86dd,
	MB_NEXT_PPP_TYPE = 0x880b,
	MB_NEXT_MPLS = 0x8847,
	MB_NEXT_MPLS_UPSTREAM = 0x8848,
	MB_NEXT_MAC_CONTROL = 0x8808,
	MB_NEXT_PPPOE = 0x8864,
	MB_NEXT_QINQ = 0x88a8,
	MB_NEXT_QINQ_OLD = 0x9100,

	MB_NEXT_OTHER = 0x10000, /* nothing that leads to an IP header */
	MB_NEXT_LLC,             /* IEEE 802.2 */
	MB_NEXT_PPP,
	MB_NEXT_IP,              /* IP, with its version in the first four bits */
	MB_NEXT_UNLABELLED,      /* what follows the last MPLS label: IP by those bits, or unknown */
};

#define MB_LEAST_TYPE 0x600 /* of Ethernet types: a lesser one is a length, and announces an IEEE 802.2 header */

/* Protocols of PPP. */
enum {
	MB_PPP_IPV4 = 0x0021,
	MB_PPP_IPV6 = 0x0057,
};

/* Destination ports of UDP. */
enum {
	MB_PORT_VXLAN = 4789,
	MB_PORT_VXLAN_LINUX = 8472, /* Linux's default, older than the assigned port */
	MB_PORT_GENEVE = 6081,
	MB_PORT_ROCE = 4791, /* RoCEv2 */
};

#define MB_ROCE_CNP 0x81 /* opcode of a congestion notification */

/* In the first two bytes of GRE's header (RFC 1701, 2784, 2890, 2637) … */
enum {
	MB_GRE_CHECKSUM = 0x8000,
	MB_GRE_ROUTING = 0x4000,
	MB_GRE_KEY = 0x2000,
	MB_GRE_SEQUENCE = 0x1000,
	MB_GRE_ACK = 0x0080,
	MB_GRE_VERSION = 7,
};

/* … and types of its payload that are not those of Ethernet frames. */
enum {
	MB_GRE_WCCP = 0x883e,
	MB_GRE_ERSPAN = 0x88be, /* types I and II */
	MB_GRE_ERSPAN_III = 0x22eb,
};

#define MB_IPV4_MAPPED (0xffffull << 32) /* prefix of an IPv4-mapped address (RFC 4291) */

/* The kind of an address, as struct mb_address has it. */
enum mb_family {
	MB_FAMILY_NONE = 0, /* no sender in the captured bytes */
	MB_FAMILY_IPV4 = 4, /* lo = MB_IPV4_MAPPED | the address, hi = 0 */
	MB_FAMILY_IPV6 = 6, /* hi, lo: the halves of the address, in host order */
	MB_FAMILY_MAC = 48, /* hi = 0, lo: the 48 bits */
};

#endif

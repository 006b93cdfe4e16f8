/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * Sizes that protocols state, for the engine and for its program in the kernel (backend/ebpf/), which decodes the same.
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

#endif

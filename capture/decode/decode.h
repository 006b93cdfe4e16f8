/* SPDX-License-Identifier: Apache-2.0
 *
 * Decodes a frame: who sent it, and how many bytes it takes on the wire. Pure: no I/O, no allocation, no state. Never
 * reads more than caplen bytes, whatever the headers claim.
 */
#ifndef MB_DECODE_H
#define MB_DECODE_H

#include <stdbool.h>
#include <stdint.h>

#include "frame.h"
#include "protocols.h"
#include "seed.h"

struct mb_address {
	uint64_t hi, lo;
	uint32_t family; /* enum mb_family */
};

enum mb_mark {
	MB_MARK_CE = 1 << 0,        /* IP ECN field is 11 (RFC 3168) */
	MB_MARK_TCP = 1 << 1,       /* tcp_seq and tcp_len are valid */
	MB_MARK_UNPARSED = 1 << 2,  /* unknown link type, or headers that contradict themselves or the frame's length;
				     * fields read before that are valid */
	MB_MARK_TRUNCATED = 1 << 3, /* the captured bytes end before sender, flow or marks could be read, but the
				     * frame does not */
	MB_MARK_MERGED = 1 << 4,    /* a GRO/TSO frame: several wire frames in one */
	MB_MARK_CNP = 1 << 5,       /* a congestion notification packet of RoCEv2 */
	MB_MARK_PAUSE = 1 << 6,     /* a pause frame (IEEE 802.3x, or 802.1Qbb by class): pause_quanta and
				     * pause_classes are valid */
};

struct mb_packet {
	int64_t ts_ns;
	struct mb_address source; /* IP source (outermost, or innermost by option); the sender's MAC if the frame is
				   * not IP or IP was cut off */
	uint32_t bytes;           /* link-layer bytes without FCS */
	uint32_t wire_bytes;      /* Ethernet: max(bytes, 60) + 24 for each wire frame; a link without Ethernet
				   * framing: the same, for the bytes of its payload + 14 (for an unknown link type,
				   * all bytes are payload) */
	uint64_t flow;            /* fingerprint of family, both addresses, protocol and ports (TCP, UDP, UDP-Lite,
				   * SCTP, DCCP; 0 for others); all fragments of a datagram have the fingerprint of
				   * addresses and protocol; 0 if not IP */
	union {
		uint32_t tcp_seq;       /* first sequence number */
		uint32_t pause_quanta;  /* the longest pause that it requests for a class, in quanta of 512 bit times;
					 * 0: it ends pauses */
	};
	union {
		uint32_t tcp_len;       /* length in sequence space: payload, SYN and FIN */
		uint32_t pause_classes; /* bit i: class i is paused; all eight classes by 802.3x */
	};
	uint8_t marks;            /* enum mb_mark */
	uint8_t direction;        /* enum mb_direction from the link header (cooked), else from the frame */
	uint16_t quality;         /* set by the engine: enum mb_quality of frame, interface and marks */
	uint32_t ports;           /* source << 16 | destination, as in `flow`; 0 if there are none */
};

struct mb_decode_options {
	struct mb_seed seed; /* for the fingerprints of flows */
	/* Use the innermost readable IP header of a tunnel (IP in IP, GRE, ERSPAN, VXLAN, Geneve, …) instead of the
	 * outermost. Fragments of a tunnel are not decoded. If an MPLS label stack carries something other than IP, the
	 * frame does not identify it, and it is not guessed. */
	bool inner;
	/* Largest L3 size of one wire frame, 0 if unknown. Larger TCP and UDP packets are merged; so are packets with a
	 * gso_size that they exceed. */
	uint32_t mtu;
};

/* Decode COUNT frames, all of the same INTERFACE, into PACKETS. */
void mb_decode(const struct mb_frame *frames, uint32_t count, const struct mb_interface *interface,
	       const struct mb_decode_options *options, struct mb_packet *packets);

/* Sender and receiver MAC of an Ethernet frame, or only the sender of a cooked one (receiver is then 0). Returns false
 * if the link has no MACs or they are cut off. */
bool mb_decode_macs(const struct mb_frame *frame, const struct mb_interface *interface, uint64_t *sender,
		    uint64_t *receiver);

/* Destination in the IP header whose source mb_decode() takes. Returns false if the frame is not IP. */
bool mb_decode_destination(const struct mb_frame *frame, const struct mb_interface *interface,
			   const struct mb_decode_options *options, struct mb_address *destination);

#define MB_ADDRESS_TEXT 48
/* Write ADDRESS as text (RFC 5952 for IPv6, aa:bb:cc:dd:ee:ff for a MAC, empty for none). Returns its length. */
int mb_address_format(const struct mb_address *address, char text[MB_ADDRESS_TEXT]);
/* Parse such a text; a MAC may have '-' instead of ':'. Returns false if it is invalid. */
bool mb_address_parse(const char *text, struct mb_address *address);

#endif

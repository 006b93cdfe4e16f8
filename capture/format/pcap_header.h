/* SPDX-License-Identifier: Apache-2.0
 *
 * The header of a pcap file, and the variant of the format in which its records are written:
 *
 * - microseconds and nanoseconds, both byte orders
 * - Kuznetzov's "modified" records with a header of 24 bytes (also under the plain magic: Red Hat 6.1) or 28
 *   (SuSE 6.3), Nokia's with 20
 * - Ixia's lcap, hardware and software: 4 more bytes of file header
 * - before version 2.3, and DG/UX's 543.0: the two lengths in reverse order; 2.3: in either
 * - AIX: version 2.2, interface types of RFC 1573, nanoseconds
 *
 * Variants with the same magic are distinguished as in Wireshark, by which of them makes the first records look sane.
 * In a stream, which cannot be read ahead, the usual variant is assumed, as in libpcap.
 */
#ifndef MB_PCAP_HEADER_H
#define MB_PCAP_HEADER_H

#include <stdbool.h>
#include <stdint.h>

#include "error.h"
#include "format/input.h"
#include "frame_view.h"

#define MB_PCAP_MAGIC 0xa1b2c3d4 /* of the usual variant, which has microseconds */

enum mb_pcap_order {
	MB_PCAP_CAPLEN_FIRST, /* captured length, then the frame's */
	MB_PCAP_LEN_FIRST,
	MB_PCAP_EITHER, /* the smaller length is the captured one */
};

struct mb_pcap_variant {
	uint32_t header;      /* bytes of a record's header */
	uint32_t fraction_ns; /* unit of the fraction of a second: 1 or 1000 ns */
	uint32_t padding;     /* bytes before the frame that both lengths count */
	enum mb_pcap_order order;
	bool swapped;
};

struct mb_pcap_header {
	struct mb_pcap_variant variant;
	uint32_t linktype;
	uint32_t snaplen; /* 0: not limited */
	uint32_t fcs_len; /* bytes; 0 if the file does not state it */
};

bool mb_pcap_header_matches(const uint8_t magic[4]);

/* Whether the first 8 bytes of a header are AT: a magic, and a known version. */
bool mb_pcap_header_begins(const uint8_t at[8]);

/* Whether the header of a file is AT, where a record could be: it begins as one, and has an accuracy of 0, as every writer
 * has it, in place of a record's second length. */
bool mb_pcap_header_is_at(const uint8_t at[MB_PCAP_RECORD_HEADER]);

/* Read the header at the position of INPUT. Returns enum mb_supply (never SHORT) or a negative errno. */
int mb_pcap_header_read(struct mb_input *input, struct mb_pcap_header *header, struct mb_error *error);

#endif

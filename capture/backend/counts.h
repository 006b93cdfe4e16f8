/* SPDX-License-Identifier: Apache-2.0
 *
 * The output of a backend that counts by itself: closed bins, and the senders in them. It yields no frames.
 */
#ifndef MB_COUNTS_H
#define MB_COUNTS_H

#include <stdbool.h>
#include <stdint.h>

#include "decode/decode.h"

enum mb_count_kind {
	MB_COUNT_BIN,    /* all packets of a bin */
	MB_COUNT_SENDER, /* packets of one flow in a bin of sources; there may be several for a flow */
	MB_COUNT_OTHERS, /* packets in a bin of sources that had no room for their senders */
	MB_COUNT_MERGED, /* a merged frame of the bin just before, if merged frames are to be spread over time */
};

struct mb_count {
	int64_t start_ns;          /* start of the bin, in system time; a multiple of its width */
	int64_t first_ns, last_ns; /* stamps of the first and the last packet */
	uint64_t bytes;            /* of the link layer, without FCS */
	uint64_t wire_bytes;       /* only for bins and merged frames */
	uint32_t packets, cnp_packets;
	uint32_t ce_packets, merged, retransmits; /* only for bins */
	struct mb_address source;  /* only for senders, as are flow and ports; all as in struct mb_packet */
	uint64_t flow;
	uint32_t ports;
	uint16_t quality;          /* enum mb_quality */
	uint8_t kind;              /* enum mb_count_kind */
	uint8_t direction;         /* enum mb_direction */
};

#define MB_COUNTS 128

/* In each direction, no bin begins before one that precedes it here; of two bins that begin together, the wider is
 * first. */
struct mb_counts {
	uint32_t count;
	bool stepped;      /* the clock was set: an epoch ends before these counts */
	int64_t passed_ns; /* every bin that ends before this was yielded; 0 if unknown */
	struct mb_count counts[MB_COUNTS];
};

#endif

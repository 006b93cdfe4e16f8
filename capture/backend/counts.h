/* SPDX-License-Identifier: Apache-2.0
 *
 * What a backend yields that counts by itself: closed bins, and what was sent in them. Frames it has none.
 */
#ifndef MB_COUNTS_H
#define MB_COUNTS_H

#include <stdbool.h>
#include <stdint.h>

#include "decode/decode.h"

enum mb_count_kind {
	MB_COUNT_BIN,    /* all packets of a bin */
	MB_COUNT_SENDER, /* packets of one flow in a bin of sources; there may be several for a flow */
	MB_COUNT_OTHERS, /* packets in a bin of sources whose senders found no room */
	MB_COUNT_MERGED, /* a merged frame of the bin just ahead, where these are to be spread over time */
};

struct mb_count {
	int64_t start_ns;          /* of the bin, in system time; a multiple of its width */
	int64_t first_ns, last_ns; /* stamps of the first and the last packet */
	uint64_t bytes;            /* of L2 without FCS */
	uint64_t wire_bytes;       /* of bins and merged frames alone */
	uint32_t packets, cnp_packets;
	uint32_t ce_packets, merged, retransmits; /* of bins alone */
	struct mb_address source;  /* of senders alone, and so are flow and ports, all as in struct mb_packet */
	uint64_t flow;
	uint32_t ports;
	uint16_t quality;          /* enum mb_quality */
	uint8_t kind;              /* enum mb_count_kind */
	uint8_t direction;         /* enum mb_direction */
};

#define MB_COUNTS 128

/* In each direction no bin begins before one ahead of it; of two that begin at once the wider one is ahead. */
struct mb_counts {
	uint32_t count;
	bool stepped;      /* the clock was set: an epoch ends before these */
	int64_t passed_ns; /* every bin that ends before this has been yielded; 0 when not known */
	struct mb_count counts[MB_COUNTS];
};

#endif

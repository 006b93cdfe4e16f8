/* SPDX-License-Identifier: Apache-2.0
 *
 * An interface of a pcapng section: its clock, and the losses that the file reports.
 * https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcapng/ sections 4.2, 4.3 and 4.6.
 */
#ifndef MB_PCAPNG_INTERFACE_H
#define MB_PCAPNG_INTERFACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bytes.h"
#include "compiler.h"
#include "frame.h"

/* --- options of a block --- */

struct mb_pcapng_option {
	uint16_t code, length;
	const uint8_t *value;
};

/* Take the option at *AT and move behind it. Returns 1; 0 at the end of the options; -1 if the option claims more than
 * the block has. */
int mb_pcapng_next_option(const uint8_t **at, const uint8_t *end, bool swapped, struct mb_pcapng_option *option);

/* --- clock --- */

/* A stamp, in units of the clock: two halves, the high one first. */
static mb_inline uint64_t mb_pcapng_load_stamp(const uint8_t *at, bool swapped)
{
	return (uint64_t)mb_load32(at, swapped) << 32 | mb_load32(at + 4, swapped);
}

struct mb_pcapng_clock {
	uint8_t resolution; /* if_tsresol: 10^-n s, or 2^-(n-128) s from 128 on */
	int64_t offset_s;   /* if_tsoffset */
	uint64_t limit;     /* stamps below it are raw * multiply + offset_ns, exactly */
	uint64_t multiply;
	int64_t offset_ns;
};

void mb_pcapng_clock_init(struct mb_pcapng_clock *clock, uint8_t resolution, int64_t offset_s);
/* Unix nanoseconds of RAW units, rounded down. Returns false if an int64 cannot hold them. */
bool mb_pcapng_clock_ns(const struct mb_pcapng_clock *clock, uint64_t raw, int64_t *ns);
/* Whether its resolution is 1 us or coarser. */
bool mb_pcapng_clock_is_coarse(const struct mb_pcapng_clock *clock);

/* --- losses --- */

struct mb_pcapng_loss {
	uint64_t packets;
	int64_t first_ns, last_ns; /* span in which all packets were lost, unless `adrift` */
	bool adrift;     /* some were lost at a time that the file does not state */
};

void mb_pcapng_loss_add(struct mb_pcapng_loss *loss, const struct mb_pcapng_loss *more);

/* --- interface --- */

#define MB_PCAPNG_FCS_LENGTHS 16 /* epb_flags has 4 bits for it */

struct mb_pcapng_interface {
	struct mb_pcapng_clock clock;
	uint32_t snaplen, max_caplen;
	int index;     /* in the reader's list */
	int index_by_fcs[MB_PCAPNG_FCS_LENGTHS]; /* the same, for packets that state their FCS, or -1 */
	bool has_last;
	int64_t last_ns;  /* of its latest packet */
	struct mb_pcapng_loss counted; /* as reported by packets (epb_dropcount) */
	struct mb_pcapng_loss reported; /* as reported by statistics (isb_ifdrop, isb_osdrop) */
	uint64_t statistic;  /* latest statistic; they count from the start */
	bool has_statistic;
	int64_t statistic_ns;
};

/* Read the body [at, end) of an interface description block into both structs (the public one without `index`). Returns
 * false if an option exceeds the block. */
bool mb_pcapng_interface_parse(const uint8_t *at, const uint8_t *end, bool swapped,
			       struct mb_pcapng_interface *interface, struct mb_interface *described);

/* Record that COUNT packets were lost between the interface's latest packet and the one at TS_NS. */
void mb_pcapng_interface_lost(struct mb_pcapng_interface *interface, uint64_t count, int64_t ts_ns);

/* Read the timestamp and options [at, end) of an interface statistics block. */
bool mb_pcapng_interface_statistics(struct mb_pcapng_interface *interface, const uint8_t *at, const uint8_t *end,
				    bool swapped);

/* The losses of the interface: both reports are about the same packets, so the larger one counts. */
const struct mb_pcapng_loss *mb_pcapng_interface_loss(const struct mb_pcapng_interface *interface);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The parser of pcapng files, https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcapng/: pcapng.c walks the blocks,
 * pcapng_section.c holds the interfaces of a section, pcapng_packet.c extracts packets from their blocks.
 */
#ifndef MB_PCAPNG_H
#define MB_PCAPNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "format/pcapng_codes.h"
#include "format/pcapng_interface.h"
#include "format/reader.h"
#include "frame.h"

#define MB_PCAPNG_GO_ON 1 /* returned by the functions below on success */

struct mb_pcapng {
	bool swapped;    /* the section's byte order is not this machine's */
	struct mb_pcapng_interface *interfaces; /* of the section */
	size_t count, room;
	struct mb_interface_index tally; /* of their names */
	uint32_t max_caplen;     /* the longest frame that any of them may have */
	struct mb_pcapng_loss lost; /* losses in earlier sections */
	uint64_t block_offset;     /* offset of the current block, for messages */
	uint32_t trailer;     /* length at the end of the block that is being skipped; 0: none */
	int64_t last_ns;     /* latest stamp of all packets */
	uint64_t unstamped;     /* simple packets, which have no stamp */
};

/* A block that is in the window as a whole. */
struct mb_pcapng_block {
	uint32_t type, length;
	const uint8_t *body, *end; /* without type and lengths */
};

/* Fail for the current block: "FILE: byte N: …". */
int mb_pcapng_damaged(const struct mb_reader *reader, struct mb_error *error, const char *format, ...)
	__attribute__((format(printf, 3, 4), cold));

/* --- pcapng_section.c --- */

int mb_pcapng_take_interface(struct mb_reader *reader, const struct mb_pcapng_block *block, struct mb_error *error);
int mb_pcapng_take_statistics(struct mb_reader *reader, const struct mb_pcapng_block *block, struct mb_error *error);
/* Returns the index in the reader's list for packets of INTERFACE that state an FCS of FCS_LEN bytes (0: none is
 * stated), or a negative errno. */
int mb_pcapng_index_for_fcs(struct mb_reader *reader, struct mb_pcapng_interface *interface, uint32_t fcs_len,
			    struct mb_error *error);
/* Forget the interfaces, but keep their losses. */
void mb_pcapng_end_section(struct mb_pcapng *pcapng);
/* The losses so far. */
struct mb_pcapng_loss mb_pcapng_lost(const struct mb_pcapng *pcapng);

/* --- pcapng_packet.c --- */

/* Take enhanced packet blocks from the window into BATCH while they are simple: complete, sane, and without options. */
void mb_pcapng_scan(struct mb_reader *reader, struct mb_batch *batch);
/* Take one packet block of any kind. */
int mb_pcapng_take_packet(struct mb_reader *reader, const struct mb_pcapng_block *block, struct mb_batch *batch,
			  struct mb_error *error);

#endif

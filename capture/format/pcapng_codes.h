/* SPDX-License-Identifier: Apache-2.0
 *
 * The numbers of https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcapng/ that the reader and the writer of pcapng
 * share: types of blocks (section 4), and codes of options (section 3.5 and, of a block, the section of that block).
 */
#ifndef MB_PCAPNG_CODES_H
#define MB_PCAPNG_CODES_H

#include <stddef.h>
#include <stdint.h>

enum mb_pcapng_type {
	MB_PCAPNG_INTERFACE_DESCRIPTION = 1,
	MB_PCAPNG_PACKET = 2, /* obsolete, but written for years */
	MB_PCAPNG_SIMPLE_PACKET = 3,
	MB_PCAPNG_INTERFACE_STATISTICS = 5,
	MB_PCAPNG_ENHANCED_PACKET = 6,
	MB_PCAPNG_SECTION_HEADER = 0x0a0d0d0a,
};

/* In a section header, in the byte order of the section. */
#define MB_PCAPNG_BYTE_ORDER_MAGIC 0x1a2b3c4du

/* Except for those of all blocks, a code is that of one kind of block: another kind may have the same one. */
enum mb_pcapng_option_code {
	/* all blocks */
	MB_PCAPNG_END_OF_OPTIONS = 0,
	MB_PCAPNG_COMMENT = 1,
	/* section header (4.1) */
	MB_PCAPNG_SHB_USERAPPL = 4,
	/* interface description (4.2) */
	MB_PCAPNG_IF_NAME = 2,
	MB_PCAPNG_IF_SPEED = 8,
	MB_PCAPNG_IF_TSRESOL = 9,
	MB_PCAPNG_IF_FCSLEN = 13,
	MB_PCAPNG_IF_TSOFFSET = 14,
	MB_PCAPNG_IF_TXSPEED = 16,
	MB_PCAPNG_IF_RXSPEED = 17,
	/* interface statistics (4.6) */
	MB_PCAPNG_ISB_STARTTIME = 2,
	MB_PCAPNG_ISB_ENDTIME = 3,
	MB_PCAPNG_ISB_IFRECV = 4,
	MB_PCAPNG_ISB_IFDROP = 5,
	MB_PCAPNG_ISB_OSDROP = 7,
	/* enhanced packet (4.3) */
	MB_PCAPNG_EPB_FLAGS = 2,
	MB_PCAPNG_EPB_DROPCOUNT = 4,
};

/* Bytes that LENGTH bytes of a packet or of an option take in a block: a multiple of four. */
static inline size_t mb_pcapng_padded(size_t length)
{
	return (length + 3) & ~(size_t)3;
}

#endif

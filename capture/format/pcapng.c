/* SPDX-License-Identifier: Apache-2.0 */
#include "format/pcapng.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "bytes.h"
#include "format/appended.h"
#include "format/pcap_header.h"

#define MIN_BLOCK 12 /* type, length, length again */
#define MAX_BLOCK ((uint32_t)256 << 20)
#define MAX_OPTIONS ((uint32_t)1 << 20) /* of a block that must be in memory as a whole */
#define MIN_SECTION_HEADER 28
#define BLOCKS_A_LOOK 256 /* blocks without a frame between checks of the clock */

int mb_pcapng_damaged(const struct mb_reader *reader, struct mb_error *error, const char *format, ...)
{
	const struct mb_pcapng *pcapng = reader->state;
	char what[160];
	va_list arguments;

	if (mb_input_check(&reader->input, error) < 0)
		return -EIO;
	va_start(arguments, format);
	vsnprintf(what, sizeof(what), format, arguments);
	va_end(arguments);
	return mb_fail(error, EBADMSG, "%s: byte %" PRIu64 "%s: %s", reader->input.name, pcapng->block_offset,
		       mb_input_place(&reader->input), what);
}

/* Report irregularities in a file that could otherwise be read. */
static int end_of_blocks(struct mb_reader *reader, struct mb_error *error)
{
	const struct mb_pcapng *pcapng = reader->state;
	const struct mb_input *input = &reader->input;
	bool is_cut = input->at < input->end || input->skip || pcapng->trailer;
	int length = 0;

	if (mb_input_check(input, error) < 0)
		return -EIO;
	if (is_cut)
		length = snprintf(reader->notice, sizeof(reader->notice),
				  "%s: cut off in the block at byte %" PRIu64 "%s", input->name, pcapng->block_offset,
				  mb_input_place(input));
	if (pcapng->unstamped && length < (int)sizeof(reader->notice))
		snprintf(reader->notice + length, sizeof(reader->notice) - (size_t)length,
			 "%s%s: packets without a time stamp, which were given that of the packet before: "
			 "%" PRIu64,
			 length ? "; " : "", input->name, pcapng->unstamped);
	return MB_BACKEND_END;
}

/* Make NEED bytes of the window available; if BATCH has frames, which lie in the window, only bytes that are already
 * there. */
static int require(struct mb_reader *reader, const struct mb_batch *batch, size_t need, struct mb_error *error)
{
	struct mb_input *input = &reader->input;
	int supply;

	if (!input->skip && (size_t)(input->end - input->at) >= need)
		return MB_PCAPNG_GO_ON;
	if (batch->count)
		return 0;
	supply = mb_input_need(input, need, error);
	if (supply == MB_SUPPLY_READY)
		return MB_PCAPNG_GO_ON;
	if (supply != MB_SUPPLY_SHORT)
		return supply == MB_SUPPLY_LATE ? 0 : supply < 0 ? supply : MB_BACKEND_END;
	return end_of_blocks(reader, error);
}

static int bad_trailer(struct mb_reader *reader, uint32_t length, uint32_t trailer, struct mb_error *error)
{
	return mb_pcapng_damaged(reader, error, "block of %" PRIu32 " bytes ends with a length of %" PRIu32, length,
				 trailer);
}

/* Begin to skip the rest of the block; its end is checked once it has arrived. */
static int skip_block(struct mb_reader *reader, const struct mb_pcapng_block *block)
{
	struct mb_pcapng *pcapng = reader->state;

	pcapng->trailer = block->length;
	mb_input_skip(&reader->input, block->length - 4);
	return MB_PCAPNG_GO_ON;
}

static int end_skipped_block(struct mb_reader *reader, const struct mb_batch *batch, struct mb_error *error)
{
	struct mb_pcapng *pcapng = reader->state;
	int result = require(reader, batch, 4, error);
	uint32_t trailer;

	if (result != MB_PCAPNG_GO_ON)
		return result;
	trailer = mb_load32(reader->input.at, reader->swapped);
	if (trailer != pcapng->trailer)
		return bad_trailer(reader, pcapng->trailer, trailer, error);
	pcapng->trailer = 0;
	mb_input_skip(&reader->input, 4);
	return MB_PCAPNG_GO_ON;
}

static int section_header(struct mb_reader *reader, const struct mb_batch *batch, struct mb_error *error)
{
	struct mb_pcapng *pcapng = reader->state;
	struct mb_pcapng_block block = { .type = MB_PCAPNG_SECTION_HEADER };
	const uint8_t *at;
	uint32_t order;
	uint16_t major, minor;
	bool swapped;
	int result = require(reader, batch, MIN_SECTION_HEADER, error);

	if (result != MB_PCAPNG_GO_ON)
		return result;
	at = reader->input.at;
	order = mb_load32(at + 8, false);
	swapped = order != MB_PCAPNG_BYTE_ORDER_MAGIC;
	if (swapped && mb_load32(at + 8, true) != MB_PCAPNG_BYTE_ORDER_MAGIC)
		return mb_pcapng_damaged(reader, error, "section header without a byte-order magic (%08" PRIx32 ")",
					 order);
	block.length = mb_load32(at + 4, swapped);
	if (block.length < MIN_SECTION_HEADER || block.length > MAX_BLOCK || block.length % 4)
		return mb_pcapng_damaged(reader, error, "section header block of %" PRIu32 " bytes", block.length);
	major = mb_load16(at + 12, swapped);
	minor = mb_load16(at + 14, swapped);
	if (major != 1 || (minor != 0 && minor != 2))
		return mb_pcapng_damaged(reader, error, "pcapng version %u.%u, but only 1.0 and 1.2 are known", major,
					 minor);
	mb_pcapng_end_section(pcapng);
	reader->swapped = swapped;
	return skip_block(reader, &block);
}

static int whole_block(struct mb_reader *reader, struct mb_pcapng_block *block, struct mb_batch *batch,
		       struct mb_error *error)
{
	struct mb_pcapng *pcapng = reader->state;
	uint32_t trailer;
	int result;

	if (block->length > pcapng->max_caplen + MAX_OPTIONS)
		return mb_pcapng_damaged(reader, error, "block of type %" PRIu32 " claims %" PRIu32 " bytes",
					 block->type, block->length);
	result = require(reader, batch, block->length, error);
	if (result != MB_PCAPNG_GO_ON)
		return result;
	block->body = reader->input.at + 8;
	block->end = reader->input.at + block->length - 4;
	trailer = mb_load32(block->end, reader->swapped);
	if (trailer != block->length)
		return bad_trailer(reader, block->length, trailer, error);
	if (block->type == MB_PCAPNG_INTERFACE_DESCRIPTION)
		result = mb_pcapng_take_interface(reader, block, error);
	else if (block->type == MB_PCAPNG_INTERFACE_STATISTICS)
		result = mb_pcapng_take_statistics(reader, block, error);
	else
		result = mb_pcapng_take_packet(reader, block, batch, error);
	if (result == MB_PCAPNG_GO_ON)
		reader->input.at += block->length;
	return result;
}

/* Make the head of a block available, unless one must still be skipped. */
static int begin_block(struct mb_reader *reader, const struct mb_batch *batch, struct mb_error *error)
{
	struct mb_pcapng *pcapng = reader->state;

	if (pcapng->trailer)
		return MB_PCAPNG_GO_ON;
	pcapng->block_offset = mb_input_offset(&reader->input, reader->input.at);
	return require(reader, batch, MIN_BLOCK, error);
}

/* Refuse a pcap file that was appended. No valid block that begins as its header is shorter than that. */
static int refuse_pcap(struct mb_reader *reader, const struct mb_batch *batch, struct mb_error *error)
{
	int result;

	if (!mb_pcap_header_begins(reader->input.at))
		return MB_PCAPNG_GO_ON;
	result = require(reader, batch, MB_PCAP_RECORD_HEADER, error);
	if (result != MB_PCAPNG_GO_ON || !mb_appended_is_at(&reader->input))
		return result;
	return mb_appended_refuse(&reader->input, error);
}

/* Read one block of any kind. Returns MB_PCAPNG_GO_ON, or the result of read(). A failure changes nothing, so that
 * another call fails again. */
static int next_block(struct mb_reader *reader, struct mb_batch *batch, struct mb_error *error)
{
	struct mb_pcapng *pcapng = reader->state;
	struct mb_pcapng_block block;
	int result = begin_block(reader, batch, error);

	if (result != MB_PCAPNG_GO_ON)
		return result;
	if (pcapng->trailer)
		return end_skipped_block(reader, batch, error);
	block.type = mb_load32(reader->input.at, reader->swapped);
	if (block.type == MB_PCAPNG_SECTION_HEADER)
		return section_header(reader, batch, error);
	result = refuse_pcap(reader, batch, error);
	if (result != MB_PCAPNG_GO_ON)
		return result;
	block.length = mb_load32(reader->input.at + 4, reader->swapped);
	if (block.length < MIN_BLOCK || block.length > MAX_BLOCK || block.length % 4)
		return mb_pcapng_damaged(reader, error, "block of type %" PRIu32 " claims %" PRIu32 " bytes",
					 block.type, block.length);
	switch (block.type) {
	case MB_PCAPNG_INTERFACE_DESCRIPTION:
	case MB_PCAPNG_INTERFACE_STATISTICS:
	case MB_PCAPNG_ENHANCED_PACKET:
	case MB_PCAPNG_PACKET:
	case MB_PCAPNG_SIMPLE_PACKET:
		return whole_block(reader, &block, batch, error);
	default: /* names, secrets, custom blocks, and types of the future */
		return skip_block(reader, &block);
	}
}

/* --- the format --- */

static bool pcapng_matches(const uint8_t magic[MB_FORMAT_MAGIC])
{
	return mb_load32(magic, false) == MB_PCAPNG_SECTION_HEADER;
}

static bool is_packet(uint32_t type)
{
	return type == MB_PCAPNG_ENHANCED_PACKET || type == MB_PCAPNG_PACKET || type == MB_PCAPNG_SIMPLE_PACKET;
}

/* Read the blocks before the first packet, so that a file names its interfaces, or turns out to have none, when it is
 * opened. It stops at the time limit for opening; read() does the rest. */
static int read_preamble(struct mb_reader *reader, struct mb_error *error)
{
	const struct mb_pcapng *pcapng = reader->state;
	struct mb_batch none = { .count = 0 };
	uint32_t blocks = 0;
	int result;

	do {
		if (++blocks % BLOCKS_A_LOOK == 0 && mb_input_is_late(&reader->input))
			break;
		result = begin_block(reader, &none, error);
		if (result == MB_PCAPNG_GO_ON && !pcapng->trailer &&
		    is_packet(mb_load32(reader->input.at, reader->swapped)))
			return MB_SUPPLY_READY;
		if (result == MB_PCAPNG_GO_ON)
			result = next_block(reader, &none, error);
	} while (result == MB_PCAPNG_GO_ON);
	return result < 0 && result != MB_BACKEND_END ? result : MB_SUPPLY_READY;
}

static int pcapng_open(struct mb_reader *reader, struct mb_error *error)
{
	reader->state = calloc(1, sizeof(struct mb_pcapng));
	if (!reader->state)
		return mb_fail(error, ENOMEM, "%s: out of memory", reader->input.name);
	return reader->input.regular ? read_preamble(reader, error) : MB_SUPPLY_READY;
}

static int pcapng_read(struct mb_reader *reader, struct mb_batch *batch, struct mb_error *error)
{
	const struct mb_pcapng *pcapng = reader->state;
	uint64_t span_end = mb_input_offset(&reader->input, reader->input.at) + MB_BATCH_SPAN;
	int result = MB_PCAPNG_GO_ON;
	uint32_t blocks = 0;

	mb_input_release(&reader->input);
	while (result == MB_PCAPNG_GO_ON && batch->count < MB_BATCH_FRAMES &&
	       (!batch->count || mb_input_offset(&reader->input, reader->input.at) < span_end)) {
		if (!pcapng->trailer)
			mb_pcapng_scan(reader, batch);
		if (batch->count < MB_BATCH_FRAMES)
			result = next_block(reader, batch, error);
		if (++blocks % BLOCKS_A_LOOK == 0 && result == MB_PCAPNG_GO_ON && mb_input_is_late(&reader->input))
			result = 0;
	}
	return batch->count ? (int)batch->count : result;
}

static void pcapng_stats(const struct mb_reader *reader, struct mb_backend_stats *stats)
{
	const struct mb_pcapng_loss lost = mb_pcapng_lost(reader->state);

	stats->dropped = lost.packets;
	stats->drop_first_ns = lost.adrift ? 0 : lost.first_ns;
	stats->drop_last_ns = lost.adrift ? 0 : lost.last_ns;
}

static void pcapng_close(struct mb_reader *reader)
{
	struct mb_pcapng *pcapng = reader->state;

	free(pcapng->interfaces);
	mb_interface_index_deinit(&pcapng->tally);
	free(pcapng);
}

const struct mb_format mb_format_pcapng = {
	.name = "pcapng",
	.matches = pcapng_matches,
	.open = pcapng_open,
	.read = pcapng_read,
	.stats = pcapng_stats,
	.close = pcapng_close,
};

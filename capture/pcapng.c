/* SPDX-License-Identifier: Apache-2.0
 *
 * pcapng files: https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcapng/
 */
#include "reader.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "pcapng_interface.h"

#define SECTION_HEADER 0x0a0d0d0a
#define INTERFACE_DESCRIPTION 1
#define PACKET 2 /* obsolete, but written for years */
#define SIMPLE_PACKET 3
#define INTERFACE_STATISTICS 5
#define ENHANCED_PACKET 6

#define BYTE_ORDER_MAGIC 0x1a2b3c4d
#define MIN_BLOCK 12					/* type, length, length again */
#define MAX_BLOCK (((uint32_t)128 << 20) + (128 << 10)) /* the longest frame and its options */
#define MIN_SECTION_HEADER 28
#define MIN_INTERFACE_DESCRIPTION 20
#define MIN_PACKET 32 /* enhanced and obsolete */
#define MIN_SIMPLE_PACKET 16
#define MIN_STATISTICS 24

#define PREFETCH 2048 /* as in pcap.c */

enum { EPB_FLAGS = 2, EPB_DROPCOUNT = 4 };

struct pcapng {
	bool swapped;				/* the section's byte order is not this machine's */
	struct mb_pcapng_interface *interfaces; /* of the section */
	size_t count, room;
	struct mb_pcapng_loss lost; /* in the sections before */
	uint64_t block_offset;
	uint32_t trailer;   /* length that a skipped block has to end with; 0: none */
	int64_t last_ns;    /* latest stamp of any packet */
	uint64_t unstamped; /* simple packets, which have no stamp */
};

/* The block at which the input stands. */
struct block {
	uint32_t type, length;
	const uint8_t *body, *end; /* when all of it is in the window */
};

#define GO_ON 1 /* besides what read() returns */

static int __attribute__((format(printf, 4, 5)))
damaged(const struct mb_reader *reader, const struct pcapng *pcapng, struct mb_error *error,
	const char *format, ...)
{
	char what[160];
	va_list arguments;

	if (mb_input_check(&reader->input, error) < 0)
		return -EIO;
	va_start(arguments, format);
	vsnprintf(what, sizeof(what), format, arguments);
	va_end(arguments);
	return mb_fail(error, EBADMSG, "%s: byte %" PRIu64 "%s: %s", reader->input.name,
		       pcapng->block_offset, mb_input_place(&reader->input), what);
}

/* --- interfaces --- */

static bool is_taken(const struct pcapng *pcapng, int index)
{
	for (size_t i = 0; i < pcapng->count; i++)
		if (pcapng->interfaces[i].index == index)
			return true;
	return false;
}

/* An interface that a section describes again is still the same one. */
static int list_interface(struct mb_reader *reader, const struct mb_interface *described)
{
	int index = mb_interfaces_find(&reader->interfaces, described);

	if (index >= 0 && !is_taken(reader->state, index))
		return index;
	return mb_interfaces_add(&reader->interfaces, described);
}

static int cannot_list(const struct mb_reader *reader, int code, struct mb_error *error)
{
	if (code == -E2BIG)
		return damaged(reader, reader->state, error, "more than 65,536 interfaces");
	return mb_fail(error, -code, "%s: out of memory", reader->input.name);
}

static int interface_description(struct mb_reader *reader, const struct block *block,
				 struct mb_error *error)
{
	struct pcapng *pcapng = reader->state;
	struct mb_pcapng_interface interface;
	struct mb_interface described;

	if (block->length < MIN_INTERFACE_DESCRIPTION)
		return damaged(reader, pcapng, error,
			       "interface description block of %" PRIu32 " bytes is too short",
			       block->length);
	if (!mb_pcapng_interface_parse(block->body, block->end, pcapng->swapped, &interface,
				       &described))
		return damaged(
			reader, pcapng, error,
			"an option of the interface description block is longer than the block");
	if (pcapng->count == pcapng->room) {
		size_t room = pcapng->room ? 2 * pcapng->room : 4;
		void *interfaces = realloc(pcapng->interfaces, room * sizeof(*pcapng->interfaces));

		if (!interfaces)
			return cannot_list(reader, -ENOMEM, error);
		pcapng->interfaces = interfaces;
		pcapng->room = room;
	}
	interface.index = list_interface(reader, &described);
	if (interface.index < 0)
		return cannot_list(reader, interface.index, error);
	if (described.fcs_len < MB_PCAPNG_FCS_LENGTHS)
		interface.index_by_fcs[described.fcs_len] = interface.index;
	pcapng->interfaces[pcapng->count++] = interface;
	return GO_ON;
}

/* Packets whose flags tell another FCS than their interface are listed as another interface of
 * that name, because `fcs_len` holds for every frame of one. */
static int index_for_fcs(struct mb_reader *reader, struct mb_pcapng_interface *interface,
			 uint32_t fcs_len)
{
	int index = interface->index_by_fcs[fcs_len];

	if (index < 0) {
		struct mb_interface described = reader->interfaces.list[interface->index];

		described.fcs_len = fcs_len;
		index = list_interface(reader, &described);
		interface->index_by_fcs[fcs_len] = index;
	}
	return index;
}

static void end_section(struct pcapng *pcapng)
{
	for (size_t i = 0; i < pcapng->count; i++)
		mb_pcapng_loss_add(&pcapng->lost, mb_pcapng_interface_loss(&pcapng->interfaces[i]));
	pcapng->count = 0;
}

/* --- packets --- */

struct packet {
	uint32_t interface, caplen, len;
	uint64_t raw_ts;
	uint64_t lost;
	uint32_t flags;
	const uint8_t *data;
};

static inline __attribute__((always_inline)) struct packet load_enhanced(const uint8_t *block,
									 bool swapped)
{
	return (struct packet){
		.interface = mb_load32(block + 8, swapped),
		.raw_ts = (uint64_t)mb_load32(block + 12, swapped) << 32 |
			  mb_load32(block + 16, swapped),
		.caplen = mb_load32(block + 20, swapped),
		.len = mb_load32(block + 24, swapped),
		.data = block + 28,
	};
}

static inline void put_frame(struct mb_batch *batch, const struct packet *packet, int64_t ts_ns,
			     int interface, uint8_t direction, uint8_t quality)
{
	batch->frames[batch->count++] = (struct mb_frame){
		.ts_ns = ts_ns,
		.data = packet->data,
		.caplen = packet->caplen,
		.len = packet->len,
		.interface = (uint16_t)interface,
		.direction = direction,
		.quality = quality,
	};
}

/* The loop over enhanced packet blocks without options that are whole and sane; next_block()
 * looks at everything else. */
static inline __attribute__((always_inline)) void scan(struct mb_reader *reader,
						       struct mb_batch *batch, const bool swapped)
{
	struct pcapng *pcapng = reader->state;
	const uint8_t *at = reader->input.at, *end = reader->input.end;
	int64_t ts_ns = pcapng->last_ns;

	while (batch->count < MB_BATCH_FRAMES && end - at >= MIN_PACKET &&
	       mb_load32(at, swapped) == ENHANCED_PACKET) {
		uint32_t length = mb_load32(at + 4, swapped);
		struct packet packet = load_enhanced(at, swapped);
		struct mb_pcapng_interface *interface;

		if (packet.interface >= pcapng->count)
			break;
		interface = &pcapng->interfaces[packet.interface];
		if (packet.caplen > interface->max_caplen ||
		    length != MIN_PACKET + ((packet.caplen + 3) & ~3u) ||
		    length > (size_t)(end - at) || mb_load32(at + length - 4, swapped) != length ||
		    packet.raw_ts >= interface->clock.limit)
			break;
		__builtin_prefetch(at + PREFETCH);
		ts_ns = (int64_t)(packet.raw_ts * interface->clock.multiply) +
			interface->clock.offset_ns;
		interface->last_ns = ts_ns;
		interface->has_last = true;
		put_frame(batch, &packet, ts_ns, interface->index, MB_DIRECTION_UNKNOWN, 0);
		at += length;
	}
	pcapng->last_ns = ts_ns;
	reader->input.at = at;
}

static int packet_options(struct mb_reader *reader, const struct block *block,
			  struct packet *packet, struct mb_error *error)
{
	struct pcapng *pcapng = reader->state;
	const uint8_t *at = packet->data + ((packet->caplen + 3) & ~3u);
	struct mb_pcapng_option option;
	int more;

	while ((more = mb_pcapng_next_option(&at, block->end, pcapng->swapped, &option)) > 0) {
		uint16_t wanted = option.code == EPB_FLAGS	 ? 4
				  : option.code == EPB_DROPCOUNT ? 8
								 : option.length;

		if (option.length != wanted)
			return damaged(reader, pcapng, error,
				       "option %u of the packet block has %u bytes instead of %u",
				       option.code, option.length, wanted);
		if (option.code == EPB_FLAGS)
			packet->flags = mb_load32(option.value, pcapng->swapped);
		else if (option.code == EPB_DROPCOUNT)
			packet->lost = mb_load64(option.value, pcapng->swapped);
	}
	if (more < 0)
		return damaged(reader, pcapng, error,
			       "an option of the packet block is longer than the block");
	return GO_ON;
}

/* What the enhanced and the obsolete packet block share. */
static int take_packet(struct mb_reader *reader, const struct block *block, struct packet *packet,
		       struct mb_batch *batch, struct mb_error *error)
{
	static const uint8_t directions[] = {MB_DIRECTION_UNKNOWN, MB_DIRECTION_IN,
					     MB_DIRECTION_OUT, MB_DIRECTION_UNKNOWN};
	struct pcapng *pcapng = reader->state;
	struct mb_pcapng_interface *interface;
	uint32_t fcs_len;
	int64_t ts_ns;
	int index, result;

	if (packet->interface >= pcapng->count)
		return damaged(reader, pcapng, error,
			       "packet of interface %" PRIu32 ", but the section has described %zu",
			       packet->interface, pcapng->count);
	interface = &pcapng->interfaces[packet->interface];
	if (packet->caplen > interface->max_caplen)
		return damaged(reader, pcapng, error,
			       "%" PRIu32 " captured bytes, more than the %" PRIu32
			       " that a frame may have",
			       packet->caplen, interface->max_caplen);
	if (((packet->caplen + 3) & ~3u) > block->length - MIN_PACKET)
		return damaged(reader, pcapng, error,
			       "%" PRIu32 " captured bytes in a block of %" PRIu32, packet->caplen,
			       block->length);
	if (!mb_pcapng_clock_ns(&interface->clock, packet->raw_ts, &ts_ns))
		return damaged(reader, pcapng, error,
			       "time stamp %" PRIu64 " is no Unix time in nanoseconds before 2262",
			       packet->raw_ts);
	result = packet_options(reader, block, packet, error);
	if (result < 0)
		return result;
	fcs_len = packet->flags >> 5 & 0xf;
	index = fcs_len ? index_for_fcs(reader, interface, fcs_len) : interface->index;
	if (index < 0)
		return cannot_list(reader, index, error);
	mb_pcapng_interface_lost(interface, packet->lost, ts_ns);
	interface->last_ns = pcapng->last_ns = ts_ns;
	interface->has_last = true;
	put_frame(batch, packet, ts_ns, index, directions[packet->flags & 3], 0);
	return GO_ON;
}

static int enhanced_packet(struct mb_reader *reader, const struct block *block,
			   struct mb_batch *batch, struct mb_error *error)
{
	const struct pcapng *pcapng = reader->state;
	struct packet packet;

	if (block->length < MIN_PACKET)
		return damaged(reader, pcapng, error,
			       "packet block of %" PRIu32 " bytes is too short", block->length);
	packet = load_enhanced(block->body - 8, pcapng->swapped);
	return take_packet(reader, block, &packet, batch, error);
}

static int obsolete_packet(struct mb_reader *reader, const struct block *block,
			   struct mb_batch *batch, struct mb_error *error)
{
	const struct pcapng *pcapng = reader->state;
	struct packet packet;
	uint16_t lost;

	if (block->length < MIN_PACKET)
		return damaged(reader, pcapng, error,
			       "packet block of %" PRIu32 " bytes is too short", block->length);
	packet = load_enhanced(block->body - 8, pcapng->swapped);
	packet.interface = mb_load16(block->body, pcapng->swapped);
	lost = mb_load16(block->body + 2, pcapng->swapped);
	packet.lost = lost == UINT16_MAX ? 0 : lost; /* all ones: not known */
	return take_packet(reader, block, &packet, batch, error);
}

/* A packet without a stamp takes the latest one before it, and is marked for that. */
static int simple_packet(struct mb_reader *reader, const struct block *block,
			 struct mb_batch *batch, struct mb_error *error)
{
	struct pcapng *pcapng = reader->state;
	const struct mb_pcapng_interface *interface = pcapng->interfaces;
	struct packet packet = {0};

	if (block->length < MIN_SIMPLE_PACKET)
		return damaged(reader, pcapng, error,
			       "packet block of %" PRIu32 " bytes is too short", block->length);
	if (!pcapng->count)
		return damaged(reader, pcapng, error,
			       "packet before the section has described an interface");
	packet.len = packet.caplen = mb_load32(block->body, pcapng->swapped);
	if (interface->snaplen && packet.caplen > interface->snaplen)
		packet.caplen = interface->snaplen;
	packet.data = block->body + 4;
	if (packet.caplen > interface->max_caplen ||
	    packet.caplen > block->length - MIN_SIMPLE_PACKET)
		return damaged(reader, pcapng, error,
			       "%" PRIu32 " captured bytes in a block of %" PRIu32, packet.caplen,
			       block->length);
	pcapng->unstamped++;
	put_frame(batch, &packet, pcapng->last_ns, interface->index, MB_DIRECTION_UNKNOWN,
		  MB_QUALITY_UNSYNCED);
	return GO_ON;
}

static int statistics(struct mb_reader *reader, const struct block *block, struct mb_error *error)
{
	struct pcapng *pcapng = reader->state;
	uint32_t id;

	if (block->length < MIN_STATISTICS)
		return damaged(reader, pcapng, error,
			       "interface statistics block of %" PRIu32 " bytes is too short",
			       block->length);
	id = mb_load32(block->body, pcapng->swapped);
	if (id < pcapng->count &&
	    !mb_pcapng_interface_statistics(&pcapng->interfaces[id], block->body + 4, block->end,
					    pcapng->swapped))
		return damaged(
			reader, pcapng, error,
			"an option of the interface statistics block is longer than the block");
	return GO_ON;
}

/* --- blocks --- */

/* Say what is not as it should be in a file that has otherwise been read. */
static int end_of_blocks(struct mb_reader *reader, struct mb_error *error)
{
	const struct pcapng *pcapng = reader->state;
	const struct mb_input *input = &reader->input;
	bool is_cut = input->at < input->end || input->skip || pcapng->trailer;
	int length = 0;

	if (mb_input_check(input, error) < 0)
		return -EIO;
	if (is_cut)
		length = snprintf(reader->notice, sizeof(reader->notice),
				  "%s: cut off in the block at byte %" PRIu64 "%s", input->name,
				  pcapng->block_offset, mb_input_place(input));
	if (pcapng->unstamped && length < (int)sizeof(reader->notice))
		snprintf(reader->notice + length, sizeof(reader->notice) - (size_t)length,
			 "%s%s: %" PRIu64 " packets have no time stamp and were given that of the "
			 "packet before them",
			 length ? "; " : "", input->name, pcapng->unstamped);
	return MB_SOURCE_END;
}

/* Have NEED bytes of the window; with frames in BATCH only what is there already, because
 * they lie in it. */
static int require(struct mb_reader *reader, const struct mb_batch *batch, size_t need,
		   struct mb_error *error)
{
	struct mb_input *input = &reader->input;
	int supply;

	if (!input->skip && (size_t)(input->end - input->at) >= need)
		return GO_ON;
	if (batch->count)
		return 0;
	supply = mb_input_need(input, need, error);
	if (supply == MB_SUPPLY_READY)
		return GO_ON;
	if (supply != MB_SUPPLY_SHORT)
		return supply == MB_SUPPLY_LATE ? 0 : supply < 0 ? supply : MB_SOURCE_END;
	return end_of_blocks(reader, error);
}

static int bad_trailer(struct mb_reader *reader, uint32_t length, uint32_t trailer,
		       struct mb_error *error)
{
	return damaged(reader, reader->state, error,
		       "block of %" PRIu32 " bytes ends with a length of %" PRIu32, length,
		       trailer);
}

/* Begin to pass over the rest of the block; its end is checked when it has come. */
static int skip_block(struct mb_reader *reader, const struct block *block)
{
	struct pcapng *pcapng = reader->state;

	pcapng->trailer = block->length;
	mb_input_skip(&reader->input, block->length - 4);
	return GO_ON;
}

static int end_skipped_block(struct mb_reader *reader, const struct mb_batch *batch,
			     struct mb_error *error)
{
	struct pcapng *pcapng = reader->state;
	int result = require(reader, batch, 4, error);
	uint32_t trailer;

	if (result != GO_ON)
		return result;
	trailer = mb_load32(reader->input.at, pcapng->swapped);
	if (trailer != pcapng->trailer)
		return bad_trailer(reader, pcapng->trailer, trailer, error);
	pcapng->trailer = 0;
	mb_input_skip(&reader->input, 4);
	return GO_ON;
}

static int section_header(struct mb_reader *reader, const struct mb_batch *batch,
			  struct mb_error *error)
{
	struct pcapng *pcapng = reader->state;
	struct block block = {.type = SECTION_HEADER};
	const uint8_t *at;
	uint32_t order;
	uint16_t major, minor;
	bool swapped;
	int result = require(reader, batch, MIN_SECTION_HEADER, error);

	if (result != GO_ON)
		return result;
	at = reader->input.at;
	order = mb_load32(at + 8, false);
	swapped = order != BYTE_ORDER_MAGIC;
	if (swapped && mb_load32(at + 8, true) != BYTE_ORDER_MAGIC)
		return damaged(reader, pcapng, error,
			       "section header without a byte-order magic (%08" PRIx32 ")", order);
	block.length = mb_load32(at + 4, swapped);
	if (block.length < MIN_SECTION_HEADER || block.length > MAX_BLOCK || block.length % 4)
		return damaged(reader, pcapng, error, "section header block of %" PRIu32 " bytes",
			       block.length);
	major = mb_load16(at + 12, swapped);
	minor = mb_load16(at + 14, swapped);
	if (major != 1 || (minor != 0 && minor != 2))
		return damaged(reader, pcapng, error,
			       "pcapng version %u.%u, but only 1.0 and 1.2 are known", major,
			       minor);
	end_section(pcapng);
	pcapng->swapped = swapped;
	return skip_block(reader, &block);
}

static int whole_block(struct mb_reader *reader, struct block *block, struct mb_batch *batch,
		       struct mb_error *error)
{
	struct pcapng *pcapng = reader->state;
	int result = require(reader, batch, block->length, error);
	uint32_t trailer;

	if (result != GO_ON)
		return result;
	block->body = reader->input.at + 8;
	block->end = reader->input.at + block->length - 4;
	trailer = mb_load32(block->end, pcapng->swapped);
	if (trailer != block->length)
		return bad_trailer(reader, block->length, trailer, error);
	if (block->type == INTERFACE_DESCRIPTION)
		result = interface_description(reader, block, error);
	else if (block->type == INTERFACE_STATISTICS)
		result = statistics(reader, block, error);
	else if (block->type == ENHANCED_PACKET)
		result = enhanced_packet(reader, block, batch, error);
	else if (block->type == PACKET)
		result = obsolete_packet(reader, block, batch, error);
	else
		result = simple_packet(reader, block, batch, error);
	if (result == GO_ON)
		reader->input.at += block->length;
	return result;
}

/* One block, of whatever kind: GO_ON, or what read() returns. Nothing has changed when it
 * fails, so that it can be called again to fail again. */
static int next_block(struct mb_reader *reader, struct mb_batch *batch, struct mb_error *error)
{
	struct pcapng *pcapng = reader->state;
	struct block block;
	int result;

	if (pcapng->trailer)
		return end_skipped_block(reader, batch, error);
	pcapng->block_offset = mb_input_offset(&reader->input, reader->input.at);
	result = require(reader, batch, MIN_BLOCK, error);
	if (result != GO_ON)
		return result;
	block.type = mb_load32(reader->input.at, pcapng->swapped);
	if (block.type == SECTION_HEADER)
		return section_header(reader, batch, error);
	block.length = mb_load32(reader->input.at + 4, pcapng->swapped);
	if (block.length < MIN_BLOCK || block.length > MAX_BLOCK || block.length % 4)
		return damaged(reader, pcapng, error,
			       "block of type %" PRIu32 " claims %" PRIu32 " bytes", block.type,
			       block.length);
	switch (block.type) {
	case INTERFACE_DESCRIPTION:
	case INTERFACE_STATISTICS:
	case ENHANCED_PACKET:
	case PACKET:
	case SIMPLE_PACKET:
		return whole_block(reader, &block, batch, error);
	default: /* names, secrets, custom blocks, and what is yet to be invented */
		return skip_block(reader, &block);
	}
}

static void scan_section(struct mb_reader *reader, struct mb_batch *batch)
{
	const struct pcapng *pcapng = reader->state;

	if (pcapng->trailer)
		return;
	if (pcapng->swapped)
		scan(reader, batch, true);
	else
		scan(reader, batch, false);
}

/* --- the format --- */

static bool pcapng_matches(const uint8_t magic[MB_FORMAT_MAGIC])
{
	return mb_load32(magic, false) == SECTION_HEADER;
}

static int pcapng_open(struct mb_reader *reader, struct mb_error *error)
{
	reader->state = calloc(1, sizeof(struct pcapng));
	if (!reader->state)
		return mb_fail(error, ENOMEM, "%s: out of memory", reader->input.name);
	return MB_SUPPLY_READY;
}

static int pcapng_read(struct mb_reader *reader, struct mb_batch *batch, struct mb_error *error)
{
	int result = GO_ON;

	mb_input_release(&reader->input);
	while (result == GO_ON && batch->count < MB_BATCH_FRAMES) {
		scan_section(reader, batch);
		if (batch->count < MB_BATCH_FRAMES)
			result = next_block(reader, batch, error);
	}
	return batch->count ? (int)batch->count : result;
}

static void pcapng_stats(const struct mb_reader *reader, struct mb_source_stats *stats)
{
	const struct pcapng *pcapng = reader->state;
	struct mb_pcapng_loss lost = pcapng->lost;

	for (size_t i = 0; i < pcapng->count; i++)
		mb_pcapng_loss_add(&lost, mb_pcapng_interface_loss(&pcapng->interfaces[i]));
	stats->dropped = lost.packets;
	stats->drop_first_ns = lost.adrift ? 0 : lost.first_ns;
	stats->drop_last_ns = lost.adrift ? 0 : lost.last_ns;
}

static void pcapng_close(struct mb_reader *reader)
{
	struct pcapng *pcapng = reader->state;

	free(pcapng->interfaces);
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

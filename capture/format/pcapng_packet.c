/* SPDX-License-Identifier: Apache-2.0 */
#include "format/pcapng.h"

#include <inttypes.h>

#include "bytes.h"
#include "compiler.h"

#define MIN_PACKET 32 /* enhanced and obsolete */
#define MIN_SIMPLE_PACKET 16

struct packet {
	uint32_t interface, caplen, len;
	uint64_t raw_ts;
	uint64_t lost;
	uint32_t flags;
	const uint8_t *data;
};

/* BODY is the body of an enhanced packet block. The obsolete block differs in its first word. */
static mb_inline struct packet load_packet(const uint8_t *body, bool swapped)
{
	return (struct packet){
		.interface = mb_load32(body, swapped),
		.raw_ts = mb_pcapng_load_stamp(body + 4, swapped),
		.caplen = mb_load32(body + 12, swapped),
		.len = mb_load32(body + 16, swapped),
		.data = body + 20,
	};
}

static mb_inline void put_frame(struct mb_batch *batch, const struct packet *packet, int64_t ts_ns, int interface)
{
	static const uint8_t directions[] = { MB_DIRECTION_UNKNOWN, MB_DIRECTION_IN, MB_DIRECTION_OUT,
					      MB_DIRECTION_UNKNOWN };

	batch->frames[batch->count++] = (struct mb_frame){
		.ts_ns = ts_ns,
		.data = packet->data,
		.caplen = packet->caplen,
		.len = packet->len,
		.interface = (uint16_t)interface,
		.direction = directions[packet->flags & 3],
	};
}

static mb_inline void scan(struct mb_reader *reader, struct mb_batch *batch, const bool swapped)
{
	struct mb_pcapng *pcapng = reader->state;
	const uint8_t *at = reader->input.at;
	size_t left = (size_t)(reader->input.end - at);
	const uint8_t *end = at + (left < MB_BATCH_SPAN ? left : MB_BATCH_SPAN);
	int64_t ts_ns = pcapng->last_ns;
	size_t size = 0;

	while (batch->count < MB_BATCH_FRAMES && end - at >= MIN_PACKET &&
	       mb_load32(at, swapped) == MB_PCAPNG_ENHANCED_PACKET) {
		uint32_t length = mb_load32(at + 4, swapped);
		struct packet packet = load_packet(at + 8, swapped);
		struct mb_pcapng_interface *interface;

		if (packet.interface >= pcapng->count)
			break;
		interface = &pcapng->interfaces[packet.interface];
		if (length != size) {
			size = length;
			MB_OPAQUE(size);
		}
		if (packet.caplen > interface->max_caplen || length != MIN_PACKET + mb_pcapng_padded(packet.caplen) ||
		    size > (size_t)(end - at) || mb_load32(at + size - 4, swapped) != length ||
		    packet.raw_ts >= interface->clock.limit)
			break;
		__builtin_prefetch(at + MB_PREFETCH);
		ts_ns = (int64_t)(packet.raw_ts * interface->clock.multiply) + interface->clock.offset_ns;
		interface->last_ns = ts_ns;
		interface->has_last = true;
		put_frame(batch, &packet, ts_ns, interface->index);
		at += size;
	}
	pcapng->last_ns = ts_ns;
	reader->input.at = at;
}

void mb_pcapng_scan(struct mb_reader *reader, struct mb_batch *batch)
{
	if (reader->swapped)
		scan(reader, batch, true);
	else
		scan(reader, batch, false);
}

static int take_options(struct mb_reader *reader, const struct mb_pcapng_block *block, struct packet *packet,
			struct mb_error *error)
{
	const uint8_t *at = packet->data + mb_pcapng_padded(packet->caplen);
	struct mb_pcapng_option option;
	int more;

	while ((more = mb_pcapng_next_option(&at, block->end, reader->swapped, &option)) > 0) {
		uint16_t wanted = option.length;

		if (option.code == MB_PCAPNG_EPB_FLAGS)
			wanted = 4;
		else if (option.code == MB_PCAPNG_EPB_DROPCOUNT)
			wanted = 8;
		if (option.length != wanted)
			return mb_pcapng_damaged(reader, error, "option %u of the packet has %u bytes instead of %u",
						 option.code, option.length, wanted);
		if (option.code == MB_PCAPNG_EPB_FLAGS)
			packet->flags = mb_load32(option.value, reader->swapped);
		else if (option.code == MB_PCAPNG_EPB_DROPCOUNT)
			packet->lost = mb_load64(option.value, reader->swapped);
	}
	if (more < 0)
		return mb_pcapng_damaged(reader, error, "an option of the packet runs over the block's end");
	return MB_PCAPNG_GO_ON;
}

/* Compare the claims of the block with its size and with the limits of its section. */
static int check_packet(struct mb_reader *reader, const struct mb_pcapng_block *block, const struct packet *packet,
			uint32_t room, struct mb_error *error)
{
	const struct mb_pcapng *pcapng = reader->state;
	uint32_t max_caplen;

	if (packet->interface >= pcapng->count)
		return mb_pcapng_damaged(reader, error,
					 "packet of interface %" PRIu32 ", but the section has described %zu so far",
					 packet->interface, pcapng->count);
	max_caplen = pcapng->interfaces[packet->interface].max_caplen;
	if (packet->caplen > max_caplen)
		return mb_pcapng_damaged(reader, error,
					 "%" PRIu32 " captured bytes, more than the %" PRIu32 " that a frame may have",
					 packet->caplen, max_caplen);
	if (mb_pcapng_padded(packet->caplen) > room)
		return mb_pcapng_damaged(reader, error, "%" PRIu32 " captured bytes in a block of %" PRIu32,
					 packet->caplen, block->length);
	return MB_PCAPNG_GO_ON;
}

static int take_stamped(struct mb_reader *reader, const struct mb_pcapng_block *block, struct packet *packet,
			struct mb_batch *batch, struct mb_error *error)
{
	struct mb_pcapng *pcapng = reader->state;
	struct mb_pcapng_interface *interface;
	int64_t ts_ns;
	int index, result;

	result = check_packet(reader, block, packet, block->length - MIN_PACKET, error);
	if (result < 0)
		return result;
	interface = &pcapng->interfaces[packet->interface];
	if (!mb_pcapng_clock_ns(&interface->clock, packet->raw_ts, &ts_ns))
		return mb_pcapng_damaged(
			reader, error, "time stamp %" PRIu64 " is outside the years 1677 to 2262 of 64-bit nanoseconds",
			packet->raw_ts);
	result = take_options(reader, block, packet, error);
	if (result < 0)
		return result;
	index = mb_pcapng_index_for_fcs(reader, interface, packet->flags >> 5 & 0xf, error);
	if (index < 0)
		return index;
	mb_pcapng_interface_lost(interface, packet->lost, ts_ns);
	interface->last_ns = pcapng->last_ns = ts_ns;
	interface->has_last = true;
	put_frame(batch, packet, ts_ns, index);
	return MB_PCAPNG_GO_ON;
}

/* A packet without a stamp gets the latest stamp before it, and is marked. */
static int take_simple(struct mb_reader *reader, const struct mb_pcapng_block *block, struct mb_batch *batch,
		       struct mb_error *error)
{
	struct mb_pcapng *pcapng = reader->state;
	uint32_t len = mb_load32(block->body, reader->swapped);
	struct packet packet = { .caplen = len, .len = len, .data = block->body + 4 };
	int result;

	if (pcapng->count && pcapng->interfaces->snaplen && len > pcapng->interfaces->snaplen)
		packet.caplen = pcapng->interfaces->snaplen;
	result = check_packet(reader, block, &packet, block->length - MIN_SIMPLE_PACKET, error);
	if (result < 0)
		return result;
	pcapng->unstamped++;
	put_frame(batch, &packet, pcapng->last_ns, pcapng->interfaces->index);
	batch->frames[batch->count - 1].quality = MB_QUALITY_UNSYNCED;
	return MB_PCAPNG_GO_ON;
}

int mb_pcapng_take_packet(struct mb_reader *reader, const struct mb_pcapng_block *block, struct mb_batch *batch,
			  struct mb_error *error)
{
	bool is_simple = block->type == MB_PCAPNG_SIMPLE_PACKET;
	struct packet packet;

	if (block->length < (is_simple ? MIN_SIMPLE_PACKET : MIN_PACKET))
		return mb_pcapng_damaged(reader, error, "packet block of %" PRIu32 " bytes", block->length);
	if (is_simple)
		return take_simple(reader, block, batch, error);
	packet = load_packet(block->body, reader->swapped);
	if (block->type == MB_PCAPNG_PACKET) {
		uint16_t lost = mb_load16(block->body + 2, reader->swapped);

		packet.interface = mb_load16(block->body, reader->swapped);
		packet.lost = lost == UINT16_MAX ? 0 : lost; /* all ones: unknown */
	}
	return take_stamped(reader, block, &packet, batch, error);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes blocks of pcapng, in this machine's byte order, with stamps in nanoseconds. Each function writes one block at
 * AT and returns the address behind it; the caller has made room for as many bytes as the function or constant before
 * it states.
 */
#ifndef MB_PCAPNG_WRITE_H
#define MB_PCAPNG_WRITE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "format/pcapng_codes.h"
#include "frame.h"

struct mb_text {
	const char *text;
	size_t length; /* at most MB_TEXT_MOST, the longest option */
};

#define MB_TEXT_MOST 65535

static inline uint8_t *mb_pcapng_put32(uint8_t *at, uint32_t value)
{
	memcpy(at, &value, sizeof(value));
	return at + sizeof(value);
}

/* Write a stamp as two halves, the high one first. */
static inline uint8_t *mb_pcapng_put_stamp(uint8_t *at, int64_t ts_ns)
{
	at = mb_pcapng_put32(at, (uint32_t)((uint64_t)ts_ns >> 32));
	return mb_pcapng_put32(at, (uint32_t)ts_ns);
}

/* Write the type, and leave room for the length. */
static inline uint8_t *mb_pcapng_begin(uint8_t *at, enum mb_pcapng_type type)
{
	at = mb_pcapng_put32(at, (uint32_t)type);
	return at + 4;
}

/* Write both lengths of the block that began at BEGUN. */
static inline uint8_t *mb_pcapng_end(uint8_t *begun, uint8_t *at)
{
	const uint32_t length = (uint32_t)(at - begun) + 4;

	mb_pcapng_put32(begun + 4, length);
	return mb_pcapng_put32(at, length);
}

/* Write bytes, with zeros up to a multiple of four. */
static inline uint8_t *mb_pcapng_put_bytes(uint8_t *at, const void *bytes, size_t length)
{
	const size_t padded = mb_pcapng_padded(length);

	if (padded > length)
		memset(at + padded - 4, 0, 4);
	memcpy(at, bytes, length);
	return at + padded;
}

static inline uint8_t *mb_pcapng_put_option(uint8_t *at, uint16_t code, const void *value, size_t length)
{
	const uint16_t head[2] = { code, (uint16_t)length };

	memcpy(at, head, sizeof(head));
	return mb_pcapng_put_bytes(at + sizeof(head), value, length);
}

/* Bytes that COMMENTS take as options. */
size_t mb_pcapng_comments_room(const struct mb_text *comments, size_t count);
uint8_t *mb_pcapng_put_comments(uint8_t *at, const struct mb_text *comments, size_t count);

/* Begin a section that APPLICATION wrote. */
size_t mb_pcapng_section_room(const struct mb_text *application, const struct mb_text *comments, size_t count);
uint8_t *mb_pcapng_put_section(uint8_t *at, const struct mb_text *application, const struct mb_text *comments,
			       size_t count);

/* Write the next interface of the section. */
#define MB_PCAPNG_INTERFACE_ROOM (64 + MB_INTERFACE_NAME)
uint8_t *mb_pcapng_put_interface(uint8_t *at, const struct mb_interface *interface);

/* Write statistics of interface 0 as of TS_NS: packets that it received, and how many of them were dropped. */
#define MB_PCAPNG_STATISTICS_ROOM 64
size_t mb_pcapng_statistics_room(const struct mb_text *comments, size_t count);
uint8_t *mb_pcapng_put_statistics(uint8_t *at, int64_t ts_ns, uint64_t received, uint64_t dropped,
				  const struct mb_text *comments, size_t count);

/* The room for a packet without comments. */
static inline size_t mb_pcapng_packet_room(uint32_t caplen)
{
	return 28 + mb_pcapng_padded(caplen) + 12 + 4;
}

/* Write FRAME, of the interface of its number, with its direction if it is known, and COMMENTS. */
static inline uint8_t *mb_pcapng_put_packet(uint8_t *at, const struct mb_frame *frame, const struct mb_text *comments,
					    size_t count)
{
	uint8_t *begun = at;

	at = mb_pcapng_begin(at, MB_PCAPNG_ENHANCED_PACKET);
	at = mb_pcapng_put32(at, frame->interface);
	at = mb_pcapng_put_stamp(at, frame->ts_ns);
	at = mb_pcapng_put32(at, frame->caplen);
	at = mb_pcapng_put32(at, frame->len);
	at = mb_pcapng_put_bytes(at, frame->data, frame->caplen);
	if (frame->direction != MB_DIRECTION_UNKNOWN || count) {
		const uint32_t flags = frame->direction;

		if (count)
			at = mb_pcapng_put_comments(at, comments, count);
		if (flags)
			at = mb_pcapng_put_option(at, MB_PCAPNG_EPB_FLAGS, &flags, sizeof(flags));
		at = mb_pcapng_put32(at, MB_PCAPNG_END_OF_OPTIONS);
	}
	return mb_pcapng_end(begun, at);
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames that follow each other in memory, as a backend made them, or as a file has them, which then need not be
 * copied. LAYOUT is a constant wherever speed matters.
 */
#ifndef MB_FRAME_VIEW_H
#define MB_FRAME_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "bytes.h"
#include "compiler.h"
#include "frame.h"

enum mb_layout {
	MB_LAYOUT_FRAMES,     /* struct mb_frame */
	MB_LAYOUT_RECORDS_NS, /* pcap records in this machine's byte order, with nanoseconds … */
	MB_LAYOUT_RECORDS_US, /* … or microseconds: a header of 16 bytes, and the captured bytes */
	MB_LAYOUTS,
};

#define MB_PCAP_RECORD_HEADER 16

struct mb_frame_view {
	const void *at, *end;
	enum mb_layout layout;
	uint32_t max_caplen; /* of a sane record */
};

/* The captured and the full length of the frame at AT, as they lie in memory. */
static mb_inline uint64_t mb_view_lengths(enum mb_layout layout, const void *at)
{
	uint64_t lengths;

	_Static_assert(offsetof(struct mb_frame, len) == offsetof(struct mb_frame, caplen) + 4,
		       "both lengths of a frame are one word, as those of a record are");
	memcpy(&lengths, (const char *)at + (layout == MB_LAYOUT_FRAMES ? offsetof(struct mb_frame, caplen) : 8),
	       sizeof(lengths));
	return lengths;
}

/* Interface, segment size, direction and quality as one word. */
static mb_inline uint64_t mb_view_nature(enum mb_layout layout, const void *at)
{
	uint64_t nature = 0;

	_Static_assert(offsetof(struct mb_frame, interface) + sizeof(nature) == sizeof(struct mb_frame),
		       "the last members of a frame are one word");
	if (layout == MB_LAYOUT_FRAMES)
		memcpy(&nature, (const char *)at + offsetof(struct mb_frame, interface), sizeof(nature));
	return nature;
}

/* Whether the fraction of a second of the frame at AT is less than a second. */
static mb_inline bool mb_view_fraction_is_sane(enum mb_layout layout, const void *at)
{
	uint32_t limit = layout == MB_LAYOUT_RECORDS_US ? 1000000 : 1000000000;

	return layout == MB_LAYOUT_FRAMES || mb_load32((const uint8_t *)at + 4, false) < limit;
}

/* Set FRAME to the frame at AT, which is complete and sane. Member by member: a copy of the whole struct that follows
 * would wait until all members are in the cache. */
static mb_inline void mb_view_load(enum mb_layout layout, const void *at, struct mb_frame *frame)
{
	const uint8_t *record = at;

	if (layout == MB_LAYOUT_FRAMES) {
		*frame = *(const struct mb_frame *)at;
		return;
	}
	frame->ts_ns = (int64_t)mb_load32(record, false) * 1000000000 +
		       (int64_t)mb_load32(record + 4, false) * (layout == MB_LAYOUT_RECORDS_US ? 1000 : 1);
	frame->data = record + MB_PCAP_RECORD_HEADER;
	frame->caplen = mb_load32(record + 8, false);
	frame->len = mb_load32(record + 12, false);
	frame->interface = frame->gso_size = frame->unused = 0;
	frame->direction = frame->quality = 0;
}

static mb_inline struct mb_frame mb_view_frame(enum mb_layout layout, const void *at)
{
	struct mb_frame frame;

	mb_view_load(layout, at, &frame);
	return frame;
}

/* Bytes from the frame at AT, with CAPLEN captured bytes, to the next frame. */
static mb_inline size_t mb_view_stride(enum mb_layout layout, uint32_t caplen)
{
	return layout == MB_LAYOUT_FRAMES ? sizeof(struct mb_frame) : MB_PCAP_RECORD_HEADER + (size_t)caplen;
}

/* Whether there is a frame at AT. A record must be complete, sane and not empty (an empty record may be the end of a
 * file that shrank). */
static mb_inline bool mb_view_has(const struct mb_frame_view *view, enum mb_layout layout, const void *at)
{
	size_t left = (size_t)((const uint8_t *)view->end - (const uint8_t *)at);
	uint32_t caplen;

	if (layout == MB_LAYOUT_FRAMES)
		return left;
	if (left < MB_PCAP_RECORD_HEADER)
		return false;
	caplen = mb_load32((const uint8_t *)at + 8, false);
	return caplen - 1 < view->max_caplen && mb_view_stride(layout, caplen) <= left &&
	       mb_view_fraction_is_sane(layout, at);
}

static inline struct mb_frame_view mb_view_of(const struct mb_frame *frames, uint32_t count)
{
	return (struct mb_frame_view){ .at = frames, .end = frames + count, .layout = MB_LAYOUT_FRAMES };
}

#endif

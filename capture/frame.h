/* SPDX-License-Identifier: Apache-2.0
 *
 * What a backend yields: frames, in batches, and the interfaces they came from.
 */
#ifndef MB_FRAME_H
#define MB_FRAME_H

#include <stdint.h>

/* Quality of a stamp or a bin: a bit set that accompanies every figure. sql/schema/quality.sql gives the same bits
 * their names and meanings for users; a test compares the two. */
enum mb_quality {
	MB_QUALITY_HW = 1 << 0,        /* stamped by the network interface */
	MB_QUALITY_SW = 1 << 1,        /* stamped by the kernel on receipt */
	MB_QUALITY_RING = 1 << 2,      /* stamped when the kernel copied it to the ring */
	MB_QUALITY_FILE_US = 1 << 3,   /* the stamps of the file have a resolution of 1 us or coarser */
	MB_QUALITY_UNSYNCED = 1 << 4,  /* the clock was not synchronized */
	MB_QUALITY_DROPS = 1 << 5,    /* packets were dropped in this time: counts are lower bounds */
	MB_QUALITY_GRO = 1 << 6,       /* merged frames: wire bytes are estimated, the timing inside is unknown */
	MB_QUALITY_TRUNCATED = 1 << 7, /* the snap length cut headers: some senders or marks are unknown */
	MB_QUALITY_STEPPED = 1 << 8,   /* the clock stepped at an edge of this bin */
};

enum mb_direction {
	MB_DIRECTION_UNKNOWN = 0,
	MB_DIRECTION_IN = 1,
	MB_DIRECTION_OUT = 2,
};

/* A frame. `data` stays valid until the next read from the same backend. */
struct mb_frame {
	int64_t ts_ns;       /* Unix nanoseconds, as stamped */
	const uint8_t *data; /* caplen captured bytes, from the first byte of the link-layer header */
	uint32_t caplen;
	uint32_t len;        /* bytes of the frame, as the backend counts them (with a trailing FCS if the interface
			      * states fcs_len) */
	uint16_t interface;  /* index into mb_backend_interfaces() */
	uint16_t gso_size;   /* payload bytes of a segment of a merged frame; 0 if the backend cannot report it */
	uint8_t direction;   /* enum mb_direction, if the backend itself knows it */
	uint8_t quality;     /* the low bits of enum mb_quality that differ from frame to frame */
	uint16_t unused;     /* 0, so that the last members can be compared as one word */
};

#define MB_BATCH_FRAMES 512

struct mb_batch {
	uint32_t count;
	struct mb_frame frames[MB_BATCH_FRAMES];
};

#define MB_INTERFACE_NAME 64

/* An interface of a backend. Strings are NUL-terminated UTF-8; empty if unknown. */
struct mb_interface {
	char name[MB_INTERFACE_NAME];
	uint32_t linktype;    /* LINKTYPE_ value as in files (linktype.h) */
	uint32_t snaplen;     /* 0 if unlimited or unknown */
	uint64_t link_bps;    /* 0 if unknown */
	uint32_t fcs_len;     /* bytes of frame check sequence at the end of every frame's `len` */
	uint32_t quality;     /* enum mb_quality bits that hold for every frame */
};

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Senders send segment behind segment of one flow, and so they mostly arrive. A train is a run of
 * frames whose headers say the same but for lengths and sequence numbers: only its first frame is
 * decoded, of the others no more is read than what differs.
 */
#ifndef MB_TRAINS_H
#define MB_TRAINS_H

#include <stdbool.h>
#include <stdint.h>

#include "decode.h"

/* What differs from frame to frame of a train. */
struct mb_car {
	int64_t ts_ns;
	uint32_t bytes, wire_bytes; /* as in struct mb_packet, and so the rest */
	uint32_t tcp_seq, tcp_len;  /* of TCP alone */
};

struct mb_train {
	uint32_t first, count; /* cars */
};

#define MB_ALIKE_BLOCK 16
#define MB_ALIKE_BLOCKS 5

/* A vector, where the processor has them. */
typedef uint64_t mb_block __attribute__((vector_size(MB_ALIKE_BLOCK)));

/* Which bits of a frame decide on sender, flow, marks and side, in blocks of the frame: some from
 * its first byte on, and one that ends with what is compared. */
struct mb_alike {
	union {
		mb_block bits;
		uint8_t bytes[MB_ALIKE_BLOCK];
	} blocks[MB_ALIKE_BLOCKS];
};

struct mb_trains {
	uint32_t count;
	struct mb_train trains[MB_BATCH_FRAMES];
	struct mb_packet heads[MB_BATCH_FRAMES]; /* of each train its first frame, decoded */
	struct mb_frame head_frames[MB_BATCH_FRAMES];
	struct mb_car cars[MB_BATCH_FRAMES];
	struct mb_alike alike[2][2][2]; /* tagged, IPv6, UDP */
};

void mb_trains_init(struct mb_trains *trains);

/* Decode the frames at the front of COUNT that come from the INTERFACE of the first, at most
 * MB_BATCH_FRAMES. The same as mb_decode() of each. Returns how many. */
uint32_t mb_trains_decode(struct mb_trains *trains, const struct mb_frame *frames, uint32_t count,
			  const struct mb_interface *interface,
			  const struct mb_decode_options *options);

/* The packet that a car is: its train's HEAD with what differs. */
static inline struct mb_packet mb_car_packet(const struct mb_packet *head, const struct mb_car *car)
{
	struct mb_packet packet = *head;

	packet.ts_ns = car->ts_ns;
	packet.bytes = car->bytes;
	packet.wire_bytes = car->wire_bytes;
	packet.tcp_seq = car->tcp_seq;
	packet.tcp_len = car->tcp_len;
	return packet;
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Senders send segment behind segment of one flow, and so they mostly arrive. A train is a run of
 * frames whose headers say the same but for lengths and sequence numbers: only its first frame is
 * decoded, of the others no more is read than what differs.
 */
#ifndef MB_TRAINS_H
#define MB_TRAINS_H

#include <stdint.h>

#include "decode.h"

/* What differs from frame to frame of a train. */
struct mb_car {
	int64_t ts_ns;
	uint32_t bytes, wire_bytes; /* as in struct mb_packet, and so the rest */
	uint32_t tcp_seq, tcp_len;
};

struct mb_train {
	uint32_t first, count; /* cars */
};

#define MB_TRAINS_FRAMES 64 /* at once: they stay in the first-level cache */

struct mb_trains {
	uint32_t count;
	struct mb_train trains[MB_TRAINS_FRAMES];
	struct mb_packet heads[MB_TRAINS_FRAMES]; /* of each train its first frame, decoded */
	struct mb_frame head_frames[MB_TRAINS_FRAMES];
	struct mb_car cars[MB_TRAINS_FRAMES];
};

/* Decode COUNT frames, at most MB_TRAINS_FRAMES, all of one INTERFACE. The same as mb_decode() of
 * each frame. */
void mb_trains_decode(struct mb_trains *trains, const struct mb_frame *frames, uint32_t count,
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

/* SPDX-License-Identifier: Apache-2.0
 *
 * Senders send segment behind segment of one flow, and so they mostly arrive. A train is a run of
 * frames whose headers say the same but for lengths and sequence numbers: only the first is
 * decoded, the others are held against it.
 */
#ifndef MB_TRAINS_H
#define MB_TRAINS_H

#include <stdint.h>

#include "decode.h"

/* Frames of one flow, in order of time and, TCP's, each beginning where the one before it ended.
 * One frame is a train, whatever it is; of several each is one frame on the wire. */
struct mb_train {
	const struct mb_frame *frames;
	uint32_t count;
	uint32_t fcs_len; /* of each frame */
	uint32_t tcp_end; /* of several: the sequence number behind the last */
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
	struct mb_alike alike[2][2][2]; /* tagged, IPv6, UDP */
};

void mb_trains_init(struct mb_trains *trains);

/* Divide into trains the frames at the front of COUNT that come from the INTERFACE of the first, at
 * most MB_BATCH_FRAMES. Every packet of a train is as mb_decode() says of its first frame, but for
 * stamp, lengths and sequence number. Returns how many frames; they must outlive the trains. */
uint32_t mb_trains_decode(struct mb_trains *trains, const struct mb_frame *frames, uint32_t count,
			  const struct mb_interface *interface,
			  const struct mb_decode_options *options);

/* L2 bytes of all frames of a train of several. */
static inline uint64_t mb_train_bytes(const struct mb_train *train)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < train->count; i++)
		bytes += train->frames[i].len - train->fcs_len;
	return bytes;
}

#endif

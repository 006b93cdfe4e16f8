/* SPDX-License-Identifier: Apache-2.0
 *
 * How receivers slow senders down, other than by losses and ECN: pause frames (IEEE 802.3 annex 31B; by class, IEEE
 * 802.1Qbb, annex 31D of 802.3) and congestion notification packets (InfiniBand's annex A17, RoCEv2).
 */
#include "decode/walk.h"

enum {
	OPCODE_PAUSE = 0x0001,
	OPCODE_CLASSES = 0x0101,
	CLASSES = 8,
};

static bool read_pause(struct mb_walk *walk, struct mb_packet *packet)
{
	const uint8_t *frame = mb_walk_peek(walk, 4); /* opcode, quanta */

	if (!frame)
		return false;
	packet->pause_quanta = mb_be16(frame + 2);
	packet->pause_classes = packet->pause_quanta ? (1u << CLASSES) - 1 : 0;
	return true;
}

/* Read the opcode, a bit for each class that is paused, and the quanta of each class. */
static bool read_classes(struct mb_walk *walk, struct mb_packet *packet)
{
	const uint8_t *frame = mb_walk_peek(walk, 4 + 2 * CLASSES);

	if (!frame)
		return false;
	packet->pause_quanta = packet->pause_classes = 0;
	for (uint32_t i = 0; i < CLASSES; i++) {
		uint32_t quanta = frame[3] >> i & 1 ? mb_be16(frame + 4 + 2 * i) : 0;

		packet->pause_classes |= quanta ? 1u << i : 0;
		packet->pause_quanta = quanta > packet->pause_quanta ? quanta : packet->pause_quanta;
	}
	return true;
}

bool mb_pause_read(struct mb_walk *walk, struct mb_packet *packet)
{
	const uint8_t *opcode = mb_walk_peek(walk, 2);

	if (!opcode)
		return false;
	switch (mb_be16(opcode)) {
	case OPCODE_PAUSE:
		return read_pause(walk, packet);
	case OPCODE_CLASSES:
		return read_classes(walk, packet);
	default:
		return false;
	}
}

uint8_t mb_cnp_read(struct mb_walk *walk)
{
	const uint8_t *header;

	if (walk->end - walk->offset < MB_UDP_HEADER + MB_ROCE_HEADER)
		return 0;
	header = mb_walk_peek(walk, MB_UDP_HEADER + 1);
	return header && mb_is_cnp(header[MB_UDP_HEADER]) ? MB_MARK_CNP : 0;
}

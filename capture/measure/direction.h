/* SPDX-License-Identifier: Apache-2.0
 *
 * The side of a frame where its link does not tell it: what this host sent is out, all else in.
 */
#ifndef MB_DIRECTION_H
#define MB_DIRECTION_H

#include <endian.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "decode/decode.h"
#include "hash.h"

#define MB_LOCALS 64

/* This host's addresses; none: the sides are not known. */
struct mb_sides {
	uint32_t n_macs, n_addresses;
	uint64_t macs[MB_LOCALS];
	struct mb_address addresses[MB_LOCALS]; /* of IP */
};

/* At most MB_LOCALS addresses. */
static inline void mb_sides_init(struct mb_sides *sides, const struct mb_address *locals, uint32_t count)
{
	sides->n_macs = sides->n_addresses = 0;
	for (uint32_t i = 0; i < count; i++)
		if (locals[i].family == MB_FAMILY_MAC)
			sides->macs[sides->n_macs++] = locals[i].lo;
		else
			sides->addresses[sides->n_addresses++] = locals[i];
}

static inline bool mb_sides_has_mac(const struct mb_sides *sides, uint64_t mac)
{
	for (uint32_t i = 0; i < sides->n_macs; i++)
		if (sides->macs[i] == mac)
			return true;
	return false;
}

static inline bool mb_sides_has(const struct mb_sides *sides, const struct mb_address *address)
{
	for (uint32_t i = 0; i < sides->n_addresses; i++)
		if (mb_address_equal(&sides->addresses[i], address))
			return true;
	return false;
}

static inline uint64_t mb_sides_load(const uint8_t *bytes)
{
	uint64_t value;

	memcpy(&value, bytes, sizeof(value));
	return be64toh(value);
}

/* The side of a FRAME that was decoded as PACKET; MB_DIRECTION_UNKNOWN when it is not known.
 * *IS_FOREIGN when the frame of Ethernet is unicast, but neither from nor to this host's MAC. */
static inline uint8_t mb_sides_tell(const struct mb_sides *sides, const struct mb_frame *frame,
				    const struct mb_packet *packet, bool is_ethernet, bool *is_foreign)
{
	*is_foreign = false;
	if (packet->direction != MB_DIRECTION_UNKNOWN || !(sides->n_macs | sides->n_addresses))
		return packet->direction;
	if (is_ethernet && frame->caplen >= 12) {
		/* Receiver and sender, 48 bits each, by two loads that stay within 12 bytes. */
		if (mb_sides_has_mac(sides, mb_sides_load(frame->data + 4) & 0xffffffffffff))
			return MB_DIRECTION_OUT;
		*is_foreign = !(frame->data[0] & 1) &&
			      !mb_sides_has_mac(sides, mb_sides_load(frame->data) >> 16);
	}
	if (sides->n_addresses && mb_sides_has(sides, &packet->source))
		return MB_DIRECTION_OUT;
	/* The sender of a frame that is not IP is its MAC. */
	if (packet->source.family == MB_FAMILY_MAC && mb_sides_has_mac(sides, packet->source.lo))
		return MB_DIRECTION_OUT;
	return MB_DIRECTION_IN;
}

#endif

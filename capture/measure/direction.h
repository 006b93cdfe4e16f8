/* SPDX-License-Identifier: Apache-2.0
 *
 * The direction of a frame whose link does not state it: frames that this host sent are out, all others in.
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

/* Addresses of this host; none: directions are unknown. */
struct mb_locals {
	uint32_t n_macs, n_addresses;
	uint64_t macs[MB_LOCALS];
	struct mb_address addresses[MB_LOCALS]; /* IP addresses */
};

/* At most MB_LOCALS addresses. */
static inline void mb_locals_init(struct mb_locals *locals, const struct mb_address *addresses, uint32_t count)
{
	locals->n_macs = locals->n_addresses = 0;
	for (uint32_t i = 0; i < count; i++)
		if (addresses[i].family == MB_FAMILY_MAC)
			locals->macs[locals->n_macs++] = addresses[i].lo;
		else
			locals->addresses[locals->n_addresses++] = addresses[i];
}

static inline bool mb_locals_has_mac(const struct mb_locals *locals, uint64_t mac)
{
	for (uint32_t i = 0; i < locals->n_macs; i++)
		if (locals->macs[i] == mac)
			return true;
	return false;
}

static inline bool mb_locals_has(const struct mb_locals *locals, const struct mb_address *address)
{
	for (uint32_t i = 0; i < locals->n_addresses; i++)
		if (mb_address_equal(&locals->addresses[i], address))
			return true;
	return false;
}

static inline uint64_t mb_locals_load(const uint8_t *bytes)
{
	uint64_t value;

	memcpy(&value, bytes, sizeof(value));
	return be64toh(value);
}

/* Whether a FRAME that is neither from nor to a local MAC may be to this host nevertheless: the local addresses are of
 * IP, and it is to one of them or not IP. */
static inline bool mb_locals_may_receive(const struct mb_locals *locals, const struct mb_frame *frame,
					 const struct mb_interface *interface, const struct mb_decode_options *options)
{
	struct mb_address destination;

	return locals->n_addresses &&
	       (!mb_decode_destination(frame, interface, options, &destination) || mb_locals_has(locals, &destination));
}

/* The direction of a FRAME that was decoded as PACKET; MB_DIRECTION_UNKNOWN if it is not known. *IS_FOREIGN: whether it
 * is a unicast Ethernet frame that arrives, but not at this host's MAC. */
static inline uint8_t mb_direction_of(const struct mb_locals *locals, const struct mb_frame *frame,
				      const struct mb_packet *packet, bool is_ethernet, bool *is_foreign)
{
	*is_foreign = false;
	if (packet->direction != MB_DIRECTION_UNKNOWN || !(locals->n_macs | locals->n_addresses))
		return packet->direction;
	if (is_ethernet && frame->caplen >= 12) {
		/* Receiver and sender, 48 bits each, by two loads within the first 12 bytes. */
		if (mb_locals_has_mac(locals, mb_locals_load(frame->data + 4) & 0xffffffffffff))
			return MB_DIRECTION_OUT;
		*is_foreign = !(frame->data[0] & 1) && !mb_locals_has_mac(locals, mb_locals_load(frame->data) >> 16);
	}
	if (locals->n_addresses && mb_locals_has(locals, &packet->source)) {
		*is_foreign = false;
		return MB_DIRECTION_OUT;
	}
	/* The sender of a frame that is not IP is its MAC. */
	if (packet->source.family == MB_FAMILY_MAC && mb_locals_has_mac(locals, packet->source.lo))
		return MB_DIRECTION_OUT;
	return MB_DIRECTION_IN;
}

#endif

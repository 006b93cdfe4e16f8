/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/infer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"
#include "hash.h"
#include "linktype.h"

#define SLOTS 4096               /* a power of two; addresses beyond half of it are ignored */
#define NEARLY_EVERY 0.95        /* share of the unicast frames */
#define ETHERNET_LARGEST 1526    /* 1500 behind an Ethernet header and two or three tags */
#define JUMBO_LARGEST 9234       /* the same for 9216: no Ethernet has larger frames */

struct endpoint {
	struct mb_address address;
	uint32_t frames;
	uint64_t received_bytes;
};

struct sample {
	struct endpoint endpoints[SLOTS];
	uint32_t n_endpoints;
	uint32_t unicast;
	struct mb_seed seed;
};

static bool is_group(const struct mb_address *address)
{
	switch (address->family) {
	case MB_FAMILY_MAC:
		return address->lo >> 40 & 1;
	case MB_FAMILY_IPV4: /* 224.0.0.0/4, and limited broadcast */
		return (address->lo >> 28 & 15) >= 14;
	case MB_FAMILY_IPV6:
		return address->hi >> 56 == 0xff;
	default:
		return true;
	}
}

static struct endpoint *find_endpoint(struct sample *sample, const struct mb_address *address)
{
	uint32_t i = (uint32_t)mb_hash_address(address, &sample->seed) & (SLOTS - 1);

	for (;; i = (i + 1) & (SLOTS - 1)) {
		struct endpoint *endpoint = &sample->endpoints[i];

		mb_hash_step();
		if (!endpoint->frames) {
			if (sample->n_endpoints >= SLOTS / 2)
				return NULL;
			sample->n_endpoints++;
			endpoint->address = *address;
			return endpoint;
		}
		if (mb_address_equal(&endpoint->address, address))
			return endpoint;
	}
}

static bool addresses_of(const struct mb_frame *frame, const struct mb_interface *interface, struct mb_address *sender,
			 struct mb_address *receiver)
{
	static const struct mb_decode_options outermost = { 0 };
	struct mb_packet packet;

	*sender = *receiver = (struct mb_address){ .family = MB_FAMILY_MAC };
	if (interface->linktype == MB_LINKTYPE_ETHERNET)
		return mb_decode_macs(frame, interface, &sender->lo, &receiver->lo);
	mb_decode(frame, 1, interface, &outermost, &packet);
	*sender = packet.source;
	return mb_decode_destination(frame, interface, &outermost, receiver);
}

static void sample_frame(struct sample *sample, const struct mb_frame *frame, const struct mb_interface *interface)
{
	struct mb_address sender, receiver;
	struct endpoint *endpoint;

	if (!addresses_of(frame, interface, &sender, &receiver) || is_group(&receiver))
		return;
	sample->unicast++;
	endpoint = find_endpoint(sample, &receiver);
	if (endpoint) {
		endpoint->frames++;
		endpoint->received_bytes += frame->len;
	}
	endpoint = mb_address_equal(&sender, &receiver) ? NULL : find_endpoint(sample, &sender);
	if (endpoint)
		endpoint->frames++;
}

/* The endpoint that received more; among equals by address, so that results do not depend on hashes. */
static bool is_before(const struct endpoint *a, const struct endpoint *b)
{
	if (a->received_bytes != b->received_bytes)
		return a->received_bytes > b->received_bytes;
	return a->address.hi != b->address.hi ? a->address.hi < b->address.hi : a->address.lo < b->address.lo;
}

/* The endpoints in nearly every frame, at most two, in that order. */
static uint32_t find_locals(const struct sample *sample, const struct endpoint *locals[2])
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < SLOTS; i++) {
		const struct endpoint *endpoint = &sample->endpoints[i];

		if (!endpoint->frames || endpoint->frames < NEARLY_EVERY * sample->unicast)
			continue;
		if (n && is_before(endpoint, locals[0])) {
			locals[1] = locals[0];
			locals[0] = endpoint;
		} else {
			locals[n ? 1 : 0] = endpoint;
		}
		n = n < 2 ? n + 1 : 2;
	}
	return n;
}

static void infer_local(const struct sample *sample, struct mb_inference *inference)
{
	const struct endpoint *locals[2] = { NULL, NULL };
	uint32_t n = find_locals(sample, locals);
	char first[MB_ADDRESS_TEXT], second[MB_ADDRESS_TEXT];

	if (!sample->unicast)
		return;
	if (!n) {
		snprintf(inference->note, sizeof(inference->note),
			 "no address is in nearly all of the first %u unicast frames: assuming a "
			 "mirror port, all frames as one direction; override with --local",
			 sample->unicast);
		return;
	}
	inference->local = locals[0]->address;
	mb_address_format(&locals[0]->address, first);
	if (n == 1) {
		snprintf(inference->note, sizeof(inference->note),
			 "assuming %s is this host: it is in %.4g %% of the first %u unicast frames", first,
			 100.0 * locals[0]->frames / sample->unicast, sample->unicast);
		return;
	}
	mb_address_format(&locals[1]->address, second);
	snprintf(inference->note, sizeof(inference->note),
		 "both %s and %s are in nearly all of the first %u unicast frames: assuming the first, "
		 "which received more, is this host; override with --local",
		 first, second, sample->unicast);
}

/* Bytes of FRAME, or of an Ethernet frame with its payload if it comes from another link. */
static uint32_t ethernet_bytes(const struct mb_frame *frame, const struct mb_interface *interface)
{
	static const struct mb_decode_options outermost = { 0 };
	struct mb_packet packet;

	mb_decode(frame, 1, interface, &outermost, &packet);
	return packet.wire_bytes - MB_WIRE_OVERHEAD;
}

/* Whether a TCP payload of complete 1500-byte segments makes a frame of LEN bytes: headers of IPv4 or IPv6, with or
 * without the timestamp option. */
static bool is_whole_segments(uint32_t len)
{
	return (len > 66 && (len - 66) % 1448 == 0) || (len > 54 && (len - 54) % 1460 == 0) ||
	       (len > 86 && (len - 86) % 1428 == 0) || (len > 74 && (len - 74) % 1440 == 0);
}

/* A network with jumbo frames has many frames of the largest size, which is not a multiple of an ordinary segment;
 * merged frames come in many sizes, up to 64 KiB and beyond. */
static uint32_t infer_mtu(const struct mb_frame *frames, uint32_t count, const struct mb_interface *interfaces)
{
	uint32_t over = 0, largest = 0, at_largest = 0;

	for (uint32_t i = 0; i < count; i++) {
		const struct mb_interface *interface = &interfaces[frames[i].interface];
		uint32_t len;

		if (interface->linktype == MB_LINKTYPE_NULL || interface->linktype == MB_LINKTYPE_LOOP)
			continue;
		len = ethernet_bytes(&frames[i], interface);
		if (len <= ETHERNET_LARGEST)
			continue;
		over++;
		if (len > largest) {
			largest = len;
			at_largest = 0;
		}
		at_largest += len == largest;
	}
	if (over && largest <= JUMBO_LARGEST && 4 * at_largest >= over && !is_whole_segments(largest))
		return largest - 14;
	return 1500;
}

int mb_infer(const struct mb_frame *frames, uint32_t count, const struct mb_interface *interfaces,
	     const struct mb_seed *seed, struct mb_inference *inference)
{
	mb_auto_free struct sample *sample = calloc(1, sizeof(*sample));

	memset(inference, 0, sizeof(*inference));
	if (!sample)
		return -ENOMEM;
	sample->seed = *seed;
	for (uint32_t i = 0; i < count; i++)
		sample_frame(sample, &frames[i], &interfaces[frames[i].interface]);
	infer_local(sample, inference);
	inference->mtu = infer_mtu(frames, count, interfaces);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "trains.h"

#include <stdbool.h>
#include <string.h>

#include "decode_internal.h"

/* Offsets in an untagged Ethernet frame with an IPv4 header without options. */
enum {
	ETHER_TYPE = 12,
	IP_LENGTH = 16,
	IP_PROTOCOL = 23,
	TCP_SEQUENCE = 38,
	TCP_OFFSET = 46,
	TCP_FLAGS = 47,
	HEADERS = 54, /* to the end of TCP's fixed header; what must be captured */
	IP_BEGIN = 14,
	IP_HEADER = 20,
	UDP_HEADER = 8,
};

static inline uint64_t load64(const uint8_t *bytes)
{
	uint64_t word;

	memcpy(&word, bytes, sizeof(word));
	return word;
}

/* Whether two frames say the same in all that decides on sender, flow, marks and side: both MAC
 * addresses, type of service, fragment, protocol, IP addresses and ports. Left out are IP's length,
 * id, time to live and checksum. */
static inline bool is_alike(const uint8_t *a, const uint8_t *b)
{
	static const uint8_t fragment_protocol_source[8] = { 255, 255, 0, 255, 0, 0, 255, 255 };
	uint64_t differing = (load64(a) ^ load64(b)) | (load64(a + 8) ^ load64(b + 8));

	differing |= (load64(a + 20) ^ load64(b + 20)) & load64(fragment_protocol_source);
	differing |= load64(a + 28) ^ load64(b + 28);
	return !(differing | (mb_be16(a + 36) ^ mb_be16(b + 36)));
}

/* Read a frame that needs no more than its lengths to be understood: IPv4 and TCP (within a
 * connection) or UDP, whole, not merged, not contradicting itself. False for any other. */
static inline bool read_car(const struct mb_frame *frame, uint32_t fcs_len, uint32_t largest,
			    struct mb_car *car)
{
	const uint8_t *data = frame->data;
	uint32_t available = frame->len - fcs_len - IP_BEGIN, length, header;

	if (frame->caplen < HEADERS || available > largest || frame->gso_size ||
	    (mb_be32(data + ETHER_TYPE) & 0xffffff00) != 0x08004500 ||
	    (mb_be16(data + 20) & 0x3fff))
		return false;
	length = mb_be16(data + IP_LENGTH);
	car->ts_ns = frame->ts_ns;
	car->bytes = available + IP_BEGIN;
	car->wire_bytes = (car->bytes < 60 ? 60 : car->bytes) + 24;
	car->tcp_seq = car->tcp_len = 0;
	if (data[IP_PROTOCOL] == MB_IPPROTO_UDP)
		return length <= available && length >= IP_HEADER + UDP_HEADER;
	header = data[TCP_OFFSET] >> 2 & 0x3c;
	car->tcp_seq = mb_be32(data + TCP_SEQUENCE);
	car->tcp_len = length - IP_HEADER - header;
	return data[IP_PROTOCOL] == MB_IPPROTO_TCP && !(data[TCP_FLAGS] & 3) && header >= 20 &&
	       length <= available && IP_HEADER + header <= length;
}

static void begin_train(struct mb_trains *trains, const struct mb_frame *frame, uint32_t first)
{
	trains->head_frames[trains->count] = *frame;
	trains->trains[trains->count++] = (struct mb_train){ first, 1 };
}

/* Cars of frames that are no such thing, or begin a train, are what the decoder says of them. */
static void fill_heads(struct mb_trains *trains)
{
	for (uint32_t i = 0; i < trains->count; i++) {
		const struct mb_packet *head = &trains->heads[i];

		trains->cars[trains->trains[i].first] = (struct mb_car){
			.ts_ns = head->ts_ns,
			.bytes = head->bytes,
			.wire_bytes = head->wire_bytes,
			.tcp_seq = head->tcp_seq,
			.tcp_len = head->tcp_len,
		};
	}
}

void mb_trains_decode(struct mb_trains *trains, const struct mb_frame *frames, uint32_t count,
		      const struct mb_interface *interface, const struct mb_decode_options *options)
{
	bool can_follow = interface->linktype == MB_LINKTYPE_ETHERNET && !options->inner;
	uint32_t largest = options->mtu && options->mtu < UINT16_MAX ? options->mtu : UINT16_MAX;
	bool follows = false;

	trains->count = 0;
	for (uint32_t i = 0; i < count; i++) {
		bool is_car = can_follow &&
			      read_car(&frames[i], interface->fcs_len, largest, &trains->cars[i]);

		if (is_car && follows && is_alike(frames[i].data, frames[i - 1].data) &&
		    frames[i].direction == frames[i - 1].direction &&
		    frames[i].quality == frames[i - 1].quality)
			trains->trains[trains->count - 1].count++;
		else
			begin_train(trains, &frames[i], i);
		follows = is_car;
	}
	mb_decode(trains->head_frames, trains->count, interface, options, trains->heads);
	fill_heads(trains);
}

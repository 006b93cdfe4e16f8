/* SPDX-License-Identifier: Apache-2.0 */
#include "trains.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "decode_internal.h"

#define mb_inline inline __attribute__((always_inline))

enum {
	ETHER_TYPE = 12,
	TAG = 4,
	IPV4_HEADER = 20,
	IPV6_HEADER = 40,
	PORTS = 4,
	UDP_HEADER = 8,
	TCP_HEADER = 20,
	TCP_SEQUENCE = 4, /* offsets in TCP's header */
	TCP_OFFSET = 12,
	TCP_FLAGS = 13,
	FIN_SYN = 3,
	AHEAD = 65536, /* bytes, about a batch of frames; half and twice that measured the same */
	CACHE_LINE = 64,
	LEAST = MB_ETHERNET_HEADER + IPV4_HEADER + TCP_HEADER, /* captured of any train's frame */
};

/* Offsets of the headers that make trains: Ethernet, with a tag or without, IPv4 without options or
 * IPv6, TCP or UDP. */
struct shape {
	uint32_t ip, transport;
	uint32_t length;    /* of IP's length … */
	uint32_t uncounted; /* … and the bytes of the packet that it leaves out */
	uint32_t captured;  /* bytes that must have been */
	uint32_t whole, last; /* blocks from the first byte on, and where the last one begins */
};

static mb_inline struct shape shape_of(bool is_tagged, bool is_ipv6)
{
	uint32_t ip = MB_ETHERNET_HEADER + (is_tagged ? TAG : 0);
	uint32_t transport = ip + (is_ipv6 ? IPV6_HEADER : IPV4_HEADER);

	return (struct shape){
		.ip = ip,
		.transport = transport,
		.length = ip + (is_ipv6 ? 4 : 2),
		.uncounted = is_ipv6 ? IPV6_HEADER : 0,
		.captured = transport + TCP_HEADER,
		.whole = (transport + TCP_FLAGS) / MB_ALIKE_BLOCK,
		.last = transport + TCP_FLAGS + 1 - MB_ALIKE_BLOCK,
	};
}

/* Compare BITS of the byte at offset AT. */
static void compare_bits(struct mb_alike *alike, const struct shape *shape, uint32_t at, uint8_t bits)
{
	if (at < shape->whole * MB_ALIKE_BLOCK)
		alike->blocks[at / MB_ALIKE_BLOCK].bytes[at % MB_ALIKE_BLOCK] = bits;
	else
		alike->blocks[shape->whole].bytes[at - shape->last] = bits;
}

static void compare(struct mb_alike *alike, const struct shape *shape, uint32_t at, uint32_t length)
{
	for (uint32_t end = at + length; at < end; at++)
		compare_bits(alike, shape, at, 0xff);
}

static void compare_ipv4(struct mb_alike *alike, const struct shape *shape)
{
	compare(alike, shape, shape->ip, 2);     /* version, header length, type of service */
	compare(alike, shape, shape->ip + 6, 2); /* fragment */
	compare(alike, shape, shape->ip + 9, 1); /* protocol */
	compare(alike, shape, shape->ip + 12, 8 + PORTS);
}

static void compare_ipv6(struct mb_alike *alike, const struct shape *shape)
{
	compare(alike, shape, shape->ip, 4);     /* version, traffic class, flow label */
	compare(alike, shape, shape->ip + 6, 1); /* next header */
	compare(alike, shape, shape->ip + 8, 32 + PORTS);
}

static void alike_init(struct mb_alike *alike, bool is_tagged, bool is_ipv6, bool is_udp)
{
	struct shape shape = shape_of(is_tagged, is_ipv6);

	memset(alike, 0, sizeof(*alike));
	compare(alike, &shape, 0, shape.ip);
	if (is_ipv6)
		compare_ipv6(alike, &shape);
	else
		compare_ipv4(alike, &shape);
	if (!is_udp) {
		compare_bits(alike, &shape, shape.transport + TCP_OFFSET, 0xf0);
		compare_bits(alike, &shape, shape.transport + TCP_FLAGS, FIN_SYN);
	}
}

void mb_trains_init(struct mb_trains *trains)
{
	for (int i = 0; i < 8; i++)
		alike_init(&trains->alike[i >> 2][i >> 1 & 1][i & 1], i >> 2, i >> 1 & 1, i & 1);
}

static mb_inline mb_block load_block(const uint8_t *bytes)
{
	mb_block loaded;

	memcpy(&loaded, bytes, sizeof(loaded));
	return loaded;
}

/* Interface, segment size, direction and quality as one word. */
static mb_inline uint64_t nature_of(const struct mb_frame *frame)
{
	uint64_t nature;

	_Static_assert(offsetof(struct mb_frame, interface) + sizeof(nature) == sizeof(*frame),
		       "the last members of a frame are one word");
	memcpy(&nature, (const char *)frame + offsetof(struct mb_frame, interface), sizeof(nature));
	return nature;
}

/* What the frames of a train have in common. */
struct common {
	const struct mb_frame *first;
	const struct mb_alike *alike;
	uint32_t fcs_len;
	uint32_t largest; /* IP packet that is surely not merged */
	uint32_t header;  /* bytes of the packet that are headers */
};

/* The blocks of a train's headers, in registers. SHAPE is a constant. */
struct headers {
	mb_block first[MB_ALIKE_BLOCKS], alike[MB_ALIKE_BLOCKS];
};

static mb_inline void load_headers(struct headers *headers, const struct common *common, const struct shape *shape)
{
	for (uint32_t i = 0; i <= shape->whole; i++) {
		uint32_t at = i < shape->whole ? i * MB_ALIKE_BLOCK : shape->last;

		headers->first[i] = load_block(common->first->data + at);
		headers->alike[i] = common->alike->blocks[i].bits;
	}
}

static mb_inline bool is_alike(const struct headers *headers, const struct shape *shape, const uint8_t *data)
{
	mb_block differing = { 0, 0 };

	for (uint32_t i = 0; i <= shape->whole; i++) {
		uint32_t at = i < shape->whole ? i * MB_ALIKE_BLOCK : shape->last;

		differing |= (load_block(data + at) ^ headers->first[i]) & headers->alike[i];
	}
	return !(differing[0] | differing[1]);
}

/* Whether the frame is whole on the wire and does not contradict itself; LENGTH is that of its IP packet. */
static mb_inline bool is_plain(const struct common *common, const struct shape *shape,
			       const struct mb_frame *frame, uint32_t *length)
{
	uint32_t available = frame->len - common->fcs_len - shape->ip;

	*length = mb_be16(frame->data + shape->length) + shape->uncounted;
	return available <= common->largest && *length <= available && *length >= common->header;
}

/* The records of a file lie one behind the other: have those of the next batch under way while this one
 * is compared and counted, so that nobody waits for their memory. Where they lie elsewhere it does no
 * harm. Frames that are no train have their own look-ups under way instead. */
static mb_inline void prefetch_ahead(const struct mb_frame *frame)
{
	uintptr_t ahead = (uintptr_t)frame->data + AHEAD;

	__builtin_prefetch((const void *)ahead, 0, 2);
	__builtin_prefetch((const void *)(ahead + CACHE_LINE), 0, 2);
}

/* Make a train of the frame at the front of COUNT and those that follow it. SHAPE and IS_TCP are
 * constants. */
static mb_inline void follow(const struct common *shared, const struct shape *shape, bool is_tcp,
			     uint32_t count, struct mb_train *train)
{
	const struct common common = *shared;
	const struct mb_frame *frame = common.first, *end = frame + count;
	const uint64_t nature = nature_of(frame);
	uint32_t sequence = mb_be32(frame->data + shape->transport + TCP_SEQUENCE), length;
	struct headers headers;
	int64_t ts_ns;

	load_headers(&headers, &common, shape);
	do {
		prefetch_ahead(frame);
		if (!is_plain(&common, shape, frame, &length))
			break;
		if (is_tcp) {
			if (mb_be32(frame->data + shape->transport + TCP_SEQUENCE) != sequence)
				break;
			sequence += length - common.header;
		}
		ts_ns = frame++->ts_ns;
	} while (frame < end && nature_of(frame) == nature && frame->ts_ns >= ts_ns &&
		 frame->caplen >= shape->captured && is_alike(&headers, shape, frame->data));
	if (frame != common.first)
		train->count = (uint32_t)(frame - common.first);
	train->tcp_end = sequence;
}

/* The loop for each shape, apart so that it has the registers for itself. */
#define FOLLOW(name, is_tagged, is_ipv6, is_tcp)                                                   \
	static __attribute__((noinline)) void name(const struct common *common, uint32_t count,    \
						   struct mb_train *train)                         \
	{                                                                                          \
		const struct shape shape = shape_of(is_tagged, is_ipv6);                           \
                                                                                                   \
		follow(common, &shape, is_tcp, count, train);                                      \
	}

FOLLOW(follow_ipv4_tcp, false, false, true)
FOLLOW(follow_ipv4_udp, false, false, false)
FOLLOW(follow_ipv6_tcp, false, true, true)
FOLLOW(follow_ipv6_udp, false, true, false)
FOLLOW(follow_tagged_ipv4_tcp, true, false, true)
FOLLOW(follow_tagged_ipv4_udp, true, false, false)
FOLLOW(follow_tagged_ipv6_tcp, true, true, true)
FOLLOW(follow_tagged_ipv6_udp, true, true, false)

/* By the same indices as mb_trains.alike. */
static void (*const follow_shapes[2][2][2])(const struct common *common, uint32_t count,
					    struct mb_train *train) = {
	{ { follow_ipv4_tcp, follow_ipv4_udp }, { follow_ipv6_tcp, follow_ipv6_udp } },
	{ { follow_tagged_ipv4_tcp, follow_tagged_ipv4_udp },
	  { follow_tagged_ipv6_tcp, follow_tagged_ipv6_udp } },
};

/* Whether this is TCP or UDP that can lead a train: its headers are captured; no options of IPv4's,
 * no fragment, neither the beginning nor the end of a connection (SYN and FIN take sequence space). */
static mb_inline bool can_lead(const struct mb_frame *frame, const struct shape *shape, bool is_ipv6,
			       uint8_t protocol)
{
	const uint8_t *ip = frame->data + shape->ip, *tcp = frame->data + shape->transport;

	if (frame->caplen < shape->captured ||
	    mb_be16(ip - 2) != (is_ipv6 ? MB_NEXT_IPV6 : MB_NEXT_IPV4) ||
	    (!is_ipv6 && (ip[0] != 0x45 || mb_be16(ip + 6) & 0x3fff)))
		return false;
	return protocol == MB_IPPROTO_UDP ||
	       (protocol == MB_IPPROTO_TCP && !(tcp[TCP_FLAGS] & FIN_SYN) &&
		tcp[TCP_OFFSET] >> 2 >= TCP_HEADER);
}

/* Whether two frames might be of one flow, by the twelve bytes at which IPv4 has addresses and ports, and
 * IPv6 the most of the source: so that flows that take turns cost no more than this. */
static mb_inline bool may_follow(const struct mb_frame *frame, const struct mb_frame *next)
{
	enum { ADDRESSES = MB_ETHERNET_HEADER + 12, LENGTH = 12 };
	uint32_t at = ADDRESSES + (mb_be16(frame->data + ETHER_TYPE) == MB_NEXT_VLAN ? TAG : 0);

	return !memcmp(frame->data + at, next->data + at, LENGTH);
}

/* Make a train of the frames at the front of COUNT: of one at least. */
static mb_inline void make_train(const struct mb_trains *trains, const struct mb_frame *frames,
				 uint32_t count, struct common *common, struct mb_train *train)
{
	const uint8_t *data = frames->data, *ip;
	bool is_tagged, is_ipv6, is_udp;
	struct shape shape;
	uint8_t protocol;

	if (count == 1 || frames->caplen < LEAST || frames[1].caplen < LEAST || frames->gso_size ||
	    !may_follow(frames, frames + 1))
		return;
	is_tagged = mb_be16(data + ETHER_TYPE) == MB_NEXT_VLAN;
	ip = data + MB_ETHERNET_HEADER + (is_tagged ? TAG : 0);
	is_ipv6 = ip[0] >> 4 == 6;
	protocol = ip[is_ipv6 ? 6 : 9];
	is_udp = protocol == MB_IPPROTO_UDP;
	shape = shape_of(is_tagged, is_ipv6);
	if (!can_lead(frames, &shape, is_ipv6, protocol))
		return;
	common->first = frames;
	common->alike = &trains->alike[is_tagged][is_ipv6][is_udp];
	common->header = shape.transport - shape.ip +
			 (is_udp ? UDP_HEADER : data[shape.transport + TCP_OFFSET] >> 2 & 0x3c);
	follow_shapes[is_tagged][is_ipv6][is_udp](common, count, train);
}

uint32_t mb_trains_decode(struct mb_trains *trains, const struct mb_frame *frames, uint32_t count,
			  const struct mb_interface *interface, const struct mb_decode_options *options)
{
	const bool can_follow = interface->linktype == MB_LINKTYPE_ETHERNET && !options->inner;
	struct common common = {
		.fcs_len = interface->fcs_len,
		.largest = options->mtu && options->mtu < UINT16_MAX ? options->mtu : UINT16_MAX,
	};
	uint32_t i = 0;

	if (count > MB_BATCH_FRAMES)
		count = MB_BATCH_FRAMES;
	trains->count = 0;
	while (i < count && frames[i].interface == frames->interface) {
		struct mb_train *train = &trains->trains[trains->count];

		*train = (struct mb_train){ .frames = &frames[i], .count = 1, .fcs_len = common.fcs_len };
		if (can_follow)
			make_train(trains, &frames[i], count - i, &common, train);
		trains->head_frames[trains->count++] = frames[i];
		i += train->count;
	}
	mb_decode(trains->head_frames, trains->count, interface, options, trains->heads);
	return i;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/trains.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "compiler.h"
#include "decode/walk.h"
#include "linktype.h"
#include "measure/span.h"

enum {
	ETHER_TYPE = 12,
	PORTS = 4,
	TCP_SEQUENCE = 4, /* offsets in TCP's header */
	TCP_OFFSET = 12,
	TCP_FLAGS = 13,
	FIN_SYN = 3,
	ROCE_NOT_DATA = 0x80, /* in the opcode: data and acknowledgments are below, MB_ROCE_CNP is not */
	AHEAD = 8192, /* bytes; a quarter and twice of it measured the same */
	LEAST = MB_ETHERNET_HEADER + MB_IPV4_HEADER + MB_TCP_HEADER, /* captured bytes of any frame of a train */
};

/* Offsets of the headers that make trains: Ethernet, with a tag or without, IPv4 without options or
 * IPv6, TCP or UDP. */
struct shape {
	uint32_t ip, transport;
	uint32_t length;    /* offset of the length in the IP header … */
	uint32_t uncounted; /* … and the bytes of the packet that it does not count */
	uint32_t ecn;       /* the lowest bit of the ECN field (RFC 3168), in the second byte of the IP header */
	uint32_t captured;  /* bytes that must be captured */
	uint32_t whole, last; /* blocks from the first byte on, and the offset of the last one */
};

static mb_inline struct shape shape_of(bool is_tagged, bool is_ipv6)
{
	uint32_t ip = MB_ETHERNET_HEADER + (is_tagged ? MB_VLAN_TAG : 0);
	uint32_t transport = ip + (is_ipv6 ? MB_IPV6_HEADER : MB_IPV4_HEADER);

	return (struct shape){
		.ip = ip,
		.transport = transport,
		.length = ip + (is_ipv6 ? 4 : 2),
		.uncounted = is_ipv6 ? MB_IPV6_HEADER : 0,
		.ecn = is_ipv6 ? 4 : 0,
		.captured = transport + MB_TCP_HEADER,
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
	compare(alike, shape, shape->ip, 2);     /* version, header length, traffic class */
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

static void alike_init(struct mb_alike *alike, bool is_tagged, bool is_ipv6, enum mb_transport transport, bool is_same)
{
	struct shape shape = shape_of(is_tagged, is_ipv6);

	memset(alike, 0, sizeof(*alike));
	compare(alike, &shape, 0, shape.ip);
	if (is_ipv6)
		compare_ipv6(alike, &shape);
	else
		compare_ipv4(alike, &shape);
	if (is_same)
		compare(alike, &shape, shape.length, 2);
	else
		compare_bits(alike, &shape, shape.ip + 1, (uint8_t)~(MB_ECN << shape.ecn));
	if (transport == MB_TRANSPORT_TCP) {
		compare_bits(alike, &shape, shape.transport + TCP_OFFSET, 0xf0);
		compare_bits(alike, &shape, shape.transport + TCP_FLAGS, FIN_SYN);
	} else if (transport == MB_TRANSPORT_ROCE) {
		compare_bits(alike, &shape, shape.transport + MB_UDP_HEADER, ROCE_NOT_DATA);
	}
}

void mb_trains_init(struct mb_trains *trains, int64_t bin_ns, int64_t source_bin_ns)
{
	int64_t width_ns = mb_common_divisor(bin_ns, source_bin_ns);

	trains->cell = (struct mb_cell){ .width_ns = width_ns, .end_ns = width_ns };
	for (int i = 0; i < 4 * MB_TRANSPORTS; i++) {
		const int tagged = i & 1, ipv6 = i >> 1 & 1;
		const enum mb_transport transport = i >> 2;

		alike_init(&trains->alike[tagged][ipv6][transport], tagged, ipv6, transport, false);
		alike_init(&trains->same[tagged][ipv6][transport], tagged, ipv6, transport, true);
	}
}

static mb_inline mb_block load_block(const uint8_t *bytes)
{
	mb_block loaded;

	memcpy(&loaded, bytes, sizeof(loaded));
	return loaded;
}

/* What the frames of a train have in common. */
struct common {
	const struct mb_alike *alike, *same;
	uint32_t fcs_len;
	uint32_t largest; /* largest IP packet that is surely not merged */
	uint32_t header;  /* bytes of the packet that are headers */
};

/* The blocks of a train's headers, in registers. SHAPE is a constant. */
struct headers {
	mb_block first[MB_ALIKE_BLOCKS], bits[MB_ALIKE_BLOCKS];
};

static mb_inline uint32_t block_at(const struct shape *shape, uint32_t i)
{
	return i < shape->whole ? i * MB_ALIKE_BLOCK : shape->last;
}

static mb_inline void load_headers(struct headers *headers, const struct shape *shape, const uint8_t *first,
				   const struct mb_alike *alike)
{
	for (uint32_t i = 0; i <= shape->whole; i++) {
		headers->first[i] = load_block(first + block_at(shape, i));
		headers->bits[i] = alike->blocks[i].bits;
	}
}

static mb_inline bool is_alike(const struct headers *headers, const struct shape *shape, const uint8_t *data)
{
	mb_block differing = { 0, 0 };

	for (uint32_t i = 0; i <= shape->whole; i++)
		differing |= (load_block(data + block_at(shape, i)) ^ headers->first[i]) & headers->bits[i];
	return !(differing[0] | differing[1]);
}

/* Records of a file follow each other in memory: prefetch later ones while these are compared and counted, so that
 * nothing waits for memory. If they are elsewhere, this does no harm. */
static mb_inline void prefetch_ahead(const uint8_t *data)
{
	__builtin_prefetch((const void *)((uintptr_t)data + AHEAD), 0, 2);
}

/* Begin a subtotal with a frame at TS_NS. */
static mb_inline struct mb_subtotal *begin_subtotal(struct mb_trains *trains, int64_t ts_ns)
{
	struct mb_subtotal *subtotal = &trains->subtotals[trains->n_subtotals++];

	mb_cell_move(&trains->cell, ts_ns);
	*subtotal = (struct mb_subtotal){ .first_ns = ts_ns };
	return subtotal;
}

/* A train that is being built. */
struct making {
	const uint8_t *at;        /* the current frame … */
	struct mb_frame frame;
	int64_t last_ns;          /* … the stamp of the previous frame … */
	uint32_t sequence;        /* … and the sequence number at which it ended (TCP) */
	struct mb_subtotal *subtotal; /* of the latest bin, without the run */
	uint64_t bytes;           /* of all bins, without the run */
	uint32_t count;
};

/* Consecutive frames of the train with the same lengths and mark: usually many. This has the facts that need to be
 * determined only once for all of them. */
struct run {
	uint64_t lengths;
	size_t stride;
	const uint8_t *last; /* the last address at which a complete frame can begin */
	uint32_t l2;         /* bytes without FCS … */
	uint32_t payload;    /* … and how many of them follow the headers */
	uint32_t count;      /* in the latest bin */
	bool is_ce;
	struct headers headers;
};

/* Begin a run with the current frame. Returns false if it is not a single frame on the wire or contradicts itself: a
 * size that is too small has wrapped around. */
static mb_inline bool begin_run(struct run *run, const struct making *train, const struct common *common,
				const struct mb_frame_view *view, const struct shape *shape, enum mb_layout layout)
{
	uint32_t available = train->frame.len - common->fcs_len - shape->ip;
	uint32_t length = mb_be16(train->frame.data + shape->length) + shape->uncounted;

	run->count = 0;
	run->lengths = mb_view_lengths(layout, train->at);
	run->stride = mb_view_stride(layout, train->frame.caplen);
	run->last = (const uint8_t *)view->end - run->stride;
	run->l2 = train->frame.len - common->fcs_len;
	run->payload = length - common->header;
	run->is_ce = mb_is_ce(train->frame.data[shape->ip + 1] >> shape->ecn);
	load_headers(&run->headers, shape, train->frame.data, common->same);
	return available <= common->largest && length <= available && length >= common->header;
}

static mb_inline void add_run(struct making *train, struct run *run)
{
	uint64_t bytes = (uint64_t)run->count * run->l2;

	train->subtotal->bytes += bytes;
	if (run->l2 < MB_WIRE_SHORTEST)
		train->subtotal->padding += (uint64_t)run->count * (MB_WIRE_SHORTEST - run->l2);
	train->subtotal->packets += run->count;
	train->subtotal->ce_packets += run->is_ce ? run->count : 0;
	train->subtotal->last_ns = train->last_ns;
	train->bytes += bytes;
	train->count += run->count;
}

/* Add the current frame. Returns false if it does not continue where the previous one ended, or if there is no room. */
static mb_inline bool add_frame(struct mb_trains *trains, struct making *train, struct run *run,
				const struct shape *shape, bool is_tcp)
{
	const struct mb_frame *frame = &train->frame;

	if (mb_unlikely(is_tcp && mb_be32(frame->data + shape->transport + TCP_SEQUENCE) != train->sequence))
		return false;
	if (mb_unlikely(frame->ts_ns >= trains->cell.end_ns)) {
		if (trains->n_subtotals == MB_SUBTOTALS)
			return false;
		add_run(train, run);
		run->count = 0;
		train->subtotal = begin_subtotal(trains, frame->ts_ns);
	}
	prefetch_ahead(frame->data);
	train->sequence += run->payload;
	train->last_ns = frame->ts_ns;
	run->count++;
	return true;
}

/* Move to the next frame. Returns false if it does not belong to the run. */
static mb_inline bool goes_on(struct making *train, const struct run *run, uint64_t nature, const struct shape *shape,
			      enum mb_layout layout)
{
	train->at += run->stride;
	if (train->at > run->last || mb_view_lengths(layout, train->at) != run->lengths ||
	    mb_view_nature(layout, train->at) != nature || !mb_view_fraction_is_sane(layout, train->at))
		return false;
	train->frame = mb_view_frame(layout, train->at);
	return train->frame.ts_ns >= train->last_ns && is_alike(&run->headers, shape, train->frame.data);
}

/* Whether the frame after a run still belongs to the train. */
static mb_inline bool follows(struct making *train, uint64_t nature, const struct common *common,
			      const struct mb_frame_view *view, const struct shape *shape, enum mb_layout layout)
{
	struct headers headers;

	if (!mb_view_has(view, layout, train->at) || mb_view_nature(layout, train->at) != nature)
		return false;
	train->frame = mb_view_frame(layout, train->at);
	if (train->frame.ts_ns < train->last_ns || train->frame.caplen < shape->captured)
		return false;
	load_headers(&headers, shape, mb_view_frame(layout, view->at).data, common->alike);
	return is_alike(&headers, shape, train->frame.data);
}

/* Extend TRAIN, which consists of the frame at the front of VIEW, by the frames that follow it. SHAPE, IS_TCP and
 * LAYOUT are constants. */
static mb_inline void follow(struct mb_trains *trains, struct mb_train *train, const struct common *shared,
			     const struct mb_frame_view *view, const struct shape *shape, bool is_tcp,
			     enum mb_layout layout)
{
	const struct common common = *shared;
	const uint64_t nature = mb_view_nature(layout, view->at);
	const uint32_t first_subtotal = trains->n_subtotals;
	struct making making = { .at = view->at, .frame = mb_view_frame(layout, view->at) };
	struct run run;

	making.last_ns = making.frame.ts_ns;
	making.sequence = mb_be32(making.frame.data + shape->transport + TCP_SEQUENCE);
	making.subtotal = begin_subtotal(trains, making.last_ns);
	do {
		if (!begin_run(&run, &making, &common, view, shape, layout))
			break;
		while (add_frame(trains, &making, &run, shape, is_tcp) && goes_on(&making, &run, nature, shape, layout))
			;
		add_run(&making, &run);
	} while (run.count && follows(&making, nature, &common, view, shape, layout));
	if (making.count < 2) {
		trains->n_subtotals = first_subtotal;
		return;
	}
	*train = (struct mb_train){
		.at = view->at,
		.end = making.at,
		.count = making.count,
		.tcp_end = making.sequence,
		.bytes = making.bytes,
		.subtotals = &trains->subtotals[first_subtotal],
		.n_subtotals = trains->n_subtotals - first_subtotal,
	};
}

/* The loop for each shape, as separate functions, so that each can use all registers. */
#define FOLLOW(name, is_tagged, is_ipv6, is_tcp, layout)                                                          \
	static __attribute__((noinline)) void name(struct mb_trains *trains, struct mb_train *train,              \
						   const struct common *common, const struct mb_frame_view *view) \
	{                                                                                                         \
		const struct shape shape = shape_of(is_tagged, is_ipv6);                                          \
                                                                                                                  \
		follow(trains, train, common, view, &shape, is_tcp, layout);                                      \
	}

#define FOLLOW_LAYOUT(suffix, layout)                                       \
	FOLLOW(follow_ipv4_tcp_##suffix, false, false, true, layout)        \
	FOLLOW(follow_ipv4_udp_##suffix, false, false, false, layout)       \
	FOLLOW(follow_ipv6_tcp_##suffix, false, true, true, layout)         \
	FOLLOW(follow_ipv6_udp_##suffix, false, true, false, layout)        \
	FOLLOW(follow_tagged_ipv4_tcp_##suffix, true, false, true, layout)  \
	FOLLOW(follow_tagged_ipv4_udp_##suffix, true, false, false, layout) \
	FOLLOW(follow_tagged_ipv6_tcp_##suffix, true, true, true, layout)   \
	FOLLOW(follow_tagged_ipv6_udp_##suffix, true, true, false, layout)

FOLLOW_LAYOUT(frames, MB_LAYOUT_FRAMES)
FOLLOW_LAYOUT(ns, MB_LAYOUT_RECORDS_NS)
FOLLOW_LAYOUT(us, MB_LAYOUT_RECORDS_US)

#define SHAPES(suffix)                                                                    \
	{                                                                                 \
		{ { follow_ipv4_tcp_##suffix, follow_ipv4_udp_##suffix },                 \
		  { follow_ipv6_tcp_##suffix, follow_ipv6_udp_##suffix } },               \
		{ { follow_tagged_ipv4_tcp_##suffix, follow_tagged_ipv4_udp_##suffix },   \
		  { follow_tagged_ipv6_tcp_##suffix, follow_tagged_ipv6_udp_##suffix } }, \
	}

/* By layout, tagged, IPv6, UDP. */
static void (*const follow_shapes[MB_LAYOUTS][2][2][2])(struct mb_trains *trains, struct mb_train *train,
							const struct common *common,
							const struct mb_frame_view *view) = {
	[MB_LAYOUT_FRAMES] = SHAPES(frames),
	[MB_LAYOUT_RECORDS_NS] = SHAPES(ns),
	[MB_LAYOUT_RECORDS_US] = SHAPES(us),
};

/* The kind of transport header at TRANSPORT, without a branch. */
static mb_inline enum mb_transport transport_of(const uint8_t *transport, uint8_t protocol)
{
	uint32_t is_udp = protocol == MB_IPPROTO_UDP;

	return MB_TRANSPORT_TCP + is_udp + (is_udp & (mb_be16(transport + 2) == MB_PORT_ROCE));
}

/* Whether this is a TCP or UDP frame that can lead a train: its headers are captured; it has no IPv4 options, is not a
 * fragment, and neither begins nor ends a connection (SYN and FIN take sequence space). */
static mb_inline bool can_lead(const struct mb_frame *frame, const struct shape *shape, bool is_ipv6, uint8_t protocol)
{
	const uint8_t *ip = frame->data + shape->ip, *tcp = frame->data + shape->transport;

	if (frame->caplen < shape->captured || mb_be16(ip - 2) != (is_ipv6 ? MB_NEXT_IPV6 : MB_NEXT_IPV4) ||
	    (!is_ipv6 && (ip[0] != 0x45 || mb_be16(ip + 6) & 0x3fff)))
		return false;
	/* without a branch, because the protocol cannot be predicted */
	return (protocol == MB_IPPROTO_UDP) |
	       ((protocol == MB_IPPROTO_TCP) & !(tcp[TCP_FLAGS] & FIN_SYN) & (tcp[TCP_OFFSET] >> 2 >= MB_TCP_HEADER));
}

/* Whether two frames may be of one flow, by the twelve bytes that hold addresses and ports in IPv4, and most of the
 * source in IPv6: so flows that alternate cost no more than this comparison. */
static mb_inline bool may_follow(const struct mb_frame *frame, const struct mb_frame *next)
{
	uint32_t at = MB_ETHERNET_HEADER + 12 + (mb_be16(frame->data + ETHER_TYPE) == MB_NEXT_VLAN ? MB_VLAN_TAG : 0);
	const uint8_t *one = frame->data + at, *other = next->data + at;

	return mb_load64(one, false) == mb_load64(other, false) &&
	       mb_load32(one + 8, false) == mb_load32(other + 8, false);
}

/* Extend TRAIN, which consists of the frame FIRST at the front of VIEW, by the frames that follow it. LAYOUT is a
 * constant. */
static mb_inline void make_train(struct mb_trains *trains, struct mb_train *train, const struct mb_frame_view *view,
				 const struct mb_frame *first, enum mb_layout layout, struct common *common)
{
	const uint8_t *data = first->data, *ip;
	enum mb_transport transport;
	bool is_tagged, is_ipv6;
	struct mb_frame second;
	struct shape shape;
	uint8_t protocol;

	if (first->caplen < LEAST || first->gso_size || !mb_view_has(view, layout, train->end))
		return;
	second = mb_view_frame(layout, train->end);
	if (second.caplen < LEAST || !may_follow(first, &second))
		return;
	is_tagged = mb_be16(data + ETHER_TYPE) == MB_NEXT_VLAN;
	ip = data + MB_ETHERNET_HEADER + (is_tagged ? MB_VLAN_TAG : 0);
	is_ipv6 = ip[0] >> 4 == 6;
	protocol = ip[is_ipv6 ? 6 : 9];
	shape = shape_of(is_tagged, is_ipv6);
	if (!can_lead(first, &shape, is_ipv6, protocol))
		return;
	transport = transport_of(data + shape.transport, protocol);
	if (mb_unlikely(transport == MB_TRANSPORT_ROCE) && data[shape.transport + MB_UDP_HEADER] & ROCE_NOT_DATA)
		return;
	common->alike = &trains->alike[is_tagged][is_ipv6][transport];
	common->same = &trains->same[is_tagged][is_ipv6][transport];
	common->header =
		shape.transport - shape.ip +
		(transport != MB_TRANSPORT_TCP ? MB_UDP_HEADER : data[shape.transport + TCP_OFFSET] >> 2 & 0x3c);
	follow_shapes[layout][is_tagged][is_ipv6][transport != MB_TRANSPORT_TCP](trains, train, common, view);
}

/* mb_trains_decode() without decoding the leaders. LAYOUT is a constant. */
static mb_inline void divide(struct mb_trains *trains, struct mb_frame_view *view, enum mb_layout layout,
			     bool can_follow, struct common *common)
{
	const uint16_t number = mb_view_frame(layout, view->at).interface;

	while (trains->count < MB_TRAINS && trains->n_subtotals < MB_SUBTOTALS && mb_view_has(view, layout, view->at)) {
		struct mb_train *train = &trains->trains[trains->count];
		struct mb_frame *first = &trains->leader_frames[trains->count];

		mb_view_load(layout, view->at, first);
		if (first->interface != number)
			break;
		prefetch_ahead(first->data);
		train->at = view->at;
		train->end = (const uint8_t *)view->at + mb_view_stride(layout, first->caplen);
		train->count = 1;
		if (can_follow)
			make_train(trains, train, view, first, layout, common);
		trains->count++;
		trains->frames += train->count;
		trains->bytes +=
			train->count == 1 ? first->len : train->bytes + (uint64_t)train->count * common->fcs_len;
		view->at = train->end;
	}
}

void mb_trains_decode(struct mb_trains *trains, struct mb_frame_view *view, const struct mb_interface *interface,
		      const struct mb_decode_options *options)
{
	const bool can_follow = interface->linktype == MB_LINKTYPE_ETHERNET && !options->inner && !trains->off;
	struct common common = {
		.fcs_len = interface->fcs_len,
		.largest = options->mtu && options->mtu < UINT16_MAX ? options->mtu : UINT16_MAX,
	};

	trains->count = trains->n_subtotals = 0;
	trains->frames = trains->bytes = 0;
	if (view->layout == MB_LAYOUT_FRAMES)
		divide(trains, view, MB_LAYOUT_FRAMES, can_follow, &common);
	else if (view->layout == MB_LAYOUT_RECORDS_NS)
		divide(trains, view, MB_LAYOUT_RECORDS_NS, can_follow, &common);
	else
		divide(trains, view, MB_LAYOUT_RECORDS_US, can_follow, &common);
	mb_decode(trains->leader_frames, trains->count, interface, options, trains->leaders);
}

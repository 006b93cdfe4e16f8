/* SPDX-License-Identifier: Apache-2.0 */
#include "decode.h"

#include "decode_internal.h"

#define likely(condition) __builtin_expect(!!(condition), 1)
#define unlikely(condition) __builtin_expect(!!(condition), 0)

enum { LINKTYPE_ETHERNET = 1 };

static struct mb_walk walk_frame(const struct mb_frame *frame, uint32_t bytes)
{
	return (struct mb_walk){
		.data = frame->data,
		.end = bytes,
		.visible = frame->caplen < bytes ? frame->caplen : bytes,
	};
}

void mb_headers_read(const struct mb_frame *frame, const struct mb_interface *interface,
		     struct mb_headers *headers)
{
	struct mb_walk *walk = &headers->walk;

	headers->bytes = mb_frame_bytes(frame, interface->fcs_len);
	*walk = walk_frame(frame, headers->bytes);
	headers->next = mb_walk_to_ip(walk, mb_link_read(walk, interface, &headers->link));
	headers->l3 = walk->offset;
	headers->has_ip = mb_ip_read(walk, headers->next, &headers->ip);
}

/* Any frame. */
static mb_cold void decode_any(const struct mb_frame *frame, const struct mb_interface *interface,
			       const struct mb_decode_options *options, struct mb_packet *packet)
{
	struct mb_headers headers;
	const struct mb_ip *ip = &headers.ip;
	uint32_t marks = 0, merged;

	mb_headers_read(frame, interface, &headers);
	merged = mb_merged_wire_bytes(&headers, frame->gso_size, options, &marks);
	if (merged)
		marks |= MB_MARK_MERGED;
	if (options->inner && headers.has_ip)
		mb_tunnel_descend(&headers.walk, &headers.ip);
	marks |= headers.walk.marks;
	*packet = (struct mb_packet){
		.ts_ns = frame->ts_ns,
		.source = headers.has_ip ? ip->source : headers.link.sender,
		.bytes = headers.bytes,
		.wire_bytes = merged ? merged : mb_link_wire_bytes(headers.bytes, headers.link.header),
		.flow = ip->flow,
		.tcp_seq = ip->tcp_seq,
		.tcp_len = ip->tcp_len,
		.marks = (uint8_t)(marks | ip->marks),
		.direction = headers.link.direction ? headers.link.direction : frame->direction,
	};
}

void mb_decode(const struct mb_frame *frames, uint32_t count, const struct mb_interface *interface,
	       const struct mb_decode_options *options, struct mb_packet *packets)
{
	for (uint32_t i = 0; i < count; i++)
		decode_any(&frames[i], interface, options, &packets[i]);
}

bool mb_decode_macs(const struct mb_frame *frame, const struct mb_interface *interface,
		    uint64_t *sender, uint64_t *receiver)
{
	struct mb_walk walk = walk_frame(frame, mb_frame_bytes(frame, interface->fcs_len));
	struct mb_link link;

	mb_link_read(&walk, interface, &link);
	*sender = link.sender.lo;
	*receiver = link.receiver;
	return link.sender.family == MB_FAMILY_MAC;
}

bool mb_decode_destination(const struct mb_frame *frame, const struct mb_interface *interface,
			   const struct mb_decode_options *options, struct mb_address *destination)
{
	struct mb_headers headers;

	mb_headers_read(frame, interface, &headers);
	if (!headers.has_ip)
		return false;
	if (options->inner)
		mb_tunnel_descend(&headers.walk, &headers.ip);
	*destination = headers.ip.destination;
	return true;
}

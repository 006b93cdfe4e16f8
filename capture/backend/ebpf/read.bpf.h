/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * Reads a frame in the kernel up to the ports behind its outermost IP header or, with `inner`, behind the innermost
 * one. A frame that cannot be read that far is counted for the MAC address that sent it. Only count.bpf.h includes this
 * file.
 */
#ifndef MB_EBPF_READ_H
#define MB_EBPF_READ_H

#include "backend/ebpf/tunnel.bpf.h"

/* Make the headers contiguous, so that DATA can be read. */
inlined void reach_headers(struct __sk_buff *skb)
{
	__u32 length = skb->len < HEADERS ? skb->len : HEADERS;

	if (mb_unlikely((__u64)skb->data + length > (__u64)skb->data_end))
		bpf_skb_pull_data(skb, length);
}

inlined struct walk begin_walk(const struct frame *frame)
{
	return (struct walk){
		.data = frame->data, .end = frame->end, .length = frame->length, .at = MB_ETHERNET_HEADER
	};
}

/* Wire bytes of the segments in a merged frame of TYPE: each has all headers, including those of tunnels. As in
 * mb_merged_wire_bytes(). */
inlined void divide(struct packet *packet, const struct frame *frame, __u32 type)
{
	const __u32 size = frame->gso_size;
	struct packet innermost = *packet;
	struct walk walk = begin_walk(frame);
	__u32 offset = read_innermost(&walk, type, &innermost), payload, full;

	if (!offset || offset + frame->tag >= packet->bytes)
		return;
	offset += frame->tag;
	payload = packet->bytes - offset;
	if (payload <= size)
		return;
	full = (payload - 1) / size;
	packet->merged = true;
	packet->wire_bytes = full * wire_bytes(offset + size) + wire_bytes(offset + (payload - full * size));
}

/* Returns false if it is not an Ethernet frame. */
inlined bool read_packet(const struct frame *frame, struct packet *packet)
{
	struct walk walk = begin_walk(frame);
	const __u8 *header = frame->data;
	__u32 type;

	packet->bytes = frame->length + frame->tag;
	packet->wire_bytes = wire_bytes(packet->bytes);
	if (header + MB_ETHERNET_HEADER > frame->end)
		return false;
	packet->lo = (__u64)load16(header + 6) << 32 | load32(header + 8);
	packet->family = MB_FAMILY_MAC;
	type = load16(header + 12);
	if (constants.inner)
		read_innermost(&walk, type, packet);
	else
		read_ip(&walk, read_tags(&walk, type, TAGS), packet);
	if (!packet->flow)
		packet->flow = mix(mix(constants.seed, packet->lo), MB_FAMILY_MAC);
	packet->flow += !packet->flow;
	if (mb_unlikely(frame->gso_size))
		divide(packet, frame, type);
	return true;
}

#endif

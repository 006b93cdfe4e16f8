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

inlined struct frame frame_of(const struct __sk_buff *skb)
{
	return (struct frame){
		.data = (const __u8 *)(long)skb->data,
		.end = (const __u8 *)(long)skb->data_end,
		.length = skb->len,
		.tag = skb->vlan_present ? 4 : 0,
	};
}

inlined __u32 bytes_of(const struct frame *frame)
{
	return frame->length + frame->tag;
}

inlined struct walk begin_walk(const struct frame *frame)
{
	return (struct walk){
		.data = frame->data, .end = frame->end, .limit = frame->length, .at = MB_ETHERNET_HEADER, .exact = 1
	};
}

/* Wire bytes of the segments in a merged frame: each has all headers, including those of tunnels. As in
 * mb_merged_wire_bytes(). Returns 0 if the frame cannot be divided.
 *
 * The verifier follows a global function once, and an inlined one again for each path that leads to it: then it takes
 * three times as long. */
__attribute__((noinline)) __u32 divided_wire_bytes(const struct __sk_buff *skb)
{
	const struct frame frame = frame_of(skb);
	const __u32 size = skb->gso_size, bytes = bytes_of(&frame);
	struct packet innermost = { .bytes = bytes };
	struct walk walk = begin_walk(&frame);
	__u32 offset, payload, full;

	if (!size || frame.data + MB_ETHERNET_HEADER > frame.end)
		return 0;
	offset = read_innermost(&walk, load16(frame.data + 12), &innermost);
	if (!offset || offset + frame.tag >= bytes)
		return 0;
	offset += frame.tag;
	payload = bytes - offset;
	if (payload <= size)
		return 0;
	full = (payload - 1) / size;
	return full * wire_bytes(offset + size) + wire_bytes(offset + (payload - full * size));
}

inlined void divide(const struct __sk_buff *skb, struct packet *packet)
{
	const __u32 divided = divided_wire_bytes(skb);

	packet->merged = divided > 0;
	packet->wire_bytes = divided ? divided : packet->wire_bytes;
}

/* Returns false if it is not an Ethernet frame. */
inlined bool read_packet(const struct frame *frame, struct packet *packet)
{
	struct walk walk = begin_walk(frame);
	const __u8 *header = frame->data;
	__u32 type;

	packet->bytes = bytes_of(frame);
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
	return true;
}

#endif

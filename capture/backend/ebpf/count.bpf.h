/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * The program that the kernel runs for every frame: it counts the frame in a bin and in an entry of its flow, and
 * passes it on. The build compiles it with clang for eBPF; no C file includes it.
 */
#include "backend/ebpf/read.bpf.h"

#define NEXT_PROGRAM (-1) /* TCX_NEXT, and TC_ACT_UNSPEC */

#define RING(name, what)                           \
	struct {                                   \
		__uint(type, BPF_MAP_TYPE_ARRAY);  \
		__uint(map_flags, BPF_F_MMAPABLE); \
		__uint(max_entries, 1);            \
		__type(key, __u32);                \
		__type(value, what);               \
	} name SEC(".maps")

RING(cursors, struct mb_ebpf_cursor);
RING(slots, struct mb_ebpf_slot);
RING(others, struct mb_ebpf_slot); /* packets without an entry, by bin of sources */
RING(flows, struct mb_ebpf_flow);
RING(places, struct mb_ebpf_index);
RING(merged, struct mb_ebpf_merged);

/* Shared by all processors, because flows move between them. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MB_EBPF_SEQUENCES);
	__type(key, __u32);
	__type(value, struct mb_ebpf_sequences);
} sequences SEC(".maps");

inlined struct mb_ebpf_slot *slot_of(void *ring, __u32 at, __u32 mask, __u64 number)
{
	__u32 key = at * (mask + 1) + ((__u32)number & mask);

	return bpf_map_lookup_elem(ring, &key);
}

/* Begin bin NUMBER. The cursor shows this before the slot changes: a reader that has copied the slot checks the cursor
 * afterwards. */
inlined struct mb_ebpf_slot *begin(struct mb_ebpf_slot *slot, volatile __u64 *newest, __u64 *before, __u32 packets,
				   __u64 number)
{
	__u64 back = number - *newest;

	*before += packets;
	*newest = number;
	*(volatile __u64 *)&slot->number = 0;
	barrier();
	slot->back = back > 0xffffffffu ? 0xffffffffu : (__u32)back;
	slot->retransmits = 0;
	slot->before = *before;
	slot->bytes = slot->wire_bytes = 0;
	slot->packets = slot->ce_packets = slot->merged = slot->cnp_packets = 0;
	slot->first = slot->last = 0;
	barrier();
	*(volatile __u64 *)&slot->number = number;
	return slot;
}

/* The slot of a RING for STAMP, begun if it is new. *OFFSET is the offset of STAMP in it. */
inlined struct mb_ebpf_slot *reach(void *ring, __u32 at, __u32 mask, __u64 *newest, __u64 *before, __u64 stamp,
				   __u64 width, __u32 *offset)
{
	struct mb_ebpf_slot *slot = slot_of(ring, at, mask, *newest);
	__u64 start = *newest * width, number;
	__u32 packets;

	if (!slot)
		return NULL;
	*offset = (__u32)(stamp - start);
	if (stamp - start < width)
		return slot;
	if (mb_unlikely(stamp < start)) { /* time does not go back, but its phase may */
		*offset = 0;
		return slot;
	}
	number = stamp / width;
	*offset = (__u32)(stamp - number * width);
	packets = slot->packets;
	slot = slot_of(ring, at, mask, number);
	return slot ? begin(slot, newest, before, packets, number) : NULL;
}

inlined void add_to_slot(struct mb_ebpf_slot *slot, const struct packet *packet, __u32 offset)
{
	if (!slot->packets)
		slot->first = offset;
	if (offset > slot->last)
		slot->last = offset;
	slot->bytes += packet->bytes;
	slot->wire_bytes += packet->wire_bytes;
	slot->ce_packets += packet->ce;
	slot->merged += packet->merged;
	slot->cnp_packets += packet->cnp;
	slot->packets++;
}

/* The state of a TCP flow with TAG; begun with FIRST if there is none. */
inlined __u64 *find_sequence(struct mb_ebpf_sequences *found, __u32 tag, __u32 first)
{
	__u64 newer = found->ways[0], older = found->ways[1];

	if (mb_likely(newer >> 32 == tag))
		return &found->ways[0];
	found->ways[1] = newer;
	found->ways[0] = older >> 32 == tag ? older : (__u64)tag << 32 | first;
	return &found->ways[0];
}

/* Whether a segment repeats sequence space that its flow has sent on this side, as in mb_sequence_back(). */
inlined bool goes_back(const struct packet *packet, __u32 side)
{
	const __u32 key = ((__u32)(packet->flow >> 32) + side * 0x9e3779b9u) & (MB_EBPF_SEQUENCES - 1);
	const __u32 tag = ((__u32)packet->flow & ~3u) | side << 1 | 1;
	const __u32 end = packet->first + packet->length;
	struct mb_ebpf_sequences *found = bpf_map_lookup_elem(&sequences, &key);
	__u64 *sequence;
	__u32 next;
	bool back;

	if (!found)
		return false;
	sequence = find_sequence(found, tag, packet->first);
	next = (__u32)*sequence;
	if (packet->length == 1 && end == next) /* a keep-alive */
		return false;
	back = (__s32)(packet->first - next) < 0;
	if (!back || (__s32)(end - next) > 0)
		*sequence = (__u64)tag << 32 | end;
	return back;
}

inlined void add_to_flow(struct mb_ebpf_flow *flow, const struct packet *packet, __u32 offset)
{
	flow->bytes += packet->bytes;
	flow->packets++;
	flow->cnp_packets += packet->cnp;
	flow->last = offset;
}

inlined struct mb_ebpf_flow *entry_at(__u32 at, __u64 position)
{
	__u32 key = at * (constants.flows_mask + 1) + ((__u32)position & constants.flows_mask);

	return bpf_map_lookup_elem(&flows, &key);
}

/* The entry of the packet's flow, or a new one if the index does not lead to it. NULL if there is no room. */
inlined struct mb_ebpf_flow *find_flow(struct mb_ebpf_cursor *cursor, __u32 at, const struct packet *packet,
				       __u32 offset)
{
	__u32 key = at * (constants.places_mask + 1) + ((__u32)(packet->flow >> 32) & constants.places_mask);
	struct mb_ebpf_index *place = bpf_map_lookup_elem(&places, &key);
	struct mb_ebpf_flow *flow;

	if (!place)
		return NULL;
	if (place->bin == (__u32)cursor->source_bin) {
		flow = entry_at(at, place->at);
		if (flow && flow->flow == packet->flow && flow->lo == packet->lo && flow->hi == packet->hi &&
		    flow->number == cursor->source_bin)
			return flow;
	}
	if (cursor->logged - *(volatile __u64 *)&cursor->taken > constants.flows_mask)
		return NULL;
	flow = entry_at(at, cursor->logged);
	if (!flow)
		return NULL;
	*flow = (struct mb_ebpf_flow){
		.number = cursor->source_bin,
		.flow = packet->flow,
		.hi = packet->hi,
		.lo = packet->lo,
		.first = offset,
		.ports = packet->ports,
		.family = packet->family,
	};
	place->bin = (__u32)cursor->source_bin;
	place->at = (__u32)cursor->logged;
	barrier();
	*(volatile __u64 *)&cursor->logged = cursor->logged + 1;
	return flow;
}

inlined void add_to_sources(struct mb_ebpf_cursor *cursor, __u32 at, const struct packet *packet, __u64 stamp)
{
	__u64 start = cursor->source_bin * constants.source_bin_ns;
	struct mb_ebpf_flow *flow;
	struct mb_ebpf_slot *other;
	__u32 offset;

	if (stamp > start && stamp - start >= constants.source_bin_ns) {
		cursor->source_bin = stamp / constants.source_bin_ns;
		start = cursor->source_bin * constants.source_bin_ns;
	}
	offset = stamp > start ? (__u32)(stamp - start) : 0;
	flow = find_flow(cursor, at, packet, offset);
	if (flow) {
		add_to_flow(flow, packet, offset);
		return;
	}
	other = reach(&others, at, constants.others_mask, &cursor->other, &cursor->others_before, stamp,
		      constants.source_bin_ns, &offset);
	if (other)
		add_to_slot(other, packet, offset);
}

/* Record a merged frame that SLOT has counted, for user space to spread over time. */
inlined void note_merged(struct mb_ebpf_cursor *cursor, __u32 at, const struct mb_ebpf_slot *slot,
			 const struct packet *packet, __u32 offset)
{
	__u32 key = at * (constants.merged_mask + 1) + ((__u32)cursor->merged_logged & constants.merged_mask);
	struct mb_ebpf_merged *entry = bpf_map_lookup_elem(&merged, &key);

	if (!entry || cursor->merged_logged - *(volatile __u64 *)&cursor->merged_taken > constants.merged_mask) {
		cursor->unspread++;
		return;
	}
	*entry = (struct mb_ebpf_merged){
		.number = slot->number,
		.offset = offset,
		.bytes = packet->bytes,
		.wire_bytes = packet->wire_bytes,
	};
	barrier();
	*(volatile __u64 *)&cursor->merged_logged = cursor->merged_logged + 1;
}

inlined __u64 now(void)
{
	return bpf_ktime_get_ns() + variables.phase;
}

inlined void count(const struct packet *packet, __u32 side, __u64 stamp)
{
	const __u32 at = bpf_get_smp_processor_id() * MB_EBPF_SIDES + side;
	struct mb_ebpf_cursor *cursor = bpf_map_lookup_elem(&cursors, &at);
	struct mb_ebpf_slot *slot;
	__u32 offset;

	if (!cursor)
		return;
	slot = reach(&slots, at, constants.slots_mask, &cursor->bin, &cursor->before, stamp, constants.bin_ns, &offset);
	if (slot) {
		add_to_slot(slot, packet, offset);
		if (packet->length)
			slot->retransmits += goes_back(packet, side);
		if (constants.merged_mask && packet->merged)
			note_merged(cursor, at, slot, packet, offset);
	}
	add_to_sources(cursor, at, packet, stamp);
}

inlined int count_buffer(struct __sk_buff *skb, __u32 side)
{
	const __u64 stamp = now();
	struct packet packet = { 0 };
	struct frame frame;

	reach_headers(skb);
	frame = frame_of(skb);
	if (!read_packet(&frame, &packet))
		return NEXT_PROGRAM;
	if (mb_unlikely(skb->gso_size))
		divide(skb, &packet);
	count(&packet, side, stamp);
	return NEXT_PROGRAM;
}

SEC("tc")
int count_arriving(struct __sk_buff *skb)
{
	return count_buffer(skb, 0);
}

SEC("tc")
int count_leaving(struct __sk_buff *skb)
{
	return count_buffer(skb, 1);
}

/* Runs before the kernel has a socket buffer: frames are as they arrived, not merged. */
SEC("xdp.frags")
int count_received(struct xdp_md *context)
{
	const struct frame frame = {
		.data = (const __u8 *)(long)context->data,
		.end = (const __u8 *)(long)context->data_end,
		.length = (__u32)bpf_xdp_get_buff_len(context),
	};
	const __u64 stamp = now();
	struct packet packet = { 0 };

	if (read_packet(&frame, &packet))
		count(&packet, 0, stamp);
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";

/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/ebpf/agreement.h"

#include <stdlib.h>

struct sums {
	uint64_t packets, bytes;
};

/* How far a cursor was compared. */
struct place {
	uint64_t flow;
	uint32_t other, bin;
};

static struct mb_ebpf_slot *slot_at(const struct mb_ebpf_run *run, uint32_t at)
{
	return at < run->count ? &run->slots[at] : NULL;
}

/* The start of the chunk that bin NUMBER is in, unless BEFORE is earlier. */
static uint64_t earlier_chunk(uint64_t number, int64_t width_ns, uint64_t chunk_ns, uint64_t before)
{
	const uint64_t start_ns = number * (uint64_t)width_ns / chunk_ns * chunk_ns;

	return start_ns < before ? start_ns : before;
}

/* The start of the first chunk that anything from PLACE on is in; until_ns where none is yielded. */
static uint64_t next_chunk(const struct mb_ebpf_reader *reader, uint32_t index, const struct place *place,
			   uint64_t chunk_ns)
{
	const struct mb_ebpf_kernel *kernel = reader->kernel;
	const struct mb_ebpf_part *part = &reader->parts[index];
	const struct mb_ebpf_slot *other = slot_at(&part->others, place->other),
				  *bin = slot_at(&part->bins, place->bin);
	uint64_t start_ns = reader->until_ns;

	if (place->flow < part->end)
		start_ns = earlier_chunk(mb_ebpf_flow_at(reader, index, place->flow)->number, kernel->source_bin_ns,
					 chunk_ns, start_ns);
	if (other)
		start_ns = earlier_chunk(other->number, kernel->source_bin_ns, chunk_ns, start_ns);
	return bin ? earlier_chunk(bin->number, kernel->bin_ns, chunk_ns, start_ns) : start_ns;
}

/* Add up what comes before END_NS, and step over it. */
static void sum_flows(const struct mb_ebpf_reader *reader, uint32_t index, uint64_t *at, uint64_t end_ns,
		      struct sums *sums)
{
	for (; *at < reader->parts[index].end; ++*at) {
		const struct mb_ebpf_flow *flow = mb_ebpf_flow_at(reader, index, *at);

		if (flow->number * (uint64_t)reader->kernel->source_bin_ns >= end_ns)
			return;
		sums->packets += flow->packets;
		sums->bytes += flow->bytes;
	}
}

static void sum_slots(const struct mb_ebpf_run *run, int64_t width_ns, uint32_t *at, uint64_t end_ns, struct sums *sums)
{
	const struct mb_ebpf_slot *slot;

	for (; (slot = slot_at(run, *at)) && slot->number * (uint64_t)width_ns < end_ns; ++*at) {
		sums->packets += slot->packets;
		sums->bytes += slot->bytes;
	}
}

/* Have the senders between FROM and TO not yielded. */
static void forget_senders(struct mb_ebpf_reader *reader, uint32_t index, const struct place *from,
			   const struct place *to)
{
	for (uint64_t at = from->flow; at < to->flow; at++)
		mb_ebpf_flow_at(reader, index, at)->family = MB_FAMILY_NONE;
	for (uint32_t at = from->other; at < to->other; at++)
		reader->parts[index].others.slots[at].packets = 0;
}

/* The bins between FROM and TO, of the chunk at START_NS, as senders that nobody knows. */
static struct mb_ebpf_slot sum_up_bins(const struct mb_ebpf_reader *reader, uint32_t index, uint64_t start_ns,
				       uint32_t from, uint32_t to)
{
	const struct mb_ebpf_kernel *kernel = reader->kernel;
	struct mb_ebpf_slot sum = {
		.number = start_ns / (uint64_t)kernel->source_bin_ns,
		.last = (uint32_t)kernel->source_bin_ns - 1,
	};

	for (uint32_t at = from; at < to; at++) {
		const struct mb_ebpf_slot *bin = &reader->parts[index].bins.slots[at];

		sum.packets += bin->packets;
		sum.bytes += bin->bytes;
		sum.cnp_packets += bin->cnp_packets;
	}
	return sum;
}

/* Compare the chunk at START_NS, and step over it. 0 or -ENOMEM. */
static int compare(struct mb_ebpf_reader *reader, uint32_t index, uint64_t start_ns, uint64_t end_ns,
		   struct place *place)
{
	const struct mb_ebpf_kernel *kernel = reader->kernel;
	struct mb_ebpf_part *part = &reader->parts[index];
	const struct place from = *place;
	struct sums sent = { 0 }, counted = { 0 };
	struct mb_ebpf_slot unknown;

	sum_flows(reader, index, &place->flow, end_ns, &sent);
	sum_slots(&part->others, kernel->source_bin_ns, &place->other, end_ns, &sent);
	sum_slots(&part->bins, kernel->bin_ns, &place->bin, end_ns, &counted);
	if (sent.packets == counted.packets && sent.bytes == counted.bytes)
		return 0;
	forget_senders(reader, index, &from, place);
	if (!counted.packets)
		return 0;
	unknown = sum_up_bins(reader, index, start_ns, from.bin, place->bin);
	place->other++;
	return mb_ebpf_run_insert(&part->others, from.other, &unknown);
}

int mb_ebpf_agree(struct mb_ebpf_reader *reader, uint32_t index)
{
	const struct mb_ebpf_kernel *kernel = reader->kernel;
	const struct mb_ebpf_part *part = &reader->parts[index];
	const uint64_t chunk_ns =
		(uint64_t)(kernel->bin_ns > kernel->source_bin_ns ? kernel->bin_ns : kernel->source_bin_ns);
	struct place place = { .flow = part->at, .other = part->others.next, .bin = part->bins.next };
	uint64_t start_ns;
	int status = 0;

	while (!status && (start_ns = next_chunk(reader, index, &place, chunk_ns)) < reader->until_ns)
		status = compare(reader, index, start_ns, start_ns + chunk_ns, &place);
	return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/ebpf/reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/ebpf/agreement.h"

int mb_ebpf_reader_init(struct mb_ebpf_reader *reader, struct mb_ebpf_kernel *kernel, uint64_t begun_ns)
{
	*reader = (struct mb_ebpf_reader){ .kernel = kernel, .read_ns = begun_ns, .step_at_ns = UINT64_MAX };
	reader->parts = calloc(kernel->n_cursors, sizeof(*reader->parts));
	return reader->parts ? 0 : -ENOMEM;
}

void mb_ebpf_reader_deinit(struct mb_ebpf_reader *reader)
{
	for (uint32_t i = 0; reader->parts && i < reader->kernel->n_cursors; i++) {
		free(reader->parts[i].bins.slots);
		free(reader->parts[i].others.slots);
	}
	free(reader->parts);
	reader->parts = NULL;
}

static volatile struct mb_ebpf_cursor *cursor_of(const struct mb_ebpf_reader *reader, uint32_t part)
{
	return (volatile struct mb_ebpf_cursor *)reader->kernel->memory[MB_EBPF_CURSORS] + part;
}

static struct mb_ebpf_ring_memory ring_of(const struct mb_ebpf_reader *reader, enum mb_ebpf_ring which, uint32_t part)
{
	const struct mb_ebpf_kernel *kernel = reader->kernel;
	volatile struct mb_ebpf_cursor *cursor = cursor_of(reader, part);
	const bool is_bins = which == MB_EBPF_SLOTS;
	const uint64_t size = kernel->entries[which];

	return (struct mb_ebpf_ring_memory){
		.slots = (const struct mb_ebpf_slot *)kernel->memory[which] + part * size,
		.newest = is_bins ? &cursor->bin : &cursor->other,
		.size = size,
		.width_ns = is_bins ? kernel->bin_ns : kernel->source_bin_ns,
	};
}

/* Record a loss of PACKETS in FROM … END - 1 of the kernel's time. If the clock was set in that time, the packets may
 * have been lost before and after it: the longer part has them all. */
static void add_loss(struct mb_ebpf_reader *reader, uint64_t from, uint64_t end, uint64_t packets,
		     struct mb_drop_queue *drops)
{
	const uint64_t step = reader->step_at_ns;
	const uint64_t before_end = end < step ? end : step, after_from = from > step ? from : step;
	const bool is_split = from < step && step < end;
	const bool is_before = is_split ? step - from >= end - step : from < step;
	const struct mb_loss before = {
		.first_ns = (int64_t)from + reader->base_ns,
		.last_ns = (int64_t)before_end - 1 + reader->base_ns,
		.packets = is_before ? packets : 0,
		.is_split = is_split,
	};
	const struct mb_loss after = {
		.first_ns = (int64_t)after_from + reader->step_base_ns,
		.last_ns = (int64_t)end - 1 + reader->step_base_ns,
		.packets = is_before ? 0 : packets,
		.is_split = is_split,
	};

	if (is_before || is_split)
		mb_drop_queue_add(drops, &before);
	if (!is_before || is_split)
		mb_drop_queue_add(&reader->later, &after);
}

/* Record losses. Every slot has the number of packets before it, so the slots from FIRST on show how many were lost.
 * Such a loss spans the time from the previous bin, or from the end of the last read, to the slot. DROPS is NULL for
 * packets that are also counted elsewhere. */
static void note_losses(struct mb_ebpf_reader *reader, struct mb_ebpf_run *run, uint32_t first,
			const struct mb_ebpf_ring_memory *ring, struct mb_drop_queue *drops)
{
	const uint64_t width = (uint64_t)ring->width_ns;

	for (uint32_t i = first; i < run->count; i++) {
		const struct mb_ebpf_slot *slot = &run->slots[i];
		const uint64_t lost = slot->before - run->packets, end = slot->number * width;
		const uint64_t before = run->taken * width, read = reader->read_ns / width * width;

		if (lost && drops)
			add_loss(reader, before > read || read >= end ? before : read, end, lost, drops);
		run->packets = slot->before + slot->packets;
		run->taken = slot->number;
	}
}

static int collect_ring(struct mb_ebpf_reader *reader, struct mb_ebpf_run *run, const struct mb_ebpf_ring_memory *ring,
			uint64_t settled_ns, struct mb_drop_queue *drops)
{
	const int64_t first = mb_ebpf_run_copy(run, ring, settled_ns);

	if (first < 0)
		return -ENOMEM;
	note_losses(reader, run, (uint32_t)first, ring, drops);
	return 0;
}

static int collect_part(struct mb_ebpf_reader *reader, uint32_t part, uint64_t settled_ns, struct mb_drop_queue *drops)
{
	struct mb_ebpf_part *own = &reader->parts[part];
	const struct mb_ebpf_ring_memory bins = ring_of(reader, MB_EBPF_SLOTS, part),
					 others = ring_of(reader, MB_EBPF_OTHERS, part);

	own->end = cursor_of(reader, part)->logged;
	own->merged_end = cursor_of(reader, part)->merged_logged;
	return collect_ring(reader, &own->bins, &bins, settled_ns, drops) ||
			       collect_ring(reader, &own->others, &others, settled_ns, NULL) ?
		       -ENOMEM :
		       0;
}

int mb_ebpf_reader_collect(struct mb_ebpf_reader *reader, uint64_t settled_ns, uint64_t until_ns,
			   struct mb_drop_queue *drops)
{
	reader->until_ns = until_ns;
	for (uint32_t i = 0; i < reader->kernel->n_cursors; i++)
		if (collect_part(reader, i, settled_ns, drops) || mb_ebpf_agree(reader, i))
			return -ENOMEM;
	if (settled_ns > reader->read_ns)
		reader->read_ns = settled_ns;
	return 0;
}

struct mb_ebpf_flow *mb_ebpf_flow_at(const struct mb_ebpf_reader *reader, uint32_t part, uint64_t position)
{
	const uint64_t size = reader->kernel->entries[MB_EBPF_FLOWS];

	return (struct mb_ebpf_flow *)reader->kernel->memory[MB_EBPF_FLOWS] + part * size + (position & (size - 1));
}

static const struct mb_ebpf_merged *merged_at(const struct mb_ebpf_reader *reader, uint32_t part, uint64_t position)
{
	const uint64_t size = reader->kernel->entries[MB_EBPF_MERGED];

	return (const struct mb_ebpf_merged *)reader->kernel->memory[MB_EBPF_MERGED] + part * size +
	       (position & (size - 1));
}

/* Allow the program to overwrite the entries before POSITION. */
static void release(volatile __u64 *taken, uint64_t position)
{
	__atomic_store_n((uint64_t *)(uintptr_t)taken, position, __ATOMIC_RELEASE);
}

void mb_ebpf_reader_note(const struct mb_ebpf_reader *reader, uint32_t which)
{
	const struct mb_ebpf_kernel *kernel = reader->kernel;

	for (uint32_t i = 0; i < kernel->n_cursors; i++) {
		const struct mb_ebpf_part *part = &reader->parts[i];
		volatile struct mb_ebpf_cursor *cursor = cursor_of(reader, i);

		cursor->read[which] = mb_ebpf_run_packets_before(&part->bins, reader->until_ns, kernel->bin_ns);
		cursor->others_read[which] =
			mb_ebpf_run_packets_before(&part->others, reader->until_ns, kernel->source_bin_ns);
	}
}

/* Skip the entries of flows before UNTIL_NS: they were yielded, or their recorder was killed before it could yield
 * them. */
static void skip_flows(struct mb_ebpf_reader *reader, uint32_t index, uint64_t until_ns)
{
	volatile struct mb_ebpf_cursor *cursor = cursor_of(reader, index);
	const uint64_t end = cursor->logged;
	uint64_t at = cursor->taken;

	while (at < end &&
	       mb_ebpf_flow_at(reader, index, at)->number * (uint64_t)reader->kernel->source_bin_ns < until_ns)
		at++;
	reader->parts[index].at = at;
	release(&cursor->taken, at);
}

/* The same, for merged frames. */
static void skip_merged(struct mb_ebpf_reader *reader, uint32_t index, uint64_t until_ns)
{
	volatile struct mb_ebpf_cursor *cursor = cursor_of(reader, index);
	const uint64_t end = cursor->merged_logged;
	uint64_t at = cursor->merged_taken;

	while (at < end && merged_at(reader, index, at)->number * (uint64_t)reader->kernel->bin_ns < until_ns)
		at++;
	reader->parts[index].merged_at = at;
	release(&cursor->merged_taken, at);
}

void mb_ebpf_reader_resume(struct mb_ebpf_reader *reader, uint32_t which, uint64_t until_ns)
{
	const struct mb_ebpf_kernel *kernel = reader->kernel;

	reader->read_ns = reader->until_ns = until_ns;
	for (uint32_t i = 0; i < kernel->n_cursors; i++) {
		struct mb_ebpf_part *part = &reader->parts[i];
		volatile struct mb_ebpf_cursor *cursor = cursor_of(reader, i);

		mb_ebpf_run_resume(&part->bins, cursor->read[which], until_ns, kernel->bin_ns);
		mb_ebpf_run_resume(&part->others, cursor->others_read[which], until_ns, kernel->source_bin_ns);
		skip_flows(reader, i, until_ns);
		skip_merged(reader, i, until_ns);
	}
}

/* The next count: the earliest one; of those that begin together, the widest; a bin comes before its merged frames. */
struct next {
	uint64_t start_ns, number;
	int64_t width_ns;
	uint32_t part;
	enum mb_count_kind kind;
};

static bool is_ahead(const struct next *next, const struct next *other)
{
	if (next->start_ns != other->start_ns)
		return next->start_ns < other->start_ns;
	return next->width_ns != other->width_ns ? next->width_ns > other->width_ns : next->kind < other->kind;
}

/* A count that follows all others of this read. */
static struct next the_end(const struct mb_ebpf_reader *reader)
{
	return (struct next){ .start_ns = reader->until_ns, .width_ns = INT64_MAX };
}

static void offer(struct next *next, uint64_t number, int64_t width_ns, uint32_t part, enum mb_count_kind kind)
{
	const struct next offered = { number * (uint64_t)width_ns, number, width_ns, part, kind };

	if (is_ahead(&offered, next))
		*next = offered;
}

static void offer_bin(const struct mb_ebpf_reader *reader, uint32_t index, struct next *next)
{
	const struct mb_ebpf_run *bins = &reader->parts[index].bins;

	if (bins->next < bins->count)
		offer(next, bins->slots[bins->next].number, reader->kernel->bin_ns, index, MB_COUNT_BIN);
}

/* Offer the counts that are not bins: flows, other senders, merged frames. */
static void offer_others(const struct mb_ebpf_reader *reader, uint32_t index, struct next *next)
{
	const struct mb_ebpf_kernel *kernel = reader->kernel;
	const struct mb_ebpf_part *part = &reader->parts[index];

	if (part->at < part->end)
		offer(next, mb_ebpf_flow_at(reader, index, part->at)->number, kernel->source_bin_ns, index,
		      MB_COUNT_SENDER);
	if (part->others.next < part->others.count)
		offer(next, part->others.slots[part->others.next].number, kernel->source_bin_ns, index,
		      MB_COUNT_OTHERS);
	if (part->merged_at < part->merged_end)
		offer(next, merged_at(reader, index, part->merged_at)->number, kernel->bin_ns, index, MB_COUNT_MERGED);
}

static struct next find_next(const struct mb_ebpf_reader *reader)
{
	struct next next = the_end(reader);

	for (uint32_t i = 0; i < reader->kernel->n_cursors; i++) {
		offer_bin(reader, i, &next);
		offer_others(reader, i, &next);
	}
	return next;
}

/* Fills COUNT in place: a returned struct is copied through the stack, which took longer than everything else here. */
static void begin_count(struct mb_count *count, const struct mb_ebpf_reader *reader, const struct next *next)
{
	memset(count, 0, sizeof(*count));
	count->start_ns = (int64_t)next->start_ns + reader->base_ns;
	count->first_ns = INT64_MAX;
	count->last_ns = INT64_MIN;
	count->quality = MB_QUALITY_SW;
	count->kind = (uint8_t)next->kind;
	count->direction = next->part % MB_EBPF_SIDES ? MB_DIRECTION_OUT : MB_DIRECTION_IN;
}

static void span(struct mb_count *count, uint32_t first, uint32_t last)
{
	const int64_t first_ns = count->start_ns + first, last_ns = count->start_ns + last;

	count->first_ns = first_ns < count->first_ns ? first_ns : count->first_ns;
	count->last_ns = last_ns > count->last_ns ? last_ns : count->last_ns;
}

static void add_slot(struct mb_count *count, const struct mb_ebpf_slot *slot)
{
	span(count, slot->first, slot->last);
	count->bytes += slot->bytes;
	count->wire_bytes += slot->wire_bytes;
	count->packets += slot->packets;
	count->ce_packets += slot->ce_packets;
	count->cnp_packets += slot->cnp_packets;
	count->retransmits += slot->retransmits;
	count->merged += slot->merged;
	count->quality |= slot->merged ? MB_QUALITY_GRO : 0;
}

/* The sum of a bin over all processors, in that direction. */
static void fill_bin(struct mb_ebpf_reader *reader, const struct next *next, struct mb_counts *counts)
{
	struct mb_count *count = &counts->counts[counts->count];

	begin_count(count, reader, next);
	for (uint32_t i = next->part % MB_EBPF_SIDES; i < reader->kernel->n_cursors; i += MB_EBPF_SIDES) {
		struct mb_ebpf_run *run = &reader->parts[i].bins;

		if (run->next < run->count && run->slots[run->next].number == next->number)
			add_slot(count, &run->slots[run->next++]);
	}
	reader->packets += count->packets;
	reader->bytes += count->bytes;
	counts->count += count->packets != 0;
}

/* Fill in bins of that direction, as far as there is room, until another kind of count of that direction is next. */
static void fill_bins(struct mb_ebpf_reader *reader, struct next next, struct mb_counts *counts)
{
	const uint32_t side = next.part % MB_EBPF_SIDES;
	struct next other = the_end(reader);

	for (uint32_t i = side; i < reader->kernel->n_cursors; i += MB_EBPF_SIDES)
		offer_others(reader, i, &other);
	while (counts->count < MB_COUNTS && is_ahead(&next, &other)) {
		fill_bin(reader, &next, counts);
		next = the_end(reader);
		for (uint32_t i = side; i < reader->kernel->n_cursors; i += MB_EBPF_SIDES)
			offer_bin(reader, i, &next);
	}
}

static void fill_others(struct mb_ebpf_reader *reader, const struct next *next, struct mb_counts *counts)
{
	struct mb_ebpf_run *run = &reader->parts[next->part].others;
	struct mb_count *count = &counts->counts[counts->count];

	begin_count(count, reader, next);
	add_slot(count, &run->slots[run->next++]);
	counts->count += count->packets != 0;
}

/* Fill in all flows of that processor's bin, as far as there is room. */
static void fill_flows(struct mb_ebpf_reader *reader, const struct next *next, struct mb_counts *counts)
{
	struct mb_ebpf_part *part = &reader->parts[next->part];

	for (; part->at < part->end && counts->count < MB_COUNTS; part->at++) {
		const struct mb_ebpf_flow *flow = mb_ebpf_flow_at(reader, next->part, part->at);
		struct mb_count *count = &counts->counts[counts->count];

		if (flow->number != next->number)
			break;
		begin_count(count, reader, next);
		span(count, flow->first, flow->last);
		count->bytes = flow->bytes;
		count->packets = flow->packets;
		count->cnp_packets = flow->cnp_packets;
		count->source = (struct mb_address){ flow->hi, flow->lo, flow->family };
		count->flow = flow->family == MB_FAMILY_MAC ? 0 : flow->flow;
		count->ports = flow->ports;
		counts->count += flow->family != MB_FAMILY_NONE;
	}
	release(&cursor_of(reader, next->part)->taken, part->at);
}

/* Fill in the merged frames of that processor's bin, as far as there is room; none if the bin was lost, because no
 * other bin has their bytes. */
static void fill_merged(struct mb_ebpf_reader *reader, const struct next *next, struct mb_counts *counts)
{
	struct mb_ebpf_part *part = &reader->parts[next->part];
	const struct mb_ebpf_run *bins = &part->bins;
	const bool is_yielded = bins->next && bins->slots[bins->next - 1].number == next->number;

	for (; part->merged_at < part->merged_end && counts->count < MB_COUNTS; part->merged_at++) {
		const struct mb_ebpf_merged *merged = merged_at(reader, next->part, part->merged_at);
		struct mb_count *count = &counts->counts[counts->count];

		if (merged->number != next->number)
			break;
		begin_count(count, reader, next);
		span(count, merged->offset, merged->offset);
		count->bytes = merged->bytes;
		count->wire_bytes = merged->wire_bytes;
		count->quality |= MB_QUALITY_GRO;
		counts->count += is_yielded;
	}
	release(&cursor_of(reader, next->part)->merged_taken, part->merged_at);
}

uint64_t mb_ebpf_reader_unspread(const struct mb_ebpf_reader *reader)
{
	uint64_t unspread = 0;

	for (uint32_t i = 0; reader->parts && i < reader->kernel->n_cursors; i++)
		unspread += cursor_of(reader, i)->unspread;
	return unspread;
}

int mb_ebpf_reader_fill(struct mb_ebpf_reader *reader, struct mb_counts *counts)
{
	struct next next;

	counts->count = 0;
	while (counts->count < MB_COUNTS) {
		next = find_next(reader);
		if (next.start_ns >= reader->until_ns)
			break;
		if (next.kind == MB_COUNT_BIN)
			fill_bins(reader, next, counts);
		else if (next.kind == MB_COUNT_OTHERS)
			fill_others(reader, &next, counts);
		else if (next.kind == MB_COUNT_MERGED)
			fill_merged(reader, &next, counts);
		else
			fill_flows(reader, &next, counts);
	}
	return (int)counts->count;
}

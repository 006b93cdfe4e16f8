/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/senders.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hash.h"

#define FIRST_SENDERS 64
#define KEPT_CAPACITY 4096 /* a table that grew beyond this returns its memory */

struct mb_sender_slot {
	uint32_t generation;
	uint32_t index;
};

/* Columns of the rows: X(name, type, value). */
#define SENDER_COLUMNS(X)                                                                \
	X(lane, int16_t, to->lane)                                                       \
	X(clock_epoch, uint16_t, to->epoch)                                              \
	X(ts_ns, int64_t, ts_ns)                                                         \
	X(source, mb_text, text)                                                         \
	X(bytes, int64_t, sender->bytes)                                                 \
	X(packets, uint32_t, sender->packets)                                            \
	X(flows, uint32_t, sender->flows)                                                \
	X(members, uint32_t, members)                                                    \
	X(first_ns, int64_t, sender->first_ns)                                           \
	X(last_ns, int64_t, sender->last_ns)                                             \
	X(source_port, uint16_t, elected(&sender->source_port, sender->flows))           \
	X(destination_port, uint16_t, elected(&sender->destination_port, sender->flows)) \
	X(cnp_packets, uint32_t, sender->cnp_packets)

enum {
#define ENUMERATOR(name, ...) COLUMN_##name,
	SENDER_COLUMNS(ENUMERATOR)
#undef ENUMERATOR
		COLUMNS,
};

_Static_assert(COLUMNS == MB_SENDER_COLUMNS, "the header says how many columns there are");

const struct mb_column mb_sender_columns[MB_SENDER_COLUMNS] = {
#define COLUMN(name, type, ...) MB_COLUMN(name, type),
	SENDER_COLUMNS(COLUMN)
#undef COLUMN
};

void mb_senders_init(struct mb_senders *senders, struct mb_senders_limits *limits)
{
	memset(senders, 0, sizeof(*senders));
	senders->limits = limits;
	senders->generation = 1;
}

static void drop_tables(struct mb_senders *senders)
{
	senders->limits->senders_left += senders->capacity;
	senders->limits->flows_left += senders->flow_capacity;
	free(senders->sent.list);
	free(senders->slots);
	free(senders->flows);
	senders->sent.list = NULL;
	senders->slots = NULL;
	senders->flows = NULL;
	senders->capacity = senders->flow_capacity = 0;
}

void mb_senders_deinit(struct mb_senders *senders)
{
	if (senders->limits)
		drop_tables(senders);
}

static struct mb_sender_slot *find_slot(const struct mb_senders *senders, const struct mb_address *address)
{
	uint32_t mask = 2 * senders->capacity - 1;
	uint32_t i = (uint32_t)mb_hash_address(address, &senders->limits->seed) & mask;

	mb_hash_step();
	while (senders->slots[i].generation == senders->generation &&
	       !mb_address_equal(&senders->sent.list[senders->slots[i].index].address, address)) {
		i = (i + 1) & mask;
		mb_hash_step();
	}
	return &senders->slots[i];
}

static void index_senders(struct mb_senders *senders)
{
	for (uint32_t i = 0; i < senders->sent.count; i++) {
		struct mb_sender_slot *slot = find_slot(senders, &senders->sent.list[i].address);

		slot->generation = senders->generation;
		slot->index = i;
	}
}

/* Most bytes first; equals in the order of addresses, so that results do not depend on hashes. */
static int by_bytes(const void *left, const void *right)
{
	const struct mb_sender *a = left, *b = right;

	if (a->bytes != b->bytes)
		return a->bytes < b->bytes ? 1 : -1;
	if (a->address.family != b->address.family)
		return a->address.family < b->address.family ? -1 : 1;
	if (a->address.hi != b->address.hi)
		return a->address.hi < b->address.hi ? -1 : 1;
	return a->address.lo < b->address.lo ? -1 : a->address.lo > b->address.lo;
}

static void fold_into_other(struct mb_sent *sent, const struct mb_sender *sender, uint64_t members)
{
	struct mb_sender *other = &sent->other;

	if (!other->packets) {
		other->first_ns = sender->first_ns;
		other->last_ns = sender->last_ns;
	}
	if (sender->first_ns < other->first_ns)
		other->first_ns = sender->first_ns;
	if (sender->last_ns > other->last_ns)
		other->last_ns = sender->last_ns;
	other->bytes += sender->bytes;
	other->packets += sender->packets;
	other->flows += sender->flows;
	other->cnp_packets += sender->cnp_packets;
	sent->other_members += members;
}

void mb_senders_fold(struct mb_senders *senders, const struct mb_sender *sums, uint64_t members)
{
	senders->limits->folded_early += !senders->folded;
	senders->folded = true;
	fold_into_other(&senders->sent, sums, members);
}

static void fold_smallest(struct mb_sent *sent, uint32_t keep)
{
	if (sent->count <= keep)
		return;
	qsort(sent->list, sent->count, sizeof(*sent->list), by_bytes);
	for (uint32_t i = keep; i < sent->count; i++)
		fold_into_other(sent, &sent->list[i], 1);
	sent->count = keep;
}

/* Flows are forgotten, because they refer to positions in the list, whose order changes. Flows that continue are
 * counted again, so that `flows` becomes an upper bound in a bin that was folded early. */
static void fold_half(struct mb_senders *senders)
{
	memset(senders->slots, 0, 2 * (size_t)senders->capacity * sizeof(*senders->slots));
	if (senders->flows)
		memset(senders->flows, 0, senders->flow_capacity * sizeof(*senders->flows));
	senders->n_flows = 0;
	fold_smallest(&senders->sent, senders->capacity / 2);
	index_senders(senders);
}

/* Double the table or, if the limits do not permit that, make room by folding half of it. */
static int make_room(struct mb_senders *senders)
{
	uint32_t capacity = senders->capacity ? 2 * senders->capacity : FIRST_SENDERS;
	uint32_t more = capacity - senders->capacity;
	struct mb_sender *list;
	struct mb_sender_slot *slots;

	if (senders->capacity && senders->limits->senders_left < more) {
		senders->limits->folded_early += !senders->folded;
		senders->folded = true;
		fold_half(senders);
		return 0;
	}
	list = realloc(senders->sent.list, capacity * sizeof(*list));
	if (!list)
		return -ENOMEM;
	senders->sent.list = list;
	slots = calloc(2 * (size_t)capacity, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	free(senders->slots);
	senders->slots = slots;
	senders->capacity = capacity;
	senders->limits->senders_left -= more;
	index_senders(senders);
	return 0;
}

/* All frames of a sender that are not IP count as one more flow of that sender. */
static inline uint64_t fingerprint_of(const struct mb_senders *senders, const struct mb_packet *packet)
{
	return packet->flow ? packet->flow : mb_hash_address(&packet->source, &senders->limits->seed) | 1;
}

/* The slot of a flow, or the free slot where it belongs. There must be a free one. */
static inline struct mb_flow *find_flow(const struct mb_senders *senders, uint64_t fingerprint)
{
	uint32_t mask = senders->flow_capacity - 1;
	uint32_t i = (uint32_t)fingerprint & mask;

	mb_hash_step();
	while (senders->flows[i].generation == senders->generation && senders->flows[i].fingerprint != fingerprint) {
		i = (i + 1) & mask;
		mb_hash_step();
	}
	return &senders->flows[i];
}

static int grow_flows(struct mb_senders *senders)
{
	uint32_t old_capacity = senders->flow_capacity;
	uint32_t capacity = old_capacity ? 2 * old_capacity : 4 * FIRST_SENDERS;
	uint32_t more = capacity - old_capacity;
	struct mb_flow *old = senders->flows, *flows;

	if (old_capacity && senders->limits->flows_left < more)
		return -ENOSPC;
	flows = calloc(capacity, sizeof(*flows));
	if (!flows)
		return -ENOMEM;
	senders->flows = flows;
	senders->flow_capacity = capacity;
	senders->limits->flows_left -= more;
	for (uint32_t i = 0; i < old_capacity; i++)
		if (old[i].generation == senders->generation)
			*find_flow(senders, old[i].fingerprint) = old[i];
	free(old);
	return 0;
}

static struct mb_sender *add_sender(struct mb_senders *senders, const struct mb_packet *packet)
{
	struct mb_sender_slot *slot;
	struct mb_sender *sender;

	if (senders->sent.count == senders->capacity && make_room(senders))
		return NULL;
	slot = find_slot(senders, &packet->source);
	if (slot->generation == senders->generation)
		return &senders->sent.list[slot->index];
	slot->generation = senders->generation;
	slot->index = senders->sent.count;
	sender = &senders->sent.list[senders->sent.count++];
	*sender = (struct mb_sender){
		.address = packet->source,
		.first_ns = INT64_MAX,
		.last_ns = INT64_MIN,
	};
	return sender;
}

static void vote(struct mb_vote *vote, uint16_t port)
{
	if (!vote->lead)
		*vote = (struct mb_vote){ .port = port };
	if (vote->port != port) {
		vote->lead--;
		return;
	}
	vote->lead++;
	vote->flows++;
}

/* The port that surely more than half of FLOWS have; 0 if there is none. */
static uint16_t elected(const struct mb_vote *vote, uint32_t flows)
{
	return (uint64_t)2 * vote->flows > flows ? vote->port : 0;
}

/* The sender of a packet whose flow is new in this bin. NULL if memory is out. */
static __attribute__((noinline)) struct mb_sender *add_flow(struct mb_senders *senders, const struct mb_packet *packet)
{
	struct mb_sender *sender = add_sender(senders, packet);
	struct mb_flow *flow;
	int error = 0;

	if (!sender)
		return NULL;
	if (2 * senders->n_flows >= senders->flow_capacity)
		error = grow_flows(senders);
	if (error == -ENOMEM)
		return NULL;
	if (error) {
		senders->limits->flows_unseen++;
		return sender;
	}
	flow = find_flow(senders, fingerprint_of(senders, packet));
	*flow = (struct mb_flow){
		.fingerprint = fingerprint_of(senders, packet),
		.generation = senders->generation,
		.sender = (uint32_t)(sender - senders->sent.list),
	};
	senders->n_flows++;
	sender->flows++;
	vote(&sender->source_port, (uint16_t)(packet->ports >> 16));
	vote(&sender->destination_port, (uint16_t)packet->ports);
	return sender;
}

struct mb_sender *mb_senders_find(struct mb_senders *senders, const struct mb_packet *packet)
{
	if (senders->flow_capacity) {
		const struct mb_flow *flow = find_flow(senders, fingerprint_of(senders, packet));

		if (flow->generation == senders->generation)
			return &senders->sent.list[flow->sender];
	}
	return add_flow(senders, packet);
}

const struct mb_sent *mb_senders_end(struct mb_senders *senders)
{
	fold_smallest(&senders->sent, senders->limits->max_rows);
	return &senders->sent;
}

void mb_senders_begin(struct mb_senders *senders)
{
	senders->n_flows = 0;
	senders->sent = (struct mb_sent){ .list = senders->sent.list };
	senders->folded = false;
	/* Return large memory, and do not mistake slots of 2^32 bins ago for those of this bin. */
	if (senders->capacity > KEPT_CAPACITY || senders->flow_capacity > 4 * KEPT_CAPACITY ||
	    senders->generation == UINT32_MAX) {
		drop_tables(senders);
		senders->generation = 0;
	}
	senders->generation++;
}

static int append_row(const struct mb_sender *sender, uint32_t members, const struct mb_sender_rows *to, int64_t ts_ns)
{
	struct mb_table *rows = to->rows;
	const size_t i = rows->count;
	const mb_text text = mb_table_intern(rows, &sender->address);

	if (text < 0)
		return text;
#define SET(name, type, value) MB_SET(rows, COLUMN_##name, i, type, value);
	SENDER_COLUMNS(SET)
#undef SET
	rows->count++;
	return 0;
}

int mb_sent_append(const struct mb_sent *sent, const struct mb_sender_rows *to, int64_t ts_ns)
{
	const uint32_t members = sent->other_members > UINT32_MAX ? UINT32_MAX : (uint32_t)sent->other_members;
	int error = 0;

	if (mb_table_reserve(to->rows, sent->count + 1))
		return -ENOMEM;
	for (uint32_t i = 0; i < sent->count && !error; i++)
		error = append_row(&sent->list[i], 1, to, ts_ns);
	return sent->other_members && !error ? append_row(&sent->other, members, to, ts_ns) : error;
}

int mb_sent_copy(struct mb_sent *copy, const struct mb_sent *sent)
{
	*copy = *sent;
	copy->list = sent->count ? malloc(sent->count * sizeof(*sent->list)) : NULL;
	if (!sent->count)
		return 0;
	if (!copy->list)
		return -ENOMEM;
	memcpy(copy->list, sent->list, sent->count * sizeof(*sent->list));
	return 0;
}

void mb_sent_sum_up(struct mb_sent *sent, uint32_t least_flows, int64_t start_ns, int64_t end_ns)
{
	uint32_t fewer = 0, kept = 0;

	for (uint32_t i = 0; i < sent->count; i++)
		fewer += sent->list[i].flows < least_flows;
	if (fewer + sent->other_members <= 1)
		return;
	for (uint32_t i = 0; i < sent->count; i++) {
		if (sent->list[i].flows < least_flows)
			fold_into_other(sent, &sent->list[i], 1);
		else
			sent->list[kept++] = sent->list[i];
	}
	sent->count = kept;
	sent->other.first_ns = start_ns;
	sent->other.last_ns = end_ns - 1;
}

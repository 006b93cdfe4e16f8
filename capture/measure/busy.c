/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/busy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "measure/span.h"

#define PPB_BITS_NS ((unsigned __int128)8000000000 * 1000000000)
#define FIRST_ITEMS 16

/* Bins of senders, by number. */
struct span {
	int64_t first, last;
};

struct waiting {
	int64_t number;
	struct mb_sent sent;
	uint32_t senders; /* number of senders when it was taken, plus one for itself */
};

uint64_t mb_busy_least_bytes(uint64_t share_ppb, int64_t bin_ns, uint64_t link_bps)
{
	const unsigned __int128 bits = (unsigned __int128)share_ppb * (uint64_t)bin_ns * link_bps;

	return (uint64_t)((bits + PPB_BITS_NS - 1) / PPB_BITS_NS);
}

void mb_busy_init(struct mb_busy *busy, const struct mb_busy_rule *rule)
{
	const int64_t wider = rule->bin_ns > rule->source_bin_ns ? rule->bin_ns : rule->source_bin_ns;

	*busy = (struct mb_busy){ .rule = *rule, .reach_ns = MB_BUSY_REACH * wider };
}

/* --- the queues --- */

static uint32_t count_of(const struct mb_busy_queue *queue)
{
	return queue->end - queue->first;
}

static void *item_at(const struct mb_busy_queue *queue, uint32_t index, size_t size)
{
	return (char *)queue->items + index * size;
}

/* Make room for one more behind the last. 0 or -ENOMEM. */
static int make_room(struct mb_busy_queue *queue, size_t size)
{
	const uint32_t capacity = queue->capacity ? 2 * queue->capacity : FIRST_ITEMS;
	void *grown;

	if (queue->end < queue->capacity)
		return 0;
	if (queue->first > queue->capacity / 2) {
		memmove(queue->items, item_at(queue, queue->first, size), count_of(queue) * size);
		queue->end = count_of(queue);
		queue->first = 0;
		return 0;
	}
	grown = realloc(queue->items, capacity * size);
	if (!grown)
		return -ENOMEM;
	queue->items = grown;
	queue->capacity = capacity;
	return 0;
}

static void *first_of(const struct mb_busy_queue *queue, size_t size)
{
	return count_of(queue) ? item_at(queue, queue->first, size) : NULL;
}

static void drop_first(struct mb_busy_queue *queue)
{
	if (++queue->first == queue->end)
		queue->first = queue->end = 0;
}

static struct waiting *first_waiting(const struct mb_busy *busy)
{
	return first_of(&busy->waiting, sizeof(struct waiting));
}

static void drop_waiting(struct mb_busy *busy)
{
	struct waiting *waiting = first_waiting(busy);

	busy->senders -= waiting->senders;
	free(waiting->sent.list);
	drop_first(&busy->waiting);
}

void mb_busy_deinit(struct mb_busy *busy)
{
	while (count_of(&busy->waiting))
		drop_waiting(busy);
	free(busy->waiting.items);
	free(busy->spans.items);
	*busy = (struct mb_busy){ 0 };
}

/* --- the decision --- */

int mb_busy_mark(struct mb_busy *busy, int64_t ts_ns, uint64_t wire_bytes)
{
	const struct mb_busy_rule *rule = &busy->rule;
	struct mb_busy_queue *spans = &busy->spans;
	struct span span, *last;

	if (!rule->least_bytes || wire_bytes < rule->least_bytes)
		return 0;
	span.first = mb_floor_div(ts_ns - busy->reach_ns, rule->source_bin_ns);
	span.last = mb_floor_div(ts_ns + rule->bin_ns + busy->reach_ns - 1, rule->source_bin_ns);
	last = count_of(spans) ? item_at(spans, spans->end - 1, sizeof(span)) : NULL;
	if (last && span.first <= last->last + 1) {
		last->last = span.last;
		return 0;
	}
	if (make_room(spans, sizeof(span)))
		return -ENOMEM;
	memcpy(item_at(spans, spans->end++, sizeof(span)), &span, sizeof(span));
	return 0;
}

/* Whether bin NUMBER of senders is within reach of a closed busy bin. Callers ask in ascending order. */
static bool is_near(struct mb_busy *busy, int64_t number)
{
	const struct span *span;

	while ((span = first_of(&busy->spans, sizeof(*span))) && span->last < number)
		drop_first(&busy->spans);
	return span && span->first <= number;
}

int mb_busy_take(struct mb_busy *busy, struct mb_senders *senders, int64_t number, const struct mb_sender_rows *to)
{
	const struct mb_sent *sent = mb_senders_end(senders);
	struct waiting waiting = { .number = number, .senders = sent->count + 1 };
	int error;

	if (!busy->rule.least_bytes) {
		error = mb_sent_append(sent, to, number * busy->rule.source_bin_ns);
	} else {
		error = make_room(&busy->waiting, sizeof(waiting));
		if (!error)
			error = mb_sent_copy(&waiting.sent, sent);
		if (!error) {
			memcpy(item_at(&busy->waiting, busy->waiting.end++, sizeof(waiting)), &waiting,
			       sizeof(waiting));
			busy->senders += waiting.senders;
		}
	}
	mb_senders_begin(senders);
	return error;
}

static int append_first(struct mb_busy *busy, bool keeps, const struct mb_sender_rows *to)
{
	struct waiting *waiting = first_waiting(busy);
	const int64_t start_ns = waiting->number * busy->rule.source_bin_ns;
	int error;

	if (!keeps)
		mb_sent_sum_up(&waiting->sent, busy->rule.least_flows, start_ns, start_ns + busy->rule.source_bin_ns);
	error = mb_sent_append(&waiting->sent, to, start_ns);
	drop_waiting(busy);
	return error;
}

int mb_busy_settle(struct mb_busy *busy, int64_t closed_ns, const struct mb_sender_rows *to)
{
	const struct waiting *waiting;
	int error = 0;

	while (!error && (waiting = first_waiting(busy))) {
		const bool keeps = is_near(busy, waiting->number) || busy->senders > MB_BUSY_WAITING;

		if (!keeps && closed_ns - busy->reach_ns < (waiting->number + 1) * busy->rule.source_bin_ns)
			return 0;
		error = append_first(busy, keeps, to);
	}
	return error;
}

int mb_busy_finish(struct mb_busy *busy, const struct mb_sender_rows *to)
{
	int error = mb_busy_settle(busy, INT64_MAX, to);

	busy->spans.first = busy->spans.end = 0;
	return error;
}

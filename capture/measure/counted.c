/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/counted.h"

#include <errno.h>
#include <stdlib.h>

#include "measure/live.h"
#include "measure/lookahead.h"

/* Count packets that belong in no bin of LANE: they are late, or their stamps are not dates. */
static void miss(struct mb_engine *engine, struct mb_lane *lane, const struct mb_count *count)
{
	if (count->kind != MB_COUNT_BIN)
		return;
	lane->totals.late += count->packets;
	lane->totals.late_bytes += count->bytes;
	for (uint32_t i = 0; i < count->packets && !mb_date_is_sane(count->start_ns); i++)
		mb_dates_miss(&engine->dates, engine->packets + i + 1, count->start_ns);
}

static void add_bin(struct mb_engine *engine, struct mb_lane *lane, const struct mb_count *count)
{
	size_t n_interfaces;
	const struct mb_interface *interface = mb_backend_interfaces(engine->backend, &n_interfaces);
	struct mb_lane_totals *totals = &lane->totals;
	struct mb_bin *bin = lane->newest;

	bin->bytes += (int64_t)count->bytes;
	bin->wire_bytes += (int64_t)count->wire_bytes;
	bin->packets += count->packets;
	bin->ce_packets += count->ce_packets;
	bin->cnp_packets += count->cnp_packets;
	bin->retransmits += count->retransmits;
	bin->quality |= (uint16_t)(count->quality | interface->quality);
	if (mb_date_is_unset(count->start_ns)) {
		bin->quality |= MB_QUALITY_UNSYNCED;
		engine->dates.unset += count->packets;
	}
	totals->merged += count->merged;
	if (count->last_ns > totals->last_ns)
		totals->last_ns = count->last_ns;
	if (count->first_ns < totals->first_ns)
		totals->first_ns = count->first_ns;
}

static int add_sender(struct mb_lane *lane, const struct mb_count *count)
{
	const struct mb_packet packet = { .source = count->source, .flow = count->flow, .ports = count->ports };
	const struct mb_subtotal subtotal = {
		.bytes = count->bytes,
		.packets = count->packets,
		.first_ns = count->first_ns,
		.last_ns = count->last_ns,
	};
	struct mb_sender *sender = mb_senders_find(lane->newest_senders, &packet);

	if (!sender)
		return -ENOMEM;
	mb_sender_add(sender, &subtotal);
	sender->cnp_packets += count->cnp_packets;
	return 0;
}

static void spread(struct mb_lane *lane, const struct mb_count *count)
{
	mb_lane_spread(lane, &(struct mb_packet){
				     .ts_ns = count->last_ns,
				     .bytes = (uint32_t)count->bytes,
				     .wire_bytes = (uint32_t)count->wire_bytes,
				     .quality = count->quality,
			     });
}

/* The number of these senders is unknown: each packet counts as a sender. */
static void add_others(struct mb_lane *lane, const struct mb_count *count)
{
	const struct mb_sender others = {
		.bytes = count->bytes,
		.packets = count->packets,
		.flows = count->packets,
		.first_ns = count->first_ns,
		.last_ns = count->last_ns,
		.cnp_packets = count->cnp_packets,
	};

	mb_senders_fold(lane->newest_senders, &others, count->packets);
}

/* Move the newest bins of both widths to the start of COUNT's bin. The lane would record that start as its first stamp;
 * it is restored. */
static int reach(struct mb_lane *lane, const struct mb_count *count)
{
	const int64_t first_ns = lane->totals.first_ns;
	int code = mb_lane_reach(lane, count->start_ns);

	lane->totals.first_ns = first_ns;
	return code;
}

static int add(struct mb_engine *engine, const struct mb_count *count)
{
	struct mb_engine_lane *found = mb_engine_find_lane(engine, 0, count->direction, &engine->failure);
	int code;

	if (!found)
		return -ENOMEM;
	code = reach(&found->lane, count);
	if (code == -ENOMEM)
		return mb_fail(&engine->failure, ENOMEM, "out of memory");
	if (code)
		miss(engine, &found->lane, count);
	else if (count->kind == MB_COUNT_BIN)
		add_bin(engine, &found->lane, count);
	else if (count->kind == MB_COUNT_OTHERS)
		add_others(&found->lane, count);
	else if (count->kind == MB_COUNT_MERGED)
		spread(&found->lane, count);
	else if (add_sender(&found->lane, count))
		return mb_fail(&engine->failure, ENOMEM, "out of memory");
	if (count->kind == MB_COUNT_BIN) {
		engine->packets += count->packets;
		engine->ethernet_packets += count->packets;
	}
	return 0;
}

static int for_all_lanes(struct mb_engine *engine, bool step, int64_t now_ns)
{
	for (uint32_t i = 0; i < engine->n_lanes; i++) {
		struct mb_lane *lane = &engine->lanes[i]->lane;

		if (step ? mb_lane_step(lane) : mb_lane_advance(lane, now_ns))
			return mb_fail(&engine->failure, ENOMEM, "out of memory");
	}
	return 0;
}

int mb_counted_run(struct mb_engine *engine)
{
	struct mb_backend *backend = engine->backend;
	struct mb_counts *counts = engine->counts;
	int n, code = 0;

	if (!counts)
		counts = engine->counts = calloc(1, sizeof(*counts));
	if (!counts)
		return mb_fail(&engine->failure, ENOMEM, "out of memory");
	counts->count = 0;
	counts->stepped = false;
	counts->passed_ns = 0;
	n = backend->ops->read_counts(backend, counts, MB_READ_TIMEOUT_MS, &engine->failure);
	if (n < 0)
		return n;
	if (n > 0)
		mb_live_follow_mtu(engine);
	if (counts->stepped)
		code = for_all_lanes(engine, true, 0);
	mb_live_mark_losses(engine);
	for (int i = 0; i < n && !code; i++) {
		const bool is_first = !engine->n_lanes;

		code = add(engine, &counts->counts[i]);
		if (is_first) /* earlier losses wait for a lane, whose bins may close with the next count */
			mb_live_mark_losses(engine);
	}
	if (!code && counts->passed_ns)
		code = for_all_lanes(engine, false, counts->passed_ns);
	return code ? code : n;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/bins.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compiler.h"
#include "measure/closing.h"
#include "measure/epochs.h"

/* How long so many bytes take at the speed of the link. */
static int64_t took_ns(const struct mb_bins_options *options, uint32_t wire_bytes)
{
	const unsigned __int128 took = (unsigned __int128)wire_bytes * 8 * 1000000000 / options->spread_bps;

	return took > INT64_MAX ? INT64_MAX : (int64_t)took;
}

int64_t mb_bins_open_ns(const struct mb_bins_options *options)
{
	const int64_t open = options->window_ns > options->least_open_ns ? options->window_ns : options->least_open_ns;
	const int64_t longest = options->spread_bps ? took_ns(options, MB_MERGED_WIRE) : 0;

	return open + (longest / MB_SPREAD_BINS < options->bin_ns ? longest : MB_SPREAD_BINS * options->bin_ns);
}

int mb_lane_init(struct mb_lane *lane, int16_t index, const struct mb_bins_options *options,
		 const struct mb_busy_rule *busy, struct mb_senders_limits *limits, struct mb_sequences *sequences,
		 struct mb_table **bin_rows, struct mb_table **sender_rows)
{
	struct mb_span *bins = &lane->bin_span, *senders = &lane->sender_span;

	memset(lane, 0, sizeof(*lane));
	lane->index = index;
	lane->options = options;
	lane->sequences = sequences;
	lane->bin_rows = bin_rows;
	lane->sender_rows = sender_rows;
	mb_busy_init(&lane->busy, busy);
	mb_span_init(bins, options->bin_ns, mb_bins_open_ns(options));
	mb_span_init(senders, options->source_bin_ns, options->window_ns);
	lane->bins = calloc(bins->mask + 1, sizeof(*lane->bins));
	lane->senders = calloc(senders->mask + 1, sizeof(*lane->senders));
	lane->pending = calloc(MB_STEP_PACKETS, sizeof(*lane->pending));
	if (!lane->bins || !lane->senders || !lane->pending) {
		mb_lane_deinit(lane);
		return -ENOMEM;
	}
	for (uint64_t i = 0; i <= senders->mask; i++)
		mb_senders_init(&lane->senders[i], limits);
	lane->totals.epochs = 1;
	lane->totals.first_ns = INT64_MAX;
	lane->totals.last_ns = INT64_MIN;
	return 0;
}

void mb_lane_deinit(struct mb_lane *lane)
{
	for (uint64_t i = 0; lane->senders && i <= lane->sender_span.mask; i++)
		mb_senders_deinit(&lane->senders[i]);
	mb_busy_deinit(&lane->busy);
	free(lane->senders);
	free(lane->bins);
	free(lane->pending);
	memset(lane, 0, sizeof(*lane));
}

/* The open bin that holds TS_NS. */
static struct mb_bin *bin_at(const struct mb_lane *lane, int64_t ts_ns)
{
	return &lane->bins[(uint64_t)mb_floor_div(ts_ns, lane->options->bin_ns) & lane->bin_span.mask];
}

static struct mb_senders *senders_at(const struct mb_lane *lane, int64_t ts_ns)
{
	return &lane->senders[(uint64_t)mb_floor_div(ts_ns, lane->options->source_bin_ns) & lane->sender_span.mask];
}

__attribute__((noinline)) void mb_lane_spread(struct mb_lane *lane, const struct mb_packet *packet)
{
	int64_t took = took_ns(lane->options, packet->wire_bytes);
	int64_t oldest = lane->bin_span.oldest * lane->options->bin_ns;
	bool is_squeezed = mb_elapsed(oldest, packet->ts_ns) < (uint64_t)took;
	int64_t from = is_squeezed ? oldest : packet->ts_ns - took;
	int64_t length = packet->ts_ns - from;
	uint64_t bytes_before = 0, wire_before = 0;

	for (int64_t at = from; length > 0 && at < packet->ts_ns;) {
		struct mb_bin *bin = bin_at(lane, at);
		int64_t end = (mb_floor_div(at, lane->options->bin_ns) + 1) * lane->options->bin_ns;

		if (end > packet->ts_ns)
			break;
		uint64_t bytes =
			(uint64_t)((unsigned __int128)packet->bytes * (uint64_t)(end - from) / (uint64_t)length);
		uint64_t wire =
			(uint64_t)((unsigned __int128)packet->wire_bytes * (uint64_t)(end - from) / (uint64_t)length);

		bin->bytes += bytes - bytes_before;
		bin->wire_bytes += wire - wire_before;
		bin->quality |= packet->quality;
		bytes_before = bytes;
		wire_before = wire;
		at = end;
	}
	struct mb_bin *last = bin_at(lane, packet->ts_ns);

	lane->totals.squeezed += is_squeezed;
	if (from < lane->totals.first_ns)
		lane->totals.first_ns = from;
	last->bytes -= bytes_before; /* the part that earlier bins took, and that was counted here */
	last->wire_bytes -= wire_before;
}

static void count_pause(struct mb_bin *bin, const struct mb_packet *packet)
{
	if (packet->pause_quanta)
		bin->pause_frames++;
	else
		bin->resume_frames++;
	bin->pause_quanta += packet->pause_quanta;
	bin->pause_classes |= (uint16_t)packet->pause_classes;
}

/* The sender of a notification is the receiver that asks its sender to send slower. add_packet() counts its bytes, and
 * reports missing memory. */
static void count_notification(struct mb_bin *bin, struct mb_senders *senders, const struct mb_packet *packet)
{
	struct mb_sender *sender = packet->source.family == MB_FAMILY_NONE ? NULL : mb_senders_find(senders, packet);

	bin->cnp_packets++;
	if (sender)
		sender->cnp_packets++;
}

/* Count properties that only few packets have, in addition to the sums. */
static __attribute__((noinline)) void count_rare(struct mb_lane *lane, struct mb_bin *bin, struct mb_senders *senders,
						 const struct mb_packet *packet)
{
	struct mb_lane_totals *totals = &lane->totals;

	if (packet->source.family == MB_FAMILY_NONE) {
		totals->unattributed_packets++;
		totals->unattributed_bytes += packet->bytes;
	}
	if (packet->marks & MB_MARK_CE)
		bin->ce_packets++;
	if (packet->marks & MB_MARK_CNP)
		count_notification(bin, senders, packet);
	if (packet->marks & MB_MARK_PAUSE)
		count_pause(bin, packet);
	if (packet->marks & MB_MARK_UNPARSED)
		totals->unparsed++;
	if (packet->marks & MB_MARK_MERGED) {
		totals->merged++;
		if (lane->options->spread_bps)
			mb_lane_spread(lane, packet);
	}
}

static inline int add_packet(struct mb_lane *lane, struct mb_bin *bin, struct mb_senders *senders,
			     const struct mb_packet *packet)
{
	const struct mb_subtotal subtotal = {
		.bytes = packet->bytes,
		.packets = 1,
		.first_ns = packet->ts_ns,
		.last_ns = packet->ts_ns,
	};
	struct mb_sender *sender;

	if (packet->marks & MB_MARK_TCP)
		bin->retransmits += mb_sequence_back(mb_sequences_find(lane->sequences, packet, lane->index),
						     packet->tcp_seq, packet->tcp_len);
	bin->bytes += packet->bytes;
	bin->wire_bytes += packet->wire_bytes;
	bin->packets++;
	bin->quality |= packet->quality;
	if (mb_unlikely((packet->marks & ~MB_MARK_TCP) || packet->source.family == MB_FAMILY_NONE))
		count_rare(lane, bin, senders, packet);
	if (mb_unlikely(packet->source.family == MB_FAMILY_NONE))
		return 0;
	sender = mb_senders_find(senders, packet);
	if (!sender)
		return -ENOMEM;
	mb_sender_add(sender, &subtotal);
	return 0;
}

static void begin_epoch_at(struct mb_lane *lane, int64_t ts_ns)
{
	if (ts_ns < lane->newest_ns - lane->options->window_ns) /* else packets from before the step may still come */
		mb_drop_spans_forget(&lane->drop_spans, INT64_MIN, lane->clock);
	if (ts_ns < lane->totals.first_ns)
		lane->totals.first_ns = ts_ns;
	lane->advanced_ns = INT64_MIN;
	mb_span_begin(&lane->bin_span, ts_ns);
	mb_span_begin(&lane->sender_span, ts_ns);
}

/* Move to TS_NS, and close the bins that the window then leaves behind. The bins between the old and the new newest bin
 * are empty. */
static int move_bins(struct mb_lane *lane, int64_t ts_ns)
{
	struct mb_span *span = &lane->bin_span;
	int64_t number = span->oldest, end = span->newest + 1;

	mb_span_move(span, ts_ns);
	if (mb_close_bins(lane, number, span->oldest < end ? span->oldest : end))
		return -ENOMEM;
	if (mb_likely(!lane->drop_spans.count))
		return 0;
	if (mb_close_dropped(lane, end, span->oldest))
		return -ENOMEM;
	mb_drop_spans_forget(&lane->drop_spans, span->oldest * span->width_ns, 0);
	return 0;
}

static int move_senders(struct mb_lane *lane, int64_t ts_ns)
{
	struct mb_span *span = &lane->sender_span;
	int64_t number = span->oldest, end = span->newest + 1;

	mb_span_move(span, ts_ns);
	return mb_close_senders(lane, number, span->oldest < end ? span->oldest : end);
}

static int leave_behind(struct mb_lane *lane, int64_t ts_ns)
{
	const struct mb_sender_rows to = mb_sender_rows_of(lane);

	if (ts_ns >= lane->bin_span.due_ns && move_bins(lane, ts_ns))
		return -ENOMEM;
	if (ts_ns >= lane->sender_span.due_ns && move_senders(lane, ts_ns))
		return -ENOMEM;
	return mb_busy_settle(&lane->busy, lane->bin_span.oldest * lane->options->bin_ns, &to);
}

/* Handle the first packet of an epoch, or one that moves the newest bin on. */
static __attribute__((noinline)) int move_on(struct mb_lane *lane, int64_t ts_ns)
{
	const struct mb_span *bins = &lane->bin_span, *senders = &lane->sender_span;
	int64_t bin_end, senders_end;

	if (!mb_date_is_sane(ts_ns))
		return -ERANGE;
	if (mb_unlikely(mb_clock_is_set_by(lane, ts_ns)) && mb_begin_epoch(lane))
		return -ENOMEM;
	if (!lane->newest)
		begin_epoch_at(lane, ts_ns);
	else if (leave_behind(lane, ts_ns))
		return -ENOMEM;
	bin_end = bins->start_ns + bins->width_ns;
	senders_end = senders->start_ns + senders->width_ns;
	lane->newest_ns = ts_ns;
	lane->newest = &lane->bins[(uint64_t)bins->newest & bins->mask];
	lane->newest_senders = &lane->senders[(uint64_t)senders->newest & senders->mask];
	lane->newest_end = bin_end < senders_end ? bin_end : senders_end;
	if (mb_date_is_unset(ts_ns) && lane->newest_end > MB_DATE_SET)
		lane->newest_end = MB_DATE_SET;
	lane->newest->quality |= lane->stepped ? MB_QUALITY_STEPPED : 0;
	lane->stepped = false;
	return 0;
}

static __attribute__((noinline)) int add_older(struct mb_lane *lane, const struct mb_packet *packet)
{
	int64_t ts_ns = packet->ts_ns;
	struct mb_bin *bin;

	if (!mb_date_is_sane(ts_ns))
		return -ERANGE;
	if (mb_elapsed(ts_ns, lane->newest_ns) > (uint64_t)lane->options->window_ns)
		return mb_add_late(lane, packet);
	if (ts_ns < lane->totals.first_ns)
		lane->totals.first_ns = ts_ns;
	if (ts_ns > lane->totals.last_ns)
		lane->totals.last_ns = ts_ns;
	bin = bin_at(lane, ts_ns);
	lane->advanced_packets += bin == lane->newest;
	return add_packet(lane, bin, senders_at(lane, ts_ns), packet);
}

/* Move the newest bin to hold TS_NS, which is not older than any stamp before. */
static inline int reach(struct mb_lane *lane, int64_t ts_ns)
{
	return mb_unlikely(ts_ns >= lane->newest_end || !lane->newest) ? move_on(lane, ts_ns) : 0;
}

int mb_lane_add(struct mb_lane *lane, const struct mb_packet *packet)
{
	int error;

	if (mb_unlikely(lane->newest && packet->ts_ns < lane->newest_ns))
		return add_older(lane, packet);
	if (mb_unlikely(lane->n_pending))
		mb_count_late(lane);
	error = reach(lane, packet->ts_ns);
	if (error)
		return error;
	lane->newest_ns = packet->ts_ns;
	return add_packet(lane, lane->newest, lane->newest_senders, packet);
}

int mb_lane_reach(struct mb_lane *lane, int64_t ts_ns)
{
	int error;

	if (lane->newest && ts_ns < lane->newest_ns)
		return -ERANGE;
	error = reach(lane, ts_ns);
	if (!error)
		lane->newest_ns = ts_ns;
	return error;
}

void mb_lane_misdate(struct mb_lane *lane, const struct mb_packet *packet)
{
	lane->totals.late++;
	lane->totals.late_bytes += packet->bytes;
}

/* Count the part of a train that the newest bin holds. */
static inline void add_subtotal(struct mb_lane *lane, const struct mb_packet *leader, struct mb_sender *sender,
				const struct mb_subtotal *subtotal)
{
	struct mb_bin *bin = lane->newest;

	bin->bytes += subtotal->bytes;
	bin->wire_bytes += subtotal->bytes + subtotal->padding + (uint64_t)subtotal->packets * MB_WIRE_OVERHEAD;
	bin->packets += subtotal->packets;
	bin->ce_packets += subtotal->ce_packets;
	bin->quality |= leader->quality;
	mb_sender_add(sender, subtotal);
	lane->newest_ns = subtotal->last_ns;
}

/* Whether no packet of a TCP train, except perhaps LEADER, repeats sequence space that was sent before; *IS_BACK:
 * whether LEADER does. */
static inline bool continues(struct mb_lane *lane, const struct mb_packet *leader, const struct mb_train *train,
			     bool *is_back)
{
	*is_back = false;
	return !(leader->marks & MB_MARK_TCP) ||
	       mb_sequence_continues(mb_sequences_find(lane->sequences, leader, lane->index), leader->tcp_seq,
				     leader->tcp_len, train->tcp_end, is_back);
}

int mb_lane_add_train(struct mb_lane *lane, const struct mb_packet *leader, const struct mb_train *train)
{
	const struct mb_subtotal *subtotal = train->subtotals, *end = subtotal + train->n_subtotals;
	struct mb_sender *sender = NULL;
	int64_t sender_bin = 0;
	bool is_back;

	if (mb_unlikely(subtotal->first_ns < 0 || !mb_date_is_sane(end[-1].last_ns) ||
			mb_date_is_unset(subtotal->first_ns) != mb_date_is_unset(end[-1].last_ns) ||
			(lane->newest && subtotal->first_ns < lane->newest_ns) ||
			!continues(lane, leader, train, &is_back)))
		return 0;
	if (mb_unlikely(lane->n_pending))
		mb_count_late(lane);
	for (; subtotal < end; subtotal++) {
		int error = reach(lane, subtotal->first_ns);

		if (error)
			return error;
		if (!sender || sender_bin != lane->sender_span.newest) {
			sender_bin = lane->sender_span.newest;
			sender = mb_senders_find(lane->newest_senders, leader);
			if (!sender)
				return -ENOMEM;
		}
		add_subtotal(lane, leader, sender, subtotal);
		lane->newest->retransmits += is_back;
		is_back = false;
	}
	return 1;
}

int mb_lane_advance(struct mb_lane *lane, int64_t now_ns)
{
	/* Time that went back in the other direction: as with a packet (begin_epoch_at). */
	if (!lane->newest && now_ns < lane->newest_ns - lane->options->window_ns)
		mb_drop_spans_forget(&lane->drop_spans, INT64_MIN, lane->clock);
	if (!lane->newest || now_ns <= lane->newest_ns || !mb_date_is_sane(now_ns))
		return 0;
	if (mb_clock_is_set_by(lane, now_ns))
		return mb_begin_epoch(lane);
	mb_note_last(lane);
	if (move_on(lane, now_ns))
		return -ENOMEM;
	lane->advanced_ns = now_ns;
	lane->advanced_packets = lane->newest->packets;
	return 0;
}

int mb_lane_step(struct mb_lane *lane)
{
	lane->clock++;
	mb_count_late(lane);
	return lane->newest && lane->epoch < UINT16_MAX ? mb_begin_epoch(lane) : 0;
}

void mb_lane_mark_drops(struct mb_lane *lane, int64_t first_ns, int64_t last_ns)
{
	const int64_t width = lane->bin_span.width_ns, latest = INT64_MAX - width;
	const int64_t first = mb_floor_div(first_ns < 0 ? 0 : first_ns, width);
	const int64_t last = mb_floor_div(last_ns > latest ? latest : last_ns, width);

	if (first <= last)
		mb_drop_spans_add(&lane->drop_spans, first * width, last * width + width - 1, lane->clock);
}

void mb_lane_take_drops(struct mb_lane *lane, const struct mb_lane *other)
{
	for (uint32_t i = 0; i < other->drop_spans.count; i++) {
		const struct mb_drop_span *span = &other->drop_spans.spans[i];

		mb_drop_spans_add(&lane->drop_spans, span->first_ns, span->last_ns, span->clock);
	}
	if (lane->clock < other->clock)
		lane->clock = other->clock;
}

int mb_lane_finish(struct mb_lane *lane)
{
	int64_t lost_ns = INT64_MIN;
	int error;

	mb_count_late(lane);
	if (!lane->newest)
		return 0;
	mb_note_last(lane);
	error = mb_close_all(lane);
	for (uint32_t i = 0; i < lane->drop_spans.count; i++)
		if (lane->drop_spans.spans[i].last_ns > lost_ns)
			lost_ns = lane->drop_spans.spans[i].last_ns;
	if (!error && lane->drop_spans.count)
		error = mb_close_dropped(lane, lane->bin_span.newest + 1,
					 mb_floor_div(lost_ns, lane->bin_span.width_ns) + 1);
	return error;
}

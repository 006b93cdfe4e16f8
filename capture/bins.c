/* SPDX-License-Identifier: Apache-2.0 */
#include "bins.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define likely(condition) __builtin_expect(!!(condition), 1)
#define unlikely(condition) __builtin_expect(!!(condition), 0)

const struct mb_column mb_bin_columns[MB_BIN_COLUMNS] = {
	{ "lane", "s", 2, 0 },       { "epoch", "S", 2, 0 },      { "ts_ns", "l", 8, 0 },
	{ "bytes", "l", 8, 0 },      { "wire_bytes", "l", 8, 0 }, { "packets", "I", 4, 0 },
	{ "ce_packets", "I", 4, 0 }, { "retransmits", "I", 4, 0 }, { "quality", "S", 2, 0 },
};

static int64_t floor_div(int64_t value, int64_t width)
{
	int64_t quotient = value / width;

	return quotient - (value % width < 0);
}

static uint64_t elapsed(int64_t from, int64_t to)
{
	return (uint64_t)to - (uint64_t)from;
}

/* Slots for every bin that the window may hold open, the newest and both partial ones. */
static uint64_t ring_size(int64_t window_ns, int64_t width)
{
	uint64_t size = 4;

	while (size < (uint64_t)(window_ns / width) + 3)
		size *= 2;
	return size;
}

int mb_lane_init(struct mb_lane *lane, int16_t index, const struct mb_bins_options *options,
		 struct mb_senders_limits *limits, struct mb_sequences *sequences,
		 struct mb_table **bin_rows, struct mb_table **sender_rows)
{
	uint64_t n_bins = ring_size(options->window_ns, options->bin_ns);
	uint64_t n_senders = ring_size(options->window_ns, options->source_bin_ns);

	memset(lane, 0, sizeof(*lane));
	lane->index = index;
	lane->options = options;
	lane->sequences = sequences;
	lane->bin_rows = bin_rows;
	lane->sender_rows = sender_rows;
	lane->bin_mask = n_bins - 1;
	lane->senders_mask = n_senders - 1;
	lane->bins = calloc(n_bins, sizeof(*lane->bins));
	lane->senders = calloc(n_senders, sizeof(*lane->senders));
	lane->pending = calloc(MB_STEP_PACKETS, sizeof(*lane->pending));
	if (!lane->bins || !lane->senders || !lane->pending) {
		mb_lane_deinit(lane);
		return -ENOMEM;
	}
	for (uint64_t i = 0; i < n_senders; i++)
		mb_senders_init(&lane->senders[i], limits);
	lane->totals.epochs = 1;
	lane->totals.first_ns = INT64_MAX;
	lane->totals.last_ns = INT64_MIN;
	return 0;
}

void mb_lane_deinit(struct mb_lane *lane)
{
	for (uint64_t i = 0; lane->senders && i <= lane->senders_mask; i++)
		mb_senders_deinit(&lane->senders[i]);
	free(lane->senders);
	free(lane->bins);
	free(lane->pending);
	memset(lane, 0, sizeof(*lane));
}

static int close_bin(struct mb_lane *lane, int64_t number)
{
	struct mb_bin *bin = &lane->bins[(uint64_t)number & lane->bin_mask];
	struct mb_table *rows = *lane->bin_rows;
	struct mb_lane_totals *totals = &lane->totals;
	size_t i = rows->count;

	if (unlikely(lane->lost.count) &&
	    mb_lost_in(&lane->lost, number * lane->options->bin_ns, lane->options->bin_ns))
		bin->quality |= MB_QUALITY_LOSING;
	else if (!bin->packets && !bin->bytes) {
		bin->quality = 0;
		return 0;
	}
	if (mb_table_reserve(rows, 1))
		return -ENOMEM;
	((int16_t *)rows->data[0])[i] = lane->index;
	((uint16_t *)rows->data[1])[i] = lane->epoch;
	((int64_t *)rows->data[2])[i] = number * lane->options->bin_ns;
	((int64_t *)rows->data[3])[i] = (int64_t)bin->bytes;
	((int64_t *)rows->data[4])[i] = (int64_t)bin->wire_bytes;
	((uint32_t *)rows->data[5])[i] = bin->packets;
	((uint32_t *)rows->data[6])[i] = bin->ce_packets;
	((uint32_t *)rows->data[7])[i] = bin->retransmits;
	((uint16_t *)rows->data[8])[i] = (uint16_t)bin->quality;
	rows->count++;
	totals->packets += bin->packets;
	totals->bytes += bin->bytes;
	totals->wire_bytes += bin->wire_bytes;
	totals->ce_packets += bin->ce_packets;
	totals->retransmits += bin->retransmits;
	totals->quality |= bin->quality;
	*bin = (struct mb_bin){ 0 };
	return 0;
}

static int close_senders(struct mb_lane *lane, int64_t number)
{
	struct mb_senders *senders = &lane->senders[(uint64_t)number & lane->senders_mask];

	if (!senders->count && !senders->other_members)
		return 0;
	return mb_senders_close(senders, *lane->sender_rows, lane->index, lane->epoch,
				number * lane->options->source_bin_ns);
}

/* Close what ends before HORIZON_NS; INT64_MAX closes all. */
static int close_until(struct mb_lane *lane, int64_t horizon_ns)
{
	const struct mb_bins_options *options = lane->options;
	int64_t bin_end = floor_div(horizon_ns, options->bin_ns);
	int64_t newest_bin = floor_div(lane->newest_ns, options->bin_ns);
	int64_t senders_end = floor_div(horizon_ns, options->source_bin_ns);
	int64_t newest_senders = floor_div(lane->newest_ns, options->source_bin_ns);
	int error = 0;

	if (bin_end > newest_bin)
		bin_end = newest_bin + 1;
	if (senders_end > newest_senders)
		senders_end = newest_senders + 1;
	for (; lane->oldest_bin < bin_end && !error; lane->oldest_bin++)
		error = close_bin(lane, lane->oldest_bin);
	for (; lane->oldest_senders < senders_end && !error; lane->oldest_senders++)
		error = close_senders(lane, lane->oldest_senders);
	return error;
}

/* Bins that were never open, because no packet of their time came, but of which some were lost:
 * those from the oldest that may be open up to, not including, END. */
static int close_lost(struct mb_lane *lane, int64_t end)
{
	int error = 0;

	for (int64_t n = 0; n < MB_LOST_BINS && lane->oldest_bin < end && !error; n++)
		error = close_bin(lane, lane->oldest_bin++);
	return error;
}

/* Make the bins of TS_NS the newest, and those that the window reaches back to the oldest. */
static void begin_at(struct mb_lane *lane, int64_t ts_ns)
{
	const struct mb_bins_options *options = lane->options;
	int64_t horizon = ts_ns - options->window_ns;
	int64_t bin = floor_div(ts_ns, options->bin_ns);
	int64_t senders = floor_div(ts_ns, options->source_bin_ns);

	lane->newest_ns = ts_ns;
	lane->oldest_bin = floor_div(horizon, options->bin_ns);
	lane->oldest_senders = floor_div(horizon, options->source_bin_ns);
	lane->newest_start = bin * options->bin_ns;
	lane->newest = &lane->bins[(uint64_t)bin & lane->bin_mask];
	lane->senders_start = senders * options->source_bin_ns;
	lane->newest_senders = &lane->senders[(uint64_t)senders & lane->senders_mask];
}


/* Of bins that are open, the one that holds TS_NS. */
static struct mb_bin *bin_at(const struct mb_lane *lane, int64_t ts_ns)
{
	return &lane->bins[(uint64_t)floor_div(ts_ns, lane->options->bin_ns) & lane->bin_mask];
}

static struct mb_senders *senders_at(const struct mb_lane *lane, int64_t ts_ns)
{
	return &lane->senders[(uint64_t)floor_div(ts_ns, lane->options->source_bin_ns) &
			      lane->senders_mask];
}

/* Lay the bytes of a merged frame back over the bins in which they crossed the wire: they end at
 * the stamp, at line rate. The frame itself counts in the bin of its stamp, its bytes once. */
static __attribute__((noinline)) void spread_back(struct mb_lane *lane,
						  const struct mb_packet *packet)
{
	uint64_t took = (uint64_t)packet->wire_bytes * 8 * 1000000000 / lane->options->spread_bps;
	int64_t oldest = lane->oldest_bin * lane->options->bin_ns;
	int64_t from = elapsed(oldest, packet->ts_ns) > took ? packet->ts_ns - (int64_t)took : oldest;
	int64_t length = packet->ts_ns - from;
	uint64_t bytes_before = 0, wire_before = 0;

	for (int64_t at = from; length > 0 && at < packet->ts_ns;) {
		struct mb_bin *bin = bin_at(lane, at);
		int64_t end = (floor_div(at, lane->options->bin_ns) + 1) * lane->options->bin_ns;

		if (end > packet->ts_ns)
			break;
		uint64_t bytes = (uint64_t)((unsigned __int128)packet->bytes *
					    (uint64_t)(end - from) / (uint64_t)length);
		uint64_t wire = (uint64_t)((unsigned __int128)packet->wire_bytes *
					   (uint64_t)(end - from) / (uint64_t)length);

		bin->bytes += bytes - bytes_before;
		bin->wire_bytes += wire - wire_before;
		bin->quality |= packet->quality;
		bytes_before = bytes;
		wire_before = wire;
		at = end;
	}
	struct mb_bin *last = bin_at(lane, packet->ts_ns);

	last->bytes -= bytes_before; /* what earlier bins took; add_packet() has counted it here */
	last->wire_bytes -= wire_before;
}

/* What few packets need, besides the sums: those of a train in one bin. */
static __attribute__((noinline)) void count_rare(struct mb_lane *lane, struct mb_bin *bin,
						 const struct mb_packet *head,
						 const struct mb_amount *amount)
{
	struct mb_lane_totals *totals = &lane->totals;

	if (head->source.family == MB_FAMILY_NONE) {
		totals->unattributed_packets += amount->packets;
		totals->unattributed_bytes += amount->bytes;
	}
	if (head->marks & MB_MARK_CE)
		bin->ce_packets += amount->packets;
	if (head->marks & MB_MARK_UNPARSED)
		totals->unparsed += amount->packets;
	if (head->marks & MB_MARK_MERGED) { /* always a train of its own */
		totals->merged++;
		if (lane->options->spread_bps)
			spread_back(lane, head);
	}
}

/* Count COUNT cars that belong into one and the same bin and stand in order. */
static inline int add_cars(struct mb_lane *lane, struct mb_bin *bin, struct mb_senders *senders,
			   const struct mb_packet *head, const struct mb_car *cars, uint32_t count)
{
	struct mb_amount amount = { 0, count, cars->ts_ns, cars[count - 1].ts_ns };
	uint64_t wire_bytes = 0;

	for (uint32_t i = 0; i < count; i++) {
		amount.bytes += cars[i].bytes;
		wire_bytes += cars[i].wire_bytes;
	}
	if (head->marks & MB_MARK_TCP) {
		struct mb_sequence *sequence =
			mb_sequences_find(lane->sequences, head, cars->tcp_seq);

		for (uint32_t i = 0; i < count; i++)
			bin->retransmits += mb_sequence_back(sequence, cars[i].tcp_seq, cars[i].tcp_len);
	}
	bin->bytes += amount.bytes;
	bin->wire_bytes += wire_bytes;
	bin->packets += count;
	bin->quality |= head->quality;
	if (unlikely((head->marks & ~MB_MARK_TCP) || head->source.family == MB_FAMILY_NONE))
		count_rare(lane, bin, head, &amount);
	if (unlikely(head->source.family == MB_FAMILY_NONE))
		return 0;
	return mb_senders_add(senders, head, &amount);
}

/* How many cars stand in order and in the newest bin, of bins and of senders, as the first does. */
static inline uint32_t count_in_bin(const struct mb_lane *lane, const struct mb_car *cars,
				    uint32_t count)
{
	uint64_t left = (uint64_t)lane->options->bin_ns - elapsed(lane->newest_start, cars->ts_ns);
	uint64_t senders_left = (uint64_t)lane->options->source_bin_ns -
				elapsed(lane->senders_start, cars->ts_ns);
	uint32_t n = 1;

	if (senders_left < left)
		left = senders_left;
	while (n < count && cars[n].ts_ns >= cars[n - 1].ts_ns &&
	       elapsed(cars->ts_ns, cars[n].ts_ns) < left)
		n++;
	return n;
}

/* newest_ns is the last packet's stamp, unless mb_lane_advance() moved it on. */
static void note_last(struct mb_lane *lane)
{
	if (lane->newest && lane->newest_ns != lane->advanced_ns &&
	    lane->newest_ns > lane->totals.last_ns)
		lane->totals.last_ns = lane->newest_ns;
}

/* Late packets that turned out to be no step of the clock. */
static void count_late(struct mb_lane *lane)
{
	for (uint32_t i = 0; i < lane->n_pending; i++)
		lane->totals.late_bytes += lane->pending[i].bytes;
	lane->totals.late += lane->n_pending;
	lane->n_pending = 0;
}

static struct mb_car car_of(const struct mb_packet *packet)
{
	return (struct mb_car){ packet->ts_ns, packet->bytes, packet->wire_bytes,
				packet->tcp_seq, packet->tcp_len };
}

static int begin_epoch(struct mb_lane *lane)
{
	note_last(lane);
	lane->newest->quality |= MB_QUALITY_STEPPED;
	if (close_until(lane, INT64_MAX))
		return -ENOMEM;
	lane->epoch++;
	lane->totals.epochs++;
	lane->newest = NULL;
	lane->stepped = true;
	return 0;
}

/* The clock went back to where the pending packets are. */
static int step_back(struct mb_lane *lane)
{
	uint32_t n = lane->n_pending;
	int error;

	lane->n_pending = 0;
	error = begin_epoch(lane);
	for (uint32_t i = 0; i < n && !error; i++) {
		struct mb_car car = car_of(&lane->pending[i]);

		/* What is late again goes back to `pending`, at a place that was read before. */
		error = mb_lane_add(lane, &lane->pending[i], &car, 1);
	}
	return error;
}

static __attribute__((noinline)) int add_late(struct mb_lane *lane, const struct mb_packet *packet)
{
	if (lane->n_pending) {
		int64_t last = lane->pending[lane->n_pending - 1].ts_ns;
		bool in_order = packet->ts_ns >= last ||
				elapsed(packet->ts_ns, last) <= (uint64_t)lane->options->window_ns;

		if (!in_order)
			count_late(lane);
	}
	lane->pending[lane->n_pending++] = *packet;
	if (lane->n_pending < MB_STEP_PACKETS)
		return 0;
	if (lane->epoch == UINT16_MAX) {
		count_late(lane);
		return 0;
	}
	return step_back(lane);
}

/* The first packet of an epoch, or one that moves the newest bin on. */
static __attribute__((noinline)) int move_on(struct mb_lane *lane, int64_t ts_ns)
{
	int error;

	if (lane->newest) {
		int64_t horizon = ts_ns - lane->options->window_ns;

		error = close_until(lane, horizon);
		if (!error && unlikely(lane->lost.count)) {
			error = close_lost(lane, floor_div(horizon, lane->options->bin_ns));
			mb_lost_forget(&lane->lost, horizon);
		}
		if (error)
			return error;
	} else if (ts_ns < lane->totals.first_ns) {
		lane->totals.first_ns = ts_ns;
	}
	/* What lies between the old and the new newest bin is empty. */
	begin_at(lane, ts_ns);
	lane->newest->quality |= lane->stepped ? MB_QUALITY_STEPPED : 0;
	lane->stepped = false;
	return 0;
}

static __attribute__((noinline)) int add_older(struct mb_lane *lane, const struct mb_packet *head,
					       const struct mb_car *car)
{
	if (elapsed(car->ts_ns, lane->newest_ns) > (uint64_t)lane->options->window_ns) {
		struct mb_packet packet = mb_car_packet(head, car);

		return add_late(lane, &packet);
	}
	if (car->ts_ns < lane->totals.first_ns)
		lane->totals.first_ns = car->ts_ns;
	if (car->ts_ns > lane->totals.last_ns && lane->newest_ns == lane->advanced_ns)
		lane->totals.last_ns = car->ts_ns;
	return add_cars(lane, bin_at(lane, car->ts_ns), senders_at(lane, car->ts_ns), head, car, 1);
}

/* The cars at the front of CARS that are no older than any before and in one bin. */
static inline int add_newest(struct mb_lane *lane, const struct mb_packet *head,
			     const struct mb_car *cars, uint32_t count, uint32_t *n)
{
	if (unlikely(lane->n_pending))
		count_late(lane);
	if (unlikely(!lane->newest ||
		     elapsed(lane->newest_start, cars->ts_ns) >= (uint64_t)lane->options->bin_ns ||
		     elapsed(lane->senders_start, cars->ts_ns) >= (uint64_t)lane->options->source_bin_ns) &&
	    move_on(lane, cars->ts_ns))
		return -ENOMEM;
	*n = count_in_bin(lane, cars, count);
	lane->newest_ns = cars[*n - 1].ts_ns;
	return add_cars(lane, lane->newest, lane->newest_senders, head, cars, *n);
}

int mb_lane_add(struct mb_lane *lane, const struct mb_packet *head, const struct mb_car *cars,
		uint32_t count)
{
	uint32_t n = 1;
	int error = 0;

	for (; count && !error; cars += n, count -= n) {
		n = 1;
		if (unlikely(lane->newest && cars->ts_ns < lane->newest_ns))
			error = add_older(lane, head, cars);
		else
			error = add_newest(lane, head, cars, count, &n);
	}
	return error;
}

int mb_lane_advance(struct mb_lane *lane, int64_t now_ns)
{
	if (!lane->newest || now_ns <= lane->newest_ns)
		return 0;
	note_last(lane);
	lane->advanced_ns = now_ns;
	return move_on(lane, now_ns);
}

int mb_lane_step(struct mb_lane *lane)
{
	count_late(lane);
	return lane->newest && lane->epoch < UINT16_MAX ? begin_epoch(lane) : 0;
}

void mb_lane_lose(struct mb_lane *lane, int64_t first_ns, int64_t last_ns)
{
	mb_lost_add(&lane->lost, first_ns, last_ns);
}

int mb_lane_finish(struct mb_lane *lane)
{
	int64_t lost_ns = INT64_MIN;
	int error;

	count_late(lane);
	if (!lane->newest)
		return 0;
	note_last(lane);
	error = close_until(lane, INT64_MAX);
	for (uint32_t i = 0; i < lane->lost.count; i++)
		if (lane->lost.spans[i].last_ns > lost_ns)
			lost_ns = lane->lost.spans[i].last_ns;
	if (!error && lane->lost.count)
		error = close_lost(lane, floor_div(lost_ns, lane->options->bin_ns) + 1);
	return error;
}

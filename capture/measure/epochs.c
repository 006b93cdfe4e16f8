/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/epochs.h"

#include <errno.h>

#include "dates.h"
#include "measure/closing.h"

/* Whether newest_ns is the stamp of a packet: mb_lane_advance() did not move it on, or a packet came at exactly that
 * time. */
static bool is_stamp(const struct mb_lane *lane)
{
	return lane->newest_ns != lane->advanced_ns || lane->newest->packets != lane->advanced_packets;
}

void mb_note_last(struct mb_lane *lane)
{
	if (lane->newest && is_stamp(lane) && lane->newest_ns > lane->totals.last_ns)
		lane->totals.last_ns = lane->newest_ns;
}

void mb_count_late(struct mb_lane *lane)
{
	for (uint32_t i = 0; i < lane->n_pending; i++)
		lane->totals.late_bytes += lane->pending[i].bytes;
	lane->totals.late += lane->n_pending;
	lane->n_pending = 0;
}

int mb_begin_epoch(struct mb_lane *lane)
{
	mb_note_last(lane);
	lane->newest->quality |= MB_QUALITY_STEPPED;
	if (mb_close_all(lane))
		return -ENOMEM;
	lane->epoch++;
	lane->totals.epochs++;
	lane->newest = NULL;
	lane->stepped = true;
	return 0;
}

/* Begin an epoch: the clock went back to the time of the pending packets. */
static int step_back(struct mb_lane *lane)
{
	uint32_t n = lane->n_pending;
	int error;

	lane->n_pending = 0;
	error = mb_begin_epoch(lane);
	for (uint32_t i = 0; i < n && !error; i++) {
		struct mb_packet packet = lane->pending[i]; /* adding it may store another late packet in its place */

		error = mb_lane_add(lane, &packet);
	}
	return error;
}

int mb_add_late(struct mb_lane *lane, const struct mb_packet *packet)
{
	if (lane->n_pending) {
		int64_t last = lane->pending[lane->n_pending - 1].ts_ns;
		bool in_order =
			packet->ts_ns >= last || mb_elapsed(packet->ts_ns, last) <= (uint64_t)lane->options->window_ns;

		if (!in_order)
			mb_count_late(lane);
	}
	lane->pending[lane->n_pending++] = *packet;
	if (lane->n_pending < MB_STEP_PACKETS)
		return 0;
	if (lane->epoch == UINT16_MAX) {
		mb_count_late(lane);
		return 0;
	}
	return step_back(lane);
}

bool mb_clock_is_set_by(const struct mb_lane *lane, int64_t ts_ns)
{
	return lane->newest && mb_date_is_unset(lane->newest_ns) && !mb_date_is_unset(ts_ns) &&
	       lane->epoch < UINT16_MAX;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/rx_counters.h"

#include <errno.h>
#include <stdio.h>

int mb_rx_counters_init(struct mb_rx_counters *rx, const struct mb_backend_options *options, struct mb_error *error)
{
	struct mb_interface *interface = &rx->interface;

	if (options->snaplen > MB_LIVE_SNAPLEN_MAX)
		return mb_fail(error, EINVAL, "a snap length of %u: at most %d", options->snaplen, MB_LIVE_SNAPLEN_MAX);
	*rx = (struct mb_rx_counters){ .interface.snaplen = options->snaplen ? options->snaplen : MB_LIVE_SNAPLEN };
	snprintf(interface->name, sizeof(interface->name), "%s", options->target);
	return 0;
}

int mb_rx_counters_count(struct mb_rx_counters *rx, const struct mb_batch *batch)
{
	rx->frames += batch->count;
	for (uint32_t i = 0; i < batch->count; i++)
		rx->bytes += batch->frames[i].len;
	return (int)batch->count;
}

const struct mb_interface *mb_rx_counters_interfaces(const struct mb_backend *backend, size_t *count)
{
	const struct mb_rx_counters *rx = backend->state;

	*count = 1;
	return &rx->interface;
}

void mb_rx_counters_stats(const struct mb_backend *backend, struct mb_backend_stats *stats)
{
	const struct mb_rx_counters *rx = backend->state;

	*stats = (struct mb_backend_stats){
		.frames = rx->frames,
		.bytes = rx->bytes,
		.dropped = rx->drops.dropped,
		.drop_first_ns = rx->drops.first_ns,
		.drop_last_ns = rx->drops.last_ns,
	};
}

bool mb_rx_counters_loss(struct mb_backend *backend, struct mb_loss *loss)
{
	struct mb_rx_counters *rx = backend->state;

	return mb_drop_queue_take(&rx->drops, loss);
}

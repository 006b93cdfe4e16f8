/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/rx_counters.h"

#include <errno.h>
#include <stdio.h>

int mb_intake_init(struct mb_intake *intake, const struct mb_source_options *options, struct mb_error *error)
{
	struct mb_interface *interface = &intake->interface;

	if (options->snaplen > MB_LIVE_SNAPLEN_MAX)
		return mb_fail(error, EINVAL, "a snap length of %u: at most %d", options->snaplen, MB_LIVE_SNAPLEN_MAX);
	*intake = (struct mb_intake){ .interface.snaplen = options->snaplen ? options->snaplen : MB_LIVE_SNAPLEN };
	snprintf(interface->name, sizeof(interface->name), "%s", options->target);
	return 0;
}

int mb_intake_count(struct mb_intake *intake, const struct mb_batch *batch)
{
	intake->frames += batch->count;
	for (uint32_t i = 0; i < batch->count; i++)
		intake->bytes += batch->frames[i].len;
	return (int)batch->count;
}

const struct mb_interface *mb_intake_interfaces(const struct mb_source *source, size_t *count)
{
	const struct mb_intake *intake = source->state;

	*count = 1;
	return &intake->interface;
}

void mb_intake_stats(const struct mb_source *source, struct mb_source_stats *stats)
{
	const struct mb_intake *intake = source->state;

	*stats = (struct mb_source_stats){
		.frames = intake->frames,
		.bytes = intake->bytes,
		.dropped = intake->losses.dropped,
		.drop_first_ns = intake->losses.first_ns,
		.drop_last_ns = intake->losses.last_ns,
	};
}

bool mb_intake_loss(struct mb_source *source, struct mb_loss *loss)
{
	struct mb_intake *intake = source->state;

	return mb_losses_take(&intake->losses, loss);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * What every live source says of itself: the one interface that it reads, the frames that it has yielded,
 * those that it lost. The first member of such a source's state, so that these functions serve as its ops.
 */
#ifndef MB_RX_COUNTERS_H
#define MB_RX_COUNTERS_H

#include "backend/backend.h"
#include "backend/drop_queue.h"

struct mb_intake {
	struct mb_interface interface;
	uint64_t frames, bytes; /* that read() has yielded */
	struct mb_losses losses;
};

/* The interface of OPTIONS->target, of which the link type and the speed are to be filled in. 0, or -EINVAL with
 * ERROR filled where the snap length is too long. */
int mb_intake_init(struct mb_intake *intake, const struct mb_source_options *options, struct mb_error *error);

/* Count the frames of BATCH, which read() is about to yield. Returns how many they are. */
int mb_intake_count(struct mb_intake *intake, const struct mb_batch *batch);

/* Entries of struct mb_source_ops. */
const struct mb_interface *mb_intake_interfaces(const struct mb_source *source, size_t *count);
void mb_intake_stats(const struct mb_source *source, struct mb_source_stats *stats);
bool mb_intake_loss(struct mb_source *source, struct mb_loss *loss);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * What every live backend reports of itself: the one interface that it reads, the frames that it has yielded, and those
 * that it lost. It is the first member of such a backend's state, so that these functions serve as its ops.
 */
#ifndef MB_RX_COUNTERS_H
#define MB_RX_COUNTERS_H

#include "backend/backend.h"
#include "backend/drop_queue.h"

struct mb_rx_counters {
	struct mb_interface interface;
	uint64_t frames, bytes; /* frames that read() has yielded, and their bytes */
	struct mb_drop_queue drops;
};

/* Initialize with the interface of OPTIONS->target; the caller fills in its link type and speed. Returns 0, or -EINVAL
 * with ERROR filled if the snap length is too long. */
int mb_rx_counters_init(struct mb_rx_counters *rx, const struct mb_backend_options *options, struct mb_error *error);

/* Count the frames of BATCH, which read() is about to yield. Returns their number. */
int mb_rx_counters_count(struct mb_rx_counters *rx, const struct mb_batch *batch);

/* Entries of struct mb_backend_ops. */
const struct mb_interface *mb_rx_counters_interfaces(const struct mb_backend *backend, size_t *count);
void mb_rx_counters_stats(const struct mb_backend *backend, struct mb_backend_stats *stats);
bool mb_rx_counters_loss(struct mb_backend *backend, struct mb_loss *loss);

#endif

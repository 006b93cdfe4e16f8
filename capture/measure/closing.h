/* SPDX-License-Identifier: Apache-2.0
 *
 * From what a lane counted to rows: the bins, and the senders of source bins, that no packet reaches any more. Only a lane
 * itself calls this (bins.c, epochs.c). Functions return 0, or -ENOMEM.
 */
#ifndef MB_CLOSING_H
#define MB_CLOSING_H

#include <stdint.h>

#include "measure/bins.h"

/* Bins NUMBER to END - 1, which are open: rows of those that hold something or in which packets were lost. */
int mb_close_bins(struct mb_lane *lane, int64_t number, int64_t end);

/* The senders of source bins NUMBER to END - 1, likewise. */
int mb_close_senders(struct mb_lane *lane, int64_t number, int64_t end);

/* All that is open: an epoch ends, or the recording. */
int mb_close_all(struct mb_lane *lane);

/* Bins NUMBER to END - 1, in which no packet came: rows where some were lost, at most MB_DROP_BINS. */
int mb_close_dropped(struct mb_lane *lane, int64_t number, int64_t end);

/* Where the rows of the lane's senders go. */
struct mb_sender_rows mb_sender_rows_of(const struct mb_lane *lane);

#endif

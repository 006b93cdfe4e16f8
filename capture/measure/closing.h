/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns the counts of a lane into rows: the bins, and the senders of source bins, that no packet can reach any more.
 * Only the lane itself calls this (bins.c, epochs.c). Functions return 0, or -ENOMEM.
 */
#ifndef MB_CLOSING_H
#define MB_CLOSING_H

#include <stdint.h>

#include "measure/bins.h"

/* Close bins NUMBER to END - 1, which are open: those that are not empty, or in which packets were lost, become
 * rows. */
int mb_close_bins(struct mb_lane *lane, int64_t number, int64_t end);

/* The same for the senders of source bins NUMBER to END - 1. */
int mb_close_senders(struct mb_lane *lane, int64_t number, int64_t end);

/* Close all open bins: an epoch ends, or the recording. */
int mb_close_all(struct mb_lane *lane);

/* Append rows for the bins among NUMBER to END - 1, which had no packets, in which packets were lost, at most
 * MB_DROP_BINS. */
int mb_close_dropped(struct mb_lane *lane, int64_t number, int64_t end);

/* The destination of the lane's rows of senders. */
struct mb_sender_rows mb_sender_rows_of(const struct mb_lane *lane);

#endif

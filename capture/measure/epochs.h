/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides when a lane's clock has stepped; until then, packets that may indicate it are late. Only the lane itself
 * calls this (bins.c). Functions return 0, or -ENOMEM.
 */
#ifndef MB_EPOCHS_H
#define MB_EPOCHS_H

#include <stdbool.h>
#include <stdint.h>

#include "decode/decode.h"
#include "measure/bins.h"

/* Add a packet that is older than the window: it waits until MB_STEP_PACKETS such packets show that the clock went
 * back. */
int mb_add_late(struct mb_lane *lane, const struct mb_packet *packet);

/* Count the waiting packets as late: they do not indicate a step of the clock. */
void mb_count_late(struct mb_lane *lane);

/* Close all bins; the next packet begins another epoch. At least one packet must have come. */
int mb_begin_epoch(struct mb_lane *lane);

/* Record the newest stamp in the lane's totals, if it is that of a packet. */
void mb_note_last(struct mb_lane *lane);

/* Whether TS_NS shows that a clock that was not set has been set. */
bool mb_clock_is_set_by(const struct mb_lane *lane, int64_t ts_ns);

#endif

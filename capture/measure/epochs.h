/* SPDX-License-Identifier: Apache-2.0
 *
 * When a lane's clock is taken to have stepped, and what a packet is until then: late. Only a lane itself calls this
 * (bins.c). Functions return 0, or -ENOMEM.
 */
#ifndef MB_EPOCHS_H
#define MB_EPOCHS_H

#include <stdbool.h>
#include <stdint.h>

#include "decode/decode.h"
#include "measure/bins.h"

/* A packet that is older than the window: it waits until MB_STEP_PACKETS of them say that the clock went back. */
int mb_add_late(struct mb_lane *lane, const struct mb_packet *packet);

/* The waiting packets are late: they are no step of the clock. */
void mb_count_late(struct mb_lane *lane);

/* Close all bins; the next packet begins another epoch. A packet must have come. */
int mb_begin_epoch(struct mb_lane *lane);

/* Have the newest stamp in the lane's totals, where it is a packet's. */
void mb_note_last(struct mb_lane *lane);

/* Whether a clock that was never set has been set by TS_NS. */
bool mb_clock_is_set_by(const struct mb_lane *lane, int64_t ts_ns);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * What the engine does for a live backend only: time passes, clocks are set, packets are lost.
 */
#ifndef MB_LIVE_H
#define MB_LIVE_H

#include <stdint.h>

#include "measure/engine.h"

/* Take the MTU of the interface from the backend, where there is one and no other was given. */
void mb_live_begin(struct mb_engine *engine);
void mb_live_end(struct mb_engine *engine);

/* Let decode.mtu grow to what the MTU of the interface is now. It never shrinks: frames of before may still come. */
void mb_live_follow_mtu(struct mb_engine *engine);

/* The same, where a frame of the batch is larger than the MTU and not known to be merged. */
void mb_live_check_mtu(struct mb_engine *engine);

/* Mark the bins of the losses that the backend reports; before there is a lane, it keeps them. */
void mb_live_mark_losses(struct mb_engine *engine);

/* Begin an epoch when the system's clock was set since the last call: when it moved against
 * CLOCK_MONOTONIC_RAW by more than a bin, and by more than NTP may slew it. Between reading a batch
 * and counting it: frames of that batch from before go into the new epoch, but no bin of them
 * meets one from after, unless the clock was set back by less than it takes to read a batch.
 * 0 or -ENOMEM. */
int mb_live_check_clock(struct mb_engine *engine);

/* Until when no frame is to come any more: silence is time passing. Holds once there was a frame. */
int64_t mb_live_passed_ns(const struct mb_engine *engine);

/* Time passes for every lane, with frames of the other direction or with none at all: close the
 * bins that it leaves behind. After a batch, which may be empty, is counted. 0 or -ENOMEM. */
int mb_live_pass_time(struct mb_engine *engine);

#endif

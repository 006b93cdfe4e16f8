/* SPDX-License-Identifier: Apache-2.0
 *
 * Work of the engine only for live backends: time passes, clocks are set, packets are lost.
 */
#ifndef MB_LIVE_H
#define MB_LIVE_H

#include <stdint.h>

#include "measure/engine.h"

/* Take the MTU of the interface from the backend, if there is an interface and no other MTU was given. */
void mb_live_begin(struct mb_engine *engine);
void mb_live_end(struct mb_engine *engine);

/* Raise decode.mtu to the present MTU of the interface. It is never lowered: earlier frames may still come. */
void mb_live_follow_mtu(struct mb_engine *engine);

/* The same, if a frame of the batch is larger than the MTU and not known to be merged. */
void mb_live_check_mtu(struct mb_engine *engine);

/* Mark the bins of the losses that the backend reports, all of the present clock; before there is a lane, the backend
 * holds them. */
void mb_live_mark_losses(struct mb_engine *engine);

/* Mark the bins of the losses that the backend reports, and begin an epoch if the system clock was set since the last
 * call, that is, if it moved against CLOCK_MONOTONIC_RAW by more than a bin, and by more than NTP may slew it. Call it
 * between reading a batch and counting it: frames of that batch from before the step go into the new epoch, but no bin
 * has frames from before and after it, unless the clock was set back by less than the time for reading a batch. Returns
 * 0 or -ENOMEM. */
int mb_live_check_clock(struct mb_engine *engine);

/* The time before which no further frame can come: silence means that time passes. Valid after the first frame. */
int64_t mb_live_passed_ns(const struct mb_engine *engine);

/* Let time pass in every lane, whether frames came in the other direction or not at all: close the bins that it leaves
 * behind. Call it after a batch, which may be empty, is counted. Returns 0 or -ENOMEM. */
int mb_live_pass_time(struct mb_engine *engine);

#endif

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

/* Mark the bins of the losses that the backend reports, all of the present clock; before there is a lane, the backend
 * holds them. */
void mb_live_mark_losses(struct mb_engine *engine);

/* Count the next batch of a backend of frames, let time pass in every lane, and keep the packets. Like
 * mb_backend_ops.read; a negative errno has ENGINE->failure filled. */
int mb_live_run(struct mb_engine *engine);

#endif

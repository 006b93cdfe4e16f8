/* SPDX-License-Identifier: Apache-2.0
 *
 * The way of what a backend has counted by itself: into the same lanes, bins and senders as frames.
 */
#ifndef MB_COUNTED_H
#define MB_COUNTED_H

#include "measure/engine.h"

/* Read and add the next counts. How many they were, 0 when none came in time, MB_BACKEND_END or a negative errno with
 * ENGINE->failure filled. */
int mb_counted_run(struct mb_engine *engine);

#endif

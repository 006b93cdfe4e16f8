/* SPDX-License-Identifier: Apache-2.0
 *
 * The first frames of a capture, held back until this host's address and the MTU have been inferred from them.
 */
#ifndef MB_LOOKAHEAD_H
#define MB_LOOKAHEAD_H

#include "measure/engine.h"

#define MB_READ_TIMEOUT_MS 100

/* Read the first frames and infer from them, until DEADLINE_NS (CLOCK_MONOTONIC) at most. Returns 1 if there is more to
 * read; 0 if it is complete, with the result that ended it stored for later; or -ENOMEM. */
int mb_lookahead_read(struct mb_engine *engine, int64_t deadline_ns);

/* Drop the frames. */
void mb_lookahead_drop(struct mb_engine *engine);

#endif

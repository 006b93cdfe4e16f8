/* SPDX-License-Identifier: Apache-2.0
 *
 * The way of what a backend has counted by itself: into the same lanes, bins and senders as frames.
 */
#ifndef MB_COUNTED_H
#define MB_COUNTED_H

#include "measure/engine.h"

/* What struct mb_count has no field for: these counters of bins are NULL (bits of enum mb_bin_column), and so is how many
 * packets could not be parsed. */
#define MB_UNCOUNTED                                                                          \
	(1u << MB_BIN_pause_frames | 1u << MB_BIN_resume_frames | 1u << MB_BIN_pause_quanta | \
	 1u << MB_BIN_pause_classes)

/* Read and add the next counts. How many they were, 0 when none came in time, MB_BACKEND_END or a negative errno with
 * ENGINE->failure filled. */
int mb_counted_run(struct mb_engine *engine);

#endif

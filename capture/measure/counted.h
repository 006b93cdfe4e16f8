/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts of a backend that counts by itself go into the same lanes, bins and senders as frames.
 */
#ifndef MB_COUNTED_H
#define MB_COUNTED_H

#include "measure/engine.h"

/* Counters without a field in struct mb_count: these counters of bins are NULL (bits of enum mb_bin_column), and so is
 * the number of packets that could not be parsed. */
#define MB_UNCOUNTED                                                                          \
	(1u << MB_BIN_pause_frames | 1u << MB_BIN_resume_frames | 1u << MB_BIN_pause_quanta | \
	 1u << MB_BIN_pause_classes)

/* Read and add the next counts. Returns their number, 0 if none came in time, MB_BACKEND_END, or a negative errno with
 * ENGINE->failure filled. */
int mb_counted_run(struct mb_engine *engine);

#endif

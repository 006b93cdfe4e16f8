/* SPDX-License-Identifier: Apache-2.0
 *
 * Several captures as one backend, merged by time.
 *
 * Frames come in the order of their stamps, as far as each capture is in that order itself; of equal stamps, the one of
 * the capture that was named first comes first. Interfaces are renumbered:
 *
 * - pcap files are one interface, that of the first file, if link type, FCS and quality agree (the parts of a
 *   rotated capture)
 * - pcapng interfaces are the same if they have the same name and agree in the same way (two interfaces of
 *   one file never are)
 * - any other interface is separate
 */
#ifndef MB_MERGE_H
#define MB_MERGE_H

#include <stddef.h>

#include "backend/backend.h"
#include "error.h"

/* Open COUNT > 0 TARGETS as BACKEND; OPTIONS apply to each (their target is ignored). A single target is opened
 * directly, without a merging backend. Returns 0, or a negative errno. */
int mb_merge_open(struct mb_backend *backend, const char *const *targets, size_t count,
		  const struct mb_backend_options *options, struct mb_error *error);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Several captures as one backend, merged by time.
 *
 * Frames come in the order of their stamps as far as each capture is in that order itself;
 * of equal stamps, the capture named first comes first. Interfaces are numbered anew:
 *
 * - pcap files are one interface, that of the first, when link type, FCS and quality agree
 *   (the parts of a rotated capture)
 * - pcapng interfaces are the same when they have a name, the same one, and agree likewise
 *   (two interfaces of one file never are)
 * - any other is its own
 */
#ifndef MB_MERGE_H
#define MB_MERGE_H

#include <stddef.h>

#include "backend/backend.h"
#include "error.h"

/* Open COUNT > 0 TARGETS as BACKEND; OPTIONS hold for each (its target is not looked at). One
 * target is opened as it is, without anything in between. 0, or a negative errno. */
int mb_merge_open(struct mb_backend *backend, const char *const *targets, size_t count,
		  const struct mb_backend_options *options, struct mb_error *error);

#endif

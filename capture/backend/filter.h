/* SPDX-License-Identifier: Apache-2.0
 *
 * A pcap filter expression (pcap-filter(7)) for frames that do not come from the kernel: libpcap compiles it for each
 * link type, and its interpreter runs it.
 */
#ifndef MB_FILTER_H
#define MB_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "frame.h"

struct mb_filter;

/* Returns NULL if memory is out. */
struct mb_filter *mb_filter_create(const char *expression);
void mb_filter_destroy(struct mb_filter *filter);

/* Compile the filter for the interfaces among the COUNT that are new since the last call. SWAPPED: they come from a
 * file of the other byte order, which matters in loopback headers. Returns 0, or -EINVAL if the expression is invalid,
 * or invalid for one of the link types. */
int mb_filter_prepare(struct mb_filter *filter, const struct mb_interface *interfaces, size_t count, bool swapped,
		      struct mb_error *error);

/* Keep the frames that match, up to the first of an interface for which prepare() failed. Returns the number of frames
 * that did not match. */
uint32_t mb_filter_apply(const struct mb_filter *filter, struct mb_batch *batch);

#endif

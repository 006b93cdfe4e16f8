/* SPDX-License-Identifier: Apache-2.0
 *
 * A pcap filter expression (pcap-filter(7)) on frames that do not come from the kernel:
 * libpcap compiles it for each link type, its interpreter runs it.
 */
#ifndef MB_FILTER_H
#define MB_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "frame.h"

struct mb_filter;

/* NULL without memory. */
struct mb_filter *mb_filter_create(const char *expression);
void mb_filter_destroy(struct mb_filter *filter);

/* Compile for those of the COUNT interfaces that are new since the last call. SWAPPED: they
 * come from a file of the other byte order, which shows in loopback headers. 0, or -EINVAL
 * when the expression is wrong, or wrong for one of the link types. */
int mb_filter_prepare(struct mb_filter *filter, const struct mb_interface *interfaces, size_t count, bool swapped,
		      struct mb_error *error);

/* Keep the frames that match, up to the first of an interface that prepare() failed for.
 * Returns how many frames did not match. */
uint32_t mb_filter_apply(const struct mb_filter *filter, struct mb_batch *batch);

#endif

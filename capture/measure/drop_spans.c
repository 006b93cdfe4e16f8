/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/drop_spans.h"

void mb_lost_add(struct mb_lost *lost, int64_t first_ns, int64_t last_ns)
{
	if (lost->count < MB_LOST_SPANS) {
		lost->spans[lost->count].first_ns = first_ns;
		lost->spans[lost->count++].last_ns = last_ns;
		return;
	}
	if (first_ns < lost->spans[MB_LOST_SPANS - 1].first_ns)
		lost->spans[MB_LOST_SPANS - 1].first_ns = first_ns;
	if (last_ns > lost->spans[MB_LOST_SPANS - 1].last_ns)
		lost->spans[MB_LOST_SPANS - 1].last_ns = last_ns;
}

bool mb_lost_in(const struct mb_lost *lost, int64_t start_ns, int64_t width_ns)
{
	for (uint32_t i = 0; i < lost->count; i++)
		if (lost->spans[i].first_ns - start_ns < width_ns && lost->spans[i].last_ns >= start_ns)
			return true;
	return false;
}

void mb_lost_forget(struct mb_lost *lost, int64_t horizon_ns)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < lost->count; i++)
		if (lost->spans[i].last_ns >= horizon_ns)
			lost->spans[kept++] = lost->spans[i];
	lost->count = kept;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/drop_spans.h"

void mb_drop_spans_add(struct mb_drop_spans *drops, int64_t first_ns, int64_t last_ns)
{
	if (drops->count < MB_DROP_SPANS) {
		drops->spans[drops->count].first_ns = first_ns;
		drops->spans[drops->count++].last_ns = last_ns;
		return;
	}
	if (first_ns < drops->spans[MB_DROP_SPANS - 1].first_ns)
		drops->spans[MB_DROP_SPANS - 1].first_ns = first_ns;
	if (last_ns > drops->spans[MB_DROP_SPANS - 1].last_ns)
		drops->spans[MB_DROP_SPANS - 1].last_ns = last_ns;
}

bool mb_drop_spans_overlap(const struct mb_drop_spans *drops, int64_t start_ns, int64_t width_ns)
{
	for (uint32_t i = 0; i < drops->count; i++)
		if (drops->spans[i].first_ns - start_ns < width_ns && drops->spans[i].last_ns >= start_ns)
			return true;
	return false;
}

void mb_drop_spans_forget(struct mb_drop_spans *drops, int64_t horizon_ns)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < drops->count; i++)
		if (drops->spans[i].last_ns >= horizon_ns)
			drops->spans[kept++] = drops->spans[i];
	drops->count = kept;
}

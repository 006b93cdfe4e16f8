/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/drop_spans.h"

static void extend(struct mb_drop_span *span, const struct mb_drop_span *other)
{
	if (other->first_ns < span->first_ns)
		span->first_ns = other->first_ns;
	if (other->last_ns > span->last_ns)
		span->last_ns = other->last_ns;
	if (other->clock > span->clock)
		span->clock = other->clock;
}

static bool reaches(int64_t last_ns, int64_t first_ns)
{
	return first_ns <= last_ns || (uint64_t)first_ns - (uint64_t)last_ns == 1;
}

static bool touch(const struct mb_drop_span *span, const struct mb_drop_span *other)
{
	return span->clock == other->clock && reaches(span->last_ns, other->first_ns) &&
	       reaches(other->last_ns, span->first_ns);
}

void mb_drop_spans_add(struct mb_drop_spans *drops, int64_t first_ns, int64_t last_ns, uint32_t clock)
{
	struct mb_drop_span added = { first_ns, last_ns, clock };
	uint32_t kept = 0;

	for (uint32_t i = 0; i < drops->count; i++) {
		if (touch(&drops->spans[i], &added))
			extend(&added, &drops->spans[i]);
		else
			drops->spans[kept++] = drops->spans[i];
	}
	drops->count = kept;
	if (drops->count < MB_DROP_SPANS)
		drops->spans[drops->count++] = added;
	else
		extend(&drops->spans[MB_DROP_SPANS - 1], &added);
}

bool mb_drop_spans_overlap(const struct mb_drop_spans *drops, int64_t start_ns, int64_t width_ns)
{
	for (uint32_t i = 0; i < drops->count; i++)
		if (drops->spans[i].first_ns - start_ns < width_ns && drops->spans[i].last_ns >= start_ns)
			return true;
	return false;
}

void mb_drop_spans_forget(struct mb_drop_spans *drops, int64_t horizon_ns, uint32_t clock)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < drops->count; i++)
		if (drops->spans[i].last_ns >= horizon_ns && drops->spans[i].clock >= clock)
			drops->spans[kept++] = drops->spans[i];
	drops->count = kept;
}

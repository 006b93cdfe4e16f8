/* SPDX-License-Identifier: Apache-2.0
 *
 * hash_driver FILE BIN_NS: prints how many slots of its tables the engine inspects for a capture (built with
 * -DMB_COUNT_STEPS), and the numbers of packets and of rows of senders: "packets steps rows flows".
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/merge.h"
#include "hash.h"
#include "measure/engine.h"

uint64_t mb_hash_steps;

static uint64_t rows, packets, flows;

static int take(struct mb_engine *engine)
{
	struct mb_table *bins, *senders;

	if (mb_engine_take(engine, &bins, &senders))
		return 1;
	rows += senders->count;
	for (size_t i = 0; i < senders->count; i++) {
		packets += ((uint32_t *)senders->data[5])[i];
		flows += ((uint32_t *)senders->data[6])[i];
	}
	mb_table_release(bins);
	mb_table_release(senders);
	return 0;
}

static int run(struct mb_engine *engine)
{
	struct mb_error error;
	int more;

	while ((more = mb_engine_run(engine, 1024, &error)) == 1)
		if (take(engine))
			return 1;
	if (more < 0)
		printf("error: %s\n", error.message);
	return more < 0;
}

int main(int count, char **arguments)
{
	const int64_t bin_ns = count == 3 ? atoll(arguments[2]) : 0;
	const struct mb_engine_options options = {
		.bins = { .bin_ns = bin_ns, .source_bin_ns = bin_ns },
		.directions = MB_LANE_IN | MB_LANE_OUT,
		.max_sources = UINT32_MAX,
	};
	const struct mb_backend_options target = { 0 };
	struct mb_backend backend;
	struct mb_error error;
	struct mb_engine *engine;
	int failed;

	if (!bin_ns)
		return 2;
	if (mb_merge_open(&backend, (const char *const *)arguments + 1, 1, &target, &error)) {
		printf("error: %s\n", error.message);
		return 1;
	}
	engine = mb_engine_create(&options, &backend);
	failed = !engine || run(engine);
	printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", packets, mb_hash_steps, rows, flows);
	mb_engine_destroy(engine);
	mb_backend_close(&backend);
	return failed;
}

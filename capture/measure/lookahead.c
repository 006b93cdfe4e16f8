/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/lookahead.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "measure/live.h"

#define LOOKAHEAD_FRAMES 8192         /* for the inference */
#define LOOKAHEAD_BYTES (8u << 20)
#define LOOKAHEAD_SILENCE_NS 1000000000 /* ends the lookahead of a pipe with little data */

void mb_lookahead_drop(struct mb_engine *engine)
{
	free(engine->lookahead);
	free(engine->lookahead_bytes);
	engine->lookahead = NULL;
	engine->lookahead_bytes = NULL;
}

/* Copy BATCH to the lookahead, which has room for it. */
static void keep_batch(struct mb_engine *engine, const struct mb_batch *batch)
{
	for (uint32_t i = 0; i < batch->count; i++) {
		struct mb_frame *kept = &engine->lookahead[engine->n_lookahead++];

		*kept = batch->frames[i];
		kept->data = memcpy(engine->lookahead_bytes + engine->lookahead_used, kept->data, kept->caplen);
		engine->lookahead_used += kept->caplen;
	}
}

static size_t captured_bytes(const struct mb_batch *batch)
{
	size_t bytes = 0;

	for (uint32_t i = 0; i < batch->count; i++)
		bytes += batch->frames[i].caplen;
	return bytes;
}

static bool has_directions(const struct mb_engine *engine)
{
	const struct mb_interface *interfaces;
	size_t n_interfaces;

	if (engine->options.n_locals)
		return true;
	interfaces = mb_backend_interfaces(engine->backend, &n_interfaces);
	for (uint32_t i = 0; i < engine->n_lookahead; i++) {
		static const struct mb_decode_options outermost = { 0 };
		struct mb_packet packet;

		mb_decode(&engine->lookahead[i], 1, &interfaces[engine->lookahead[i].interface], &outermost, &packet);
		if (packet.direction != MB_DIRECTION_UNKNOWN)
			return true;
	}
	return false;
}

static int make_inference(struct mb_engine *engine)
{
	const struct mb_interface *interfaces;
	size_t n_interfaces;
	bool known = has_directions(engine);

	interfaces = mb_backend_interfaces(engine->backend, &n_interfaces);
	if (mb_infer(engine->lookahead, engine->n_lookahead, interfaces, &engine->limits.seed, &engine->inference))
		return -ENOMEM;
	if (engine->options.infer_mtu)
		engine->options.decode.mtu = engine->inference.mtu;
	if (known) {
		engine->inference.note[0] = '\0';
		engine->inference.local.family = MB_FAMILY_NONE;
	} else if (engine->inference.local.family != MB_FAMILY_NONE) {
		mb_locals_init(&engine->locals, &engine->inference.local, 1);
	}
	return 0;
}

static int begin_lookahead(struct mb_engine *engine)
{
	engine->lookahead_room = LOOKAHEAD_BYTES;
	engine->lookahead = calloc(LOOKAHEAD_FRAMES + MB_BATCH_FRAMES, sizeof(*engine->lookahead));
	engine->lookahead_bytes = malloc(engine->lookahead_room);
	return engine->lookahead && engine->lookahead_bytes ? 0 : -ENOMEM;
}

static int grow_lookahead(struct mb_engine *engine, size_t more)
{
	uint8_t *old = engine->lookahead_bytes, *grown;

	if (engine->lookahead_used + more <= engine->lookahead_room)
		return 0;
	grown = malloc(engine->lookahead_room += more);
	if (!grown)
		return -ENOMEM;
	memcpy(grown, old, engine->lookahead_used);
	for (uint32_t i = 0; i < engine->n_lookahead; i++)
		engine->lookahead[i].data = grown + (engine->lookahead[i].data - old);
	engine->lookahead_bytes = grown;
	free(old);
	return 0;
}

/* Read the next of the first frames. Returns 1 if there are more to come; 0 if the lookahead is complete, with the
 * result that ended it stored for later; or -ENOMEM. */
static int extend_lookahead(struct mb_engine *engine)
{
	int64_t begun = mb_clock_ns(CLOCK_MONOTONIC), waited;

	engine->lookahead_end = mb_backend_read(engine->backend, &engine->batch, MB_READ_TIMEOUT_MS, &engine->failure);
	if (engine->lookahead_end < 0)
		return 0;
	waited = mb_clock_ns(CLOCK_MONOTONIC) - begun;
	engine->silent_ns = engine->backend->starved ? engine->silent_ns + waited : 0;
	if (!engine->lookahead_end)
		return engine->silent_ns < LOOKAHEAD_SILENCE_NS;
	if (grow_lookahead(engine, captured_bytes(&engine->batch)))
		return -ENOMEM;
	keep_batch(engine, &engine->batch);
	return engine->n_lookahead < LOOKAHEAD_FRAMES && engine->lookahead_used < LOOKAHEAD_BYTES;
}

int mb_lookahead_read(struct mb_engine *engine, int64_t deadline_ns)
{
	int more = !engine->backend->live;

	if (more && !engine->lookahead && begin_lookahead(engine))
		return -ENOMEM;
	while (more > 0) {
		if (mb_clock_ns(CLOCK_MONOTONIC) >= deadline_ns)
			return 1;
		more = extend_lookahead(engine);
	}
	if (more < 0)
		return more;
	engine->lookahead_done = true;
	return make_inference(engine);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/lookahead.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "measure/live.h"

#define HEAD_FRAMES 8192         /* that the inference sees */
#define HEAD_BYTES (8u << 20)
#define HEAD_SILENCE_NS 1000000000 /* ends the head of a pipe that is fed slowly */

void mb_head_drop(struct mb_engine *engine)
{
	free(engine->head);
	free(engine->head_bytes);
	engine->head = NULL;
	engine->head_bytes = NULL;
}

/* Copy BATCH to the head, which has room for it. */
static void keep_batch(struct mb_engine *engine, const struct mb_batch *batch)
{
	for (uint32_t i = 0; i < batch->count; i++) {
		struct mb_frame *kept = &engine->head[engine->n_head++];

		*kept = batch->frames[i];
		kept->data = memcpy(engine->head_bytes + engine->head_used, kept->data, kept->caplen);
		engine->head_used += kept->caplen;
	}
}

static size_t captured_bytes(const struct mb_batch *batch)
{
	size_t bytes = 0;

	for (uint32_t i = 0; i < batch->count; i++)
		bytes += batch->frames[i].caplen;
	return bytes;
}

static bool told_sides(const struct mb_engine *engine)
{
	const struct mb_interface *interfaces;
	size_t n_interfaces;

	if (engine->options.n_locals)
		return true;
	interfaces = mb_source_interfaces(engine->source, &n_interfaces);
	for (uint32_t i = 0; i < engine->n_head; i++) {
		static const struct mb_decode_options outermost = { 0 };
		struct mb_packet packet;

		mb_decode(&engine->head[i], 1, &interfaces[engine->head[i].interface], &outermost,
			  &packet);
		if (packet.direction != MB_DIRECTION_UNKNOWN)
			return true;
	}
	return false;
}

static int make_inference(struct mb_engine *engine)
{
	const struct mb_interface *interfaces;
	size_t n_interfaces;
	bool told = told_sides(engine);

	interfaces = mb_source_interfaces(engine->source, &n_interfaces);
	if (mb_infer(engine->head, engine->n_head, interfaces, &engine->limits.seed, &engine->inference))
		return -ENOMEM;
	if (engine->options.infer_mtu)
		engine->options.decode.mtu = engine->inference.mtu;
	if (told) {
		engine->inference.note[0] = '\0';
		engine->inference.local.family = MB_FAMILY_NONE;
	} else if (engine->inference.local.family != MB_FAMILY_NONE) {
		mb_sides_init(&engine->sides, &engine->inference.local, 1);
	}
	return 0;
}

static int begin_head(struct mb_engine *engine)
{
	engine->head_room = HEAD_BYTES;
	engine->head = calloc(HEAD_FRAMES + MB_BATCH_FRAMES, sizeof(*engine->head));
	engine->head_bytes = malloc(engine->head_room);
	return engine->head && engine->head_bytes ? 0 : -ENOMEM;
}

static int grow_head(struct mb_engine *engine, size_t more)
{
	uint8_t *old = engine->head_bytes, *grown;

	if (engine->head_used + more <= engine->head_room)
		return 0;
	grown = malloc(engine->head_room += more);
	if (!grown)
		return -ENOMEM;
	memcpy(grown, old, engine->head_used);
	for (uint32_t i = 0; i < engine->n_head; i++)
		engine->head[i].data = grown + (engine->head[i].data - old);
	engine->head_bytes = grown;
	free(old);
	return 0;
}

/* Read the next of the first frames. 1: there are more to come; 0: the head is whole, and what ended it is kept
 * for behind it; or -ENOMEM. */
static int extend_head(struct mb_engine *engine)
{
	int64_t begun = mb_live_now(), waited;

	engine->head_end = mb_source_read(engine->source, &engine->batch, MB_READ_TIMEOUT_MS, &engine->failure);
	if (engine->head_end < 0)
		return 0;
	waited = mb_live_now() - begun;
	engine->silent_ns = engine->source->starved ? engine->silent_ns + waited : 0;
	if (!engine->head_end)
		return engine->silent_ns < HEAD_SILENCE_NS;
	if (grow_head(engine, captured_bytes(&engine->batch)))
		return -ENOMEM;
	keep_batch(engine, &engine->batch);
	return engine->n_head < HEAD_FRAMES && engine->head_used < HEAD_BYTES;
}

int mb_head_read(struct mb_engine *engine, int64_t deadline_ns)
{
	int more = !engine->source->live;

	if (more && !engine->head && begin_head(engine))
		return -ENOMEM;
	while (more > 0) {
		if (mb_live_now() >= deadline_ns)
			return 1;
		more = extend_head(engine);
	}
	if (more < 0)
		return more;
	engine->head_done = true;
	return make_inference(engine);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "keep/keeper.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "format/pcapng_write.h"

#define CHUNKS 32
#define CHUNK_BYTES (512u << 10)
#define HAND_OVER_NS 200000000        /* the age at which a chunk is handed over, full or not … */
#define HAND_OVER_EMPTY_NS 1000000000 /* … and an empty one, which reports that nothing came */
#define COMMENT_LENGTH 128
#define STATISTICS_ROOM (MB_PCAPNG_STATISTICS_ROOM + 4 + COMMENT_LENGTH)

/* Packets, and the span of their stamps. */
struct stretch {
	uint64_t packets;
	int64_t first_ns, last_ns;
};

struct chunk {
	uint8_t *bytes; /* blocks, followed by room for statistics */
	size_t length;
	struct stretch kept, missed; /* packets in the chunk; and packets before it, for which there was no chunk */
	int64_t until_ns;
};

struct mb_keeper {
	/* Owned by the engine. */
	struct chunk *filling; /* NULL when there was none */
	struct stretch missed;
	int64_t begun_ns; /* CLOCK_MONOTONIC at the start of the chunk */
	int64_t until_ns;
	/* Owned by the thread. */
	struct mb_packet_files files;
	struct stretch owed; /* losses that no file has recorded yet */
	uint64_t file_packets, file_lost;
	/* Shared by both threads, protected by the lock: number of chunks since the start, handed over by the engine,
	 * returned by the thread. */
	pthread_mutex_t lock;
	pthread_cond_t filled_changed;
	uint64_t filled, freed;
	bool ended;
	struct mb_kept state;
	bool is_started;
	pthread_t thread;
	struct chunk chunks[CHUNKS];
};

static void stretch_add(struct stretch *stretch, const struct stretch *more)
{
	if (!more->packets)
		return;
	if (!stretch->packets || more->first_ns < stretch->first_ns)
		stretch->first_ns = more->first_ns;
	if (!stretch->packets || more->last_ns > stretch->last_ns)
		stretch->last_ns = more->last_ns;
	stretch->packets += more->packets;
}

static inline void stretch_count(struct stretch *stretch, int64_t ts_ns)
{
	stretch_add(stretch, &(struct stretch){ 1, ts_ns, ts_ns });
}

/* --- the thread: from chunks to files --- */

static struct chunk *next_chunk(struct mb_keeper *keeper)
{
	struct chunk *chunk = NULL;

	pthread_mutex_lock(&keeper->lock);
	while (keeper->filled == keeper->freed && !keeper->ended)
		pthread_cond_wait(&keeper->filled_changed, &keeper->lock);
	if (keeper->filled != keeper->freed)
		chunk = &keeper->chunks[keeper->freed % CHUNKS];
	pthread_mutex_unlock(&keeper->lock);
	return chunk;
}

/* Append the statistics of the file to the packets of CHUNK. */
static void end_chunk(struct mb_keeper *keeper, struct chunk *chunk)
{
	const struct stretch *owed = &keeper->owed;
	char text[COMMENT_LENGTH];
	struct mb_text comment = { text, 0 };
	uint64_t lost = keeper->file_lost + owed->packets;
	uint8_t *end;

	if (owed->packets)
		comment.length = (size_t)snprintf(text, sizeof(text),
						  "not kept: %" PRIu64 " packets from %" PRId64 " to %" PRId64,
						  owed->packets, owed->first_ns, owed->last_ns);
	end = mb_pcapng_put_statistics(chunk->bytes + chunk->length, chunk->until_ns,
				       keeper->file_packets + chunk->kept.packets + lost, lost, &comment,
				       owed->packets > 0);
	chunk->length = (size_t)(end - chunk->bytes);
}

/* Returns 0, or a negative errno with ERROR filled. */
static int write_chunk(struct mb_keeper *keeper, struct chunk *chunk, struct mb_error *error)
{
	bool is_new;
	int code =
		mb_packet_files_prepare(&keeper->files, chunk->length + STATISTICS_ROOM,
					chunk->kept.packets ? chunk->kept.first_ns : chunk->until_ns, &is_new, error);

	if (code)
		return code;
	if (is_new)
		keeper->file_packets = keeper->file_lost = 0;
	end_chunk(keeper, chunk);
	code = mb_packet_files_write(&keeper->files, chunk->bytes, chunk->length, error);
	if (code)
		return code;
	keeper->file_packets += chunk->kept.packets;
	keeper->file_lost += keeper->owed.packets;
	keeper->owed = (struct stretch){ 0 };
	return 0;
}

static void take_chunk(struct mb_keeper *keeper, struct chunk *chunk)
{
	struct mb_error error = { 0 };
	uint64_t lost = chunk->missed.packets;
	int code;

	stretch_add(&keeper->owed, &chunk->missed);
	code = write_chunk(keeper, chunk, &error);
	if (code) {
		stretch_add(&keeper->owed, &chunk->kept);
		lost += chunk->kept.packets;
	}
	pthread_mutex_lock(&keeper->lock);
	keeper->state.packets += code ? 0 : chunk->kept.packets;
	keeper->state.bytes += code ? 0 : chunk->length;
	keeper->state.lost += lost;
	memcpy(keeper->state.trouble, error.message, sizeof(keeper->state.trouble));
	keeper->freed++;
	pthread_mutex_unlock(&keeper->lock);
}

static void *keeper_main(void *argument)
{
	struct mb_keeper *keeper = argument;
	struct chunk *chunk;

	while ((chunk = next_chunk(keeper)))
		take_chunk(keeper, chunk);
	return NULL;
}

/* --- the engine's thread: from frames to chunks --- */

/* Make sure that there is a chunk to fill, unless all are full. */
static bool has_chunk(struct mb_keeper *keeper)
{
	uint64_t filled, freed;

	if (keeper->filling)
		return true;
	pthread_mutex_lock(&keeper->lock);
	filled = keeper->filled;
	freed = keeper->freed;
	pthread_mutex_unlock(&keeper->lock);
	if (filled - freed == CHUNKS)
		return false;
	keeper->filling = &keeper->chunks[filled % CHUNKS];
	keeper->filling->length = 0;
	keeper->filling->kept = (struct stretch){ 0 };
	keeper->filling->missed = keeper->missed;
	keeper->missed = (struct stretch){ 0 };
	keeper->begun_ns = mb_clock_ns(CLOCK_MONOTONIC);
	return true;
}

static void hand_over(struct mb_keeper *keeper)
{
	keeper->filling->until_ns = keeper->until_ns;
	keeper->filling = NULL;
	pthread_mutex_lock(&keeper->lock);
	keeper->filled++;
	pthread_cond_signal(&keeper->filled_changed);
	pthread_mutex_unlock(&keeper->lock);
}

void mb_keeper_add(struct mb_keeper *keeper, const struct mb_frame *frames, uint32_t count)
{
	bool has = has_chunk(keeper);

	for (uint32_t i = 0; i < count; i++) {
		const struct mb_frame *frame = &frames[i];
		const size_t room = mb_pcapng_packet_room(frame->caplen);
		struct chunk *chunk = keeper->filling;

		if (has && chunk->length + room > CHUNK_BYTES) {
			hand_over(keeper);
			has = has_chunk(keeper);
			chunk = keeper->filling;
		}
		if (!has || room > CHUNK_BYTES) {
			stretch_count(&keeper->missed, frame->ts_ns);
			continue;
		}
		chunk->length =
			(size_t)(mb_pcapng_put_packet(chunk->bytes + chunk->length, frame, NULL, 0) - chunk->bytes);
		stretch_count(&chunk->kept, frame->ts_ns);
	}
}

void mb_keeper_pass(struct mb_keeper *keeper, int64_t until_ns)
{
	keeper->until_ns = until_ns;
	if (!until_ns || !has_chunk(keeper))
		return;
	if (mb_clock_ns(CLOCK_MONOTONIC) - keeper->begun_ns >=
	    (keeper->filling->length ? HAND_OVER_NS : HAND_OVER_EMPTY_NS))
		hand_over(keeper);
}

void mb_keeper_state(struct mb_keeper *keeper, struct mb_kept *kept)
{
	pthread_mutex_lock(&keeper->lock);
	*kept = keeper->state;
	pthread_mutex_unlock(&keeper->lock);
}

/* --- life --- */

static int start(struct mb_keeper *keeper)
{
	sigset_t all, before;
	int code;

	for (uint32_t i = 0; i < CHUNKS; i++) {
		keeper->chunks[i].bytes = malloc(CHUNK_BYTES + STATISTICS_ROOM);
		if (!keeper->chunks[i].bytes)
			return ENOMEM;
	}
	sigfillset(&all); /* signals are the reader's */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	code = pthread_create(&keeper->thread, NULL, keeper_main, keeper);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	keeper->is_started = !code;
	return code;
}

struct mb_keeper *mb_keeper_open(const struct mb_packet_files_options *options, const struct mb_interface *interface,
				 struct mb_error *error)
{
	struct mb_keeper *keeper = calloc(1, sizeof(*keeper));
	int code;

	if (!keeper) {
		mb_fail(error, ENOMEM, "out of memory");
		return NULL;
	}
	pthread_mutex_init(&keeper->lock, NULL);
	pthread_cond_init(&keeper->filled_changed, NULL);
	code = mb_packet_files_open(&keeper->files, options, interface, error);
	if (!code && (code = start(keeper)))
		mb_fail_errno(error, code, "the thread that keeps packets");
	if (!code)
		return keeper;
	mb_keeper_close(keeper);
	return NULL;
}

void mb_keeper_finish(struct mb_keeper *keeper)
{
	if (!keeper->is_started)
		return;
	pthread_mutex_lock(&keeper->lock);
	keeper->ended = true;
	pthread_cond_signal(&keeper->filled_changed);
	pthread_mutex_unlock(&keeper->lock);
	pthread_join(keeper->thread, NULL);
	keeper->is_started = false;
	/* All chunks are free, except the one that is being filled; the account of missed packets goes with it. */
	if ((keeper->filling || keeper->missed.packets || keeper->until_ns) && has_chunk(keeper)) {
		hand_over(keeper);
		take_chunk(keeper, next_chunk(keeper));
	}
}

void mb_keeper_close(struct mb_keeper *keeper)
{
	if (!keeper)
		return;
	mb_keeper_finish(keeper);
	for (uint32_t i = 0; i < CHUNKS; i++)
		free(keeper->chunks[i].bytes);
	mb_packet_files_close(&keeper->files);
	pthread_cond_destroy(&keeper->filled_changed);
	pthread_mutex_destroy(&keeper->lock);
	free(keeper);
}

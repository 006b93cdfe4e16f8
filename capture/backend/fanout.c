/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/fanout.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/if_packet.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backend/frame_copies.h"

#define CHUNKS 16                 /* chunks by which a thread may be ahead of the reader */
#define CHUNK_BYTES (72u << 10)   /* captured bytes in a chunk, unless a single frame has more */
#define LOOK_NS 1000000           /* how often to check whether an awaited thread has run */
#define POLL_MS 100               /* how soon a thread notices that it must end */

#ifndef PACKET_FANOUT_FLAG_IGNORE_OUTGOING
#define PACKET_FANOUT_FLAG_IGNORE_OUTGOING 0x4000
#endif

struct chunk {
	uint32_t count;
	int64_t seen_ns; /* CLOCK_MONOTONIC when it was handed over */
	struct mb_frame frames[MB_BATCH_FRAMES];
	struct mb_frame_copies copies;
};

/* A ring, its thread, and the queue from the thread to the reader. */
struct drain {
	struct mb_fanout *fanout;
	struct mb_ring *ring;
	pthread_t thread;
	struct chunk chunks[CHUNKS];
	/* Chunks since the start: handed over by the thread, returned by the reader. Protected by the lock. */
	uint64_t filled, freed;
	bool ended;
	bool idle;    /* the thread has read the ring to its end and sleeps */
	bool settled; /* owned by the thread: the ring holds nothing back, and nothing more comes */
	/* Owned by the reader: chunks that it knows of, the chunk it is in, and the position in it. */
	uint64_t known, reading;
	uint32_t position;
	bool known_ended;
	int64_t empty_ns; /* CLOCK_MONOTONIC, when the ring was last known to be empty */
};

struct mb_fanout {
	pthread_mutex_t lock;
	pthread_cond_t filled, freed;
	bool stopping, finishing;
	int failure;       /* errno of the first ring that failed, or 0; protected by the lock … */
	int known_failure; /* … and as the reader knows it */
	struct mb_drop_queue drops;
	uint32_t started, count;
	struct drain drains[];
};

static int join(int fd, struct fanout_args *group)
{
	return setsockopt(fd, SOL_PACKET, PACKET_FANOUT, group, sizeof(*group)) ? -errno : 0;
}

/* The first member has the kernel choose an unused id. Kernels before 6.0 cannot make a group ignore frames that leave:
 * then the filters of the rings exclude them. */
static int found_group(int fd, struct fanout_args *group, enum mb_direction direction)
{
	uint16_t flags = group->type_flags;
	socklen_t length = sizeof(int);
	int status, value;

	group->type_flags = flags | PACKET_FANOUT_FLAG_UNIQUEID |
			    (direction == MB_DIRECTION_IN ? PACKET_FANOUT_FLAG_IGNORE_OUTGOING : 0);
	status = join(fd, group);
	if (status == -EINVAL) {
		group->type_flags = flags | PACKET_FANOUT_FLAG_UNIQUEID;
		status = join(fd, group);
	}
	if (!status && getsockopt(fd, SOL_PACKET, PACKET_FANOUT, &value, &length))
		status = -errno;
	if (!status) {
		group->id = (uint16_t)value;
		group->type_flags &= (uint16_t)~PACKET_FANOUT_FLAG_UNIQUEID;
	}
	return status;
}

/* If the interface does not have a queue for each ring, the rings take turns: the reader merges them by time anyway,
 * and hashing flows that the interface has not hashed costs 0.2 µs a frame. */
int mb_fanout_join(struct mb_ring *rings, uint32_t count, const struct mb_device *device, enum mb_direction direction,
		   struct mb_error *error)
{
	struct fanout_args group = {
		.type_flags = (device->rx_queues >= count ? PACKET_FANOUT_CPU : PACKET_FANOUT_LB) |
			      PACKET_FANOUT_FLAG_ROLLOVER,
	};
	int status = found_group(rings[0].fd, &group, direction);

	for (uint32_t i = 1; !status && i < count; i++)
		status = join(rings[i].fd, &group);
	return status ? mb_fail_errno(error, -status, "%s: PACKET_FANOUT", device->name) : 0;
}

/* Copy the content of the ring to CHUNK, so that the kernel gets its blocks back at once. */
static uint32_t fill(struct drain *drain, struct chunk *chunk, struct mb_loss *loss)
{
	uint32_t count = mb_ring_read(drain->ring, chunk->frames, chunk->copies.count, loss);

	for (uint32_t i = 0; i < count; i++)
		mb_frame_copies_keep(&chunk->copies, i, &chunk->frames[i]);
	return count;
}

static struct chunk *free_chunk(struct drain *drain)
{
	struct mb_fanout *fanout = drain->fanout;
	bool stopping;

	pthread_mutex_lock(&fanout->lock);
	while (!fanout->stopping && drain->filled - drain->freed == CHUNKS)
		pthread_cond_wait(&fanout->freed, &fanout->lock);
	stopping = fanout->stopping;
	pthread_mutex_unlock(&fanout->lock);
	return stopping ? NULL : &drain->chunks[drain->filled % CHUNKS];
}

static void hand_over(struct drain *drain, struct chunk *chunk, uint32_t count, const struct mb_loss *loss)
{
	struct mb_fanout *fanout = drain->fanout;

	chunk->count = count;
	chunk->seen_ns = mb_clock_ns(CLOCK_MONOTONIC);
	pthread_mutex_lock(&fanout->lock);
	if (loss->packets)
		mb_drop_queue_add(&fanout->drops, loss);
	if (count)
		drain->filled++;
	pthread_cond_signal(&fanout->filled);
	pthread_mutex_unlock(&fanout->lock);
}

/* Returns whether the rings must be read to their end. */
static bool set_idle(struct drain *drain, bool idle)
{
	bool finishing;

	pthread_mutex_lock(&drain->fanout->lock);
	drain->idle = idle;
	finishing = drain->fanout->finishing;
	pthread_mutex_unlock(&drain->fanout->lock);
	return finishing;
}

/* The capture of this ring broke off. The reader lets no more frames in, and the threads read all rings to their end. */
static void report_failure(struct drain *drain)
{
	struct mb_fanout *fanout = drain->fanout;

	pthread_mutex_lock(&fanout->lock);
	if (!fanout->failure)
		fanout->failure = drain->ring->failure;
	pthread_cond_signal(&fanout->filled);
	pthread_mutex_unlock(&fanout->lock);
	poll(NULL, 0, MB_RING_SETTLE_MS);
}

/* Returns false if nothing more will come. */
static bool wait_for_frames(struct drain *drain)
{
	bool more = true;

	if (!set_idle(drain, true)) {
		if (!mb_ring_wait(drain->ring, POLL_MS))
			report_failure(drain);
	} else if (drain->settled) {
		more = false;
	} else {
		poll(NULL, 0, MB_RING_SETTLE_MS);
		drain->settled = true;
	}
	set_idle(drain, false);
	return more;
}

/* Drop the capabilities of this thread, which only reads rings that are open: the thread that started it drops its own
 * later, and cannot drop those of others. CAP_SETUID and CAP_SETGID stay: a change of user is carried out in each
 * thread, or glibc aborts. */
static void shed_capabilities(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];

	if (syscall(SYS_capget, &header, sets))
		return;
	sets[0].permitted &= 1u << CAP_SETUID | 1u << CAP_SETGID;
	sets[0].effective &= sets[0].permitted;
	sets[1].permitted = sets[1].effective = sets[0].inheritable = sets[1].inheritable = 0;
	syscall(SYS_capset, &header, sets);
}

static void *drain_main(void *argument)
{
	struct drain *drain = argument;
	struct chunk *chunk;

	shed_capabilities();
	while ((chunk = free_chunk(drain))) {
		struct mb_loss loss;
		uint32_t count = fill(drain, chunk, &loss);

		if (count || loss.packets)
			hand_over(drain, chunk, count, &loss);
		else if (!wait_for_frames(drain))
			break;
	}
	pthread_mutex_lock(&drain->fanout->lock);
	drain->ended = true;
	pthread_cond_signal(&drain->fanout->filled);
	pthread_mutex_unlock(&drain->fanout->lock);
	return NULL;
}

/* Bind thread INDEX to one of the CPUs that the process may use. */
static void pin(pthread_t thread, uint32_t index)
{
	cpu_set_t allowed, chosen;
	uint32_t skip;

	CPU_ZERO(&chosen);
	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		return;
	skip = index % (uint32_t)CPU_COUNT(&allowed);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &allowed) || skip--)
			continue;
		CPU_SET(cpu, &chosen);
		break;
	}
	pthread_setaffinity_np(thread, sizeof(chosen), &chosen);
}

static int start_thread(struct mb_fanout *fanout, uint32_t index, uint32_t snaplen)
{
	struct drain *drain = &fanout->drains[index];
	sigset_t all, before;
	int code;

	for (uint32_t i = 0; i < CHUNKS; i++) {
		if (!mb_frame_copies_init(&drain->chunks[i].copies, snaplen, CHUNK_BYTES))
			return ENOMEM;
	}
	sigfillset(&all); /* signals are the reader's */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	code = pthread_create(&drain->thread, NULL, drain_main, drain);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!code) {
		fanout->started++;
		pin(drain->thread, index);
	}
	return code;
}

static void init_locks(struct mb_fanout *fanout)
{
	pthread_condattr_t attributes;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_mutex_init(&fanout->lock, NULL);
	pthread_cond_init(&fanout->filled, &attributes);
	pthread_cond_init(&fanout->freed, &attributes);
	pthread_condattr_destroy(&attributes);
}

int mb_fanout_start(struct mb_fanout **result, struct mb_ring *rings, uint32_t count, uint32_t snaplen,
		    struct mb_error *error)
{
	struct mb_fanout *fanout = calloc(1, sizeof(*fanout) + count * sizeof(fanout->drains[0]));
	int code = 0;

	if (!fanout)
		return mb_fail_errno(error, ENOMEM, "capture threads");
	fanout->count = count;
	init_locks(fanout);
	for (uint32_t i = 0; !code && i < count; i++) {
		fanout->drains[i].fanout = fanout;
		fanout->drains[i].ring = &rings[i];
		code = start_thread(fanout, i, snaplen);
	}
	if (code) {
		mb_fanout_stop(fanout);
		return mb_fail_errno(error, code, "capture threads");
	}
	*result = fanout;
	return 0;
}

void mb_fanout_stop(struct mb_fanout *fanout)
{
	if (!fanout)
		return;
	pthread_mutex_lock(&fanout->lock);
	fanout->stopping = true;
	pthread_cond_broadcast(&fanout->freed);
	pthread_mutex_unlock(&fanout->lock);
	for (uint32_t i = 0; i < fanout->started; i++)
		pthread_join(fanout->drains[i].thread, NULL);
	for (uint32_t i = 0; i < fanout->count; i++) {
		for (uint32_t j = 0; j < CHUNKS; j++)
			mb_frame_copies_deinit(&fanout->drains[i].chunks[j].copies);
	}
	pthread_cond_destroy(&fanout->filled);
	pthread_cond_destroy(&fanout->freed);
	pthread_mutex_destroy(&fanout->lock);
	free(fanout);
}

void mb_fanout_finish(struct mb_fanout *fanout)
{
	pthread_mutex_lock(&fanout->lock);
	fanout->finishing = true;
	pthread_mutex_unlock(&fanout->lock);
}

bool mb_fanout_has_failed(const struct mb_fanout *fanout)
{
	return fanout->known_failure;
}

static struct chunk *current_chunk(struct drain *drain)
{
	return drain->reading < drain->known ? &drain->chunks[drain->reading % CHUNKS] : NULL;
}

static const struct mb_frame *head(struct drain *drain)
{
	struct chunk *chunk = current_chunk(drain);

	return chunk ? &chunk->frames[drain->position] : NULL;
}

static void advance(struct drain *drain)
{
	if (++drain->position < current_chunk(drain)->count)
		return;
	drain->position = 0;
	drain->reading++;
}

/* The ring whose next frame is the earliest. LIMIT: the earliest of the others; EMPTY_NS: the time until which all
 * rings without a frame were known to be empty. */
static struct drain *earliest(struct mb_fanout *fanout, int64_t *limit, int64_t *empty_ns)
{
	struct drain *first = NULL;

	*limit = *empty_ns = INT64_MAX;
	for (uint32_t i = 0; i < fanout->count; i++) {
		struct drain *drain = &fanout->drains[i];
		const struct mb_frame *frame = head(drain);

		if (!frame) {
			if (!drain->known_ended && drain->empty_ns < *empty_ns)
				*empty_ns = drain->empty_ns;
		} else if (!first || frame->ts_ns < head(first)->ts_ns) {
			if (first)
				*limit = head(first)->ts_ns;
			first = drain;
		} else if (frame->ts_ns < *limit) {
			*limit = frame->ts_ns;
		}
	}
	return first;
}

static uint32_t merge(struct mb_fanout *fanout, struct mb_batch *batch)
{
	const int64_t now = mb_clock_ns(CLOCK_MONOTONIC);
	struct drain *drain;
	int64_t limit, empty_ns;

	batch->count = 0;
	while (batch->count < MB_BATCH_FRAMES && (drain = earliest(fanout, &limit, &empty_ns))) {
		const struct mb_frame *frame = head(drain);
		const int64_t seen_ns = current_chunk(drain)->seen_ns;

		if (empty_ns - seen_ns < MB_FANOUT_BLOCK_TIMEOUT_NS && now - seen_ns < MB_FANOUT_STALL_TIMEOUT_NS)
			break;
		for (uint64_t chunk = drain->reading;
		     batch->count < MB_BATCH_FRAMES && frame && drain->reading == chunk && frame->ts_ns <= limit;
		     frame = head(drain)) {
			batch->frames[batch->count++] = *frame;
			advance(drain);
		}
	}
	return batch->count;
}

/* Return chunks that are read; take note of new ones and of drops. */
static void exchange(struct mb_fanout *fanout, struct mb_drop_queue *drops)
{
	const int64_t now = mb_clock_ns(CLOCK_MONOTONIC);
	struct mb_loss loss;

	for (uint32_t i = 0; i < fanout->count; i++) {
		struct drain *drain = &fanout->drains[i];

		drain->freed = drain->reading;
		drain->known = drain->filled;
		drain->known_ended = drain->ended;
		if (drain->idle && mb_ring_is_empty(drain->ring))
			drain->empty_ns = now;
	}
	while (mb_drop_queue_take(&fanout->drops, &loss))
		mb_drop_queue_add(drops, &loss);
	fanout->known_failure = fanout->failure;
	pthread_cond_broadcast(&fanout->freed);
}

/* What read() returns if there are no frames now. */
static int outcome(const struct mb_fanout *fanout)
{
	for (uint32_t i = 0; i < fanout->count; i++) {
		if (!fanout->drains[i].known_ended || fanout->drains[i].reading < fanout->drains[i].known)
			return 0;
	}
	return fanout->known_failure ? -fanout->known_failure : MB_BACKEND_END;
}

/* Sleep until a thread has something new, a frame has waited long enough, or DEADLINE. */
static void wait_for_more(struct mb_fanout *fanout, int64_t deadline)
{
	const int64_t soon = mb_clock_ns(CLOCK_MONOTONIC) + LOOK_NS;
	int64_t wake = deadline;
	struct timespec until;
	bool news;

	pthread_mutex_lock(&fanout->lock);
	news = fanout->drops.count || fanout->failure != fanout->known_failure;
	for (uint32_t i = 0; i < fanout->count; i++) {
		struct drain *drain = &fanout->drains[i];
		const struct chunk *chunk = current_chunk(drain);

		news |= drain->filled != drain->known || drain->ended != drain->known_ended;
		if (chunk && chunk->seen_ns + MB_FANOUT_BLOCK_TIMEOUT_NS < wake)
			wake = chunk->seen_ns + MB_FANOUT_BLOCK_TIMEOUT_NS;
	}
	if (wake < soon)
		wake = soon;
	until = (struct timespec){ .tv_sec = wake / 1000000000, .tv_nsec = wake % 1000000000 };
	if (!news)
		pthread_cond_timedwait(&fanout->filled, &fanout->lock, &until);
	pthread_mutex_unlock(&fanout->lock);
}

int mb_fanout_read(struct mb_fanout *fanout, struct mb_batch *batch, int timeout_ms, struct mb_drop_queue *drops)
{
	const int64_t deadline = mb_clock_ns(CLOCK_MONOTONIC) + timeout_ms * 1000000ll;
	int status;

	for (;;) {
		pthread_mutex_lock(&fanout->lock);
		exchange(fanout, drops);
		pthread_mutex_unlock(&fanout->lock);
		if (merge(fanout, batch))
			return (int)batch->count;
		status = outcome(fanout);
		if (status || mb_clock_ns(CLOCK_MONOTONIC) >= deadline)
			return status;
		wait_for_more(fanout, deadline);
	}
}

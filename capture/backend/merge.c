/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/merge.h"
#include "clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/file.h"
#include "format/interfaces.h"

/* How long to wait for one backend before `stop` is checked. */
#define SLICE_MS 50

/* One of the captures, and the position in its latest batch. */
struct branch {
	struct mb_backend backend;
	struct mb_batch batch;
	uint32_t next;
	bool ended;
	uint16_t *numbers; /* numbers of its interfaces in the merged list */
	size_t numbered;
	struct mb_interface_index tally; /* counts their names */
};

struct merge {
	struct branch *branches;
	size_t count;
	size_t *heap; /* branches that have a frame, the earliest first */
	size_t heap_size;
	size_t starved; /* branch whose batch is used up, or `count` */
	size_t primed; /* branches that have been read from */
	struct mb_interfaces interfaces;
	uint64_t frames, bytes;
	int failure;
	struct mb_error failure_error;
	char notice[4 * MB_ERROR_LENGTH];
};

/* --- interfaces --- */

static bool is_anonymous(const struct branch *branch)
{
	return branch->backend.ops == &mb_backend_file && !mb_backend_file_has_interfaces(&branch->backend);
}

/* A pcap capture is a single interface: rotated files are the same interface, whatever their names. */
static int number_interface(struct merge *merge, struct branch *branch, const struct mb_interface *interface)
{
	const char *name = is_anonymous(branch) ? "" : interface->name[0] ? interface->name : NULL;

	return mb_interfaces_number(&merge->interfaces, &branch->tally, name, interface);
}

/* Number the interfaces that are new in the branch since the last call. */
static int number_interfaces(struct merge *merge, struct branch *branch, struct mb_error *error)
{
	const struct mb_interface *list;
	size_t count;

	list = branch->backend.ops->interfaces(&branch->backend, &count);
	if (count > branch->numbered) {
		void *numbers = realloc(branch->numbers, count * sizeof(*branch->numbers));

		if (!numbers)
			return mb_fail(error, ENOMEM, "merge: out of memory");
		branch->numbers = numbers;
	}
	while (branch->numbered < count) {
		int number = number_interface(merge, branch, &list[branch->numbered]);

		if (number == -E2BIG)
			return mb_fail(error, E2BIG, "merge: more than 65,536 interfaces");
		if (number < 0)
			return mb_fail(error, -number, "merge: out of memory");
		branch->numbers[branch->numbered++] = (uint16_t)number;
	}
	return 0;
}

/* --- order --- */

static bool is_before(const struct merge *merge, size_t a, size_t b)
{
	const struct branch *x = &merge->branches[a], *y = &merge->branches[b];
	int64_t x_ns = x->batch.frames[x->next].ts_ns, y_ns = y->batch.frames[y->next].ts_ns;

	return x_ns < y_ns || (x_ns == y_ns && a < b);
}

static void heap_swap(struct merge *merge, size_t i, size_t j)
{
	size_t branch = merge->heap[i];

	merge->heap[i] = merge->heap[j];
	merge->heap[j] = branch;
}

static void heap_push(struct merge *merge, size_t branch)
{
	size_t i = merge->heap_size++;

	merge->heap[i] = branch;
	for (; i && is_before(merge, merge->heap[i], merge->heap[(i - 1) / 2]); i = (i - 1) / 2)
		heap_swap(merge, i, (i - 1) / 2);
}

/* Restore the order after the top has changed. */
static void heap_sink(struct merge *merge)
{
	size_t i = 0;

	for (;;) {
		size_t least = i;

		for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < merge->heap_size; child++)
			if (is_before(merge, merge->heap[child], merge->heap[least]))
				least = child;
		if (least == i)
			return;
		heap_swap(merge, i, least);
		i = least;
	}
}

static void heap_pop(struct merge *merge)
{
	merge->heap[0] = merge->heap[--merge->heap_size];
	heap_sink(merge);
}

/* --- reading --- */

/* Read the branch's next batch and insert the branch in the order. Returns 1 if that is done (or the branch has ended),
 * 0 if nothing came in time, else the result of read(). */
static int feed(struct mb_backend *backend, size_t index, int timeout_ms, struct mb_error *error)
{
	struct merge *merge = backend->state;
	struct branch *branch = &merge->branches[index];
	int64_t deadline_ms = timeout_ms < 0 ? INT64_MAX : mb_monotonic_ms() + timeout_ms;
	int count;

	do {
		int64_t left = deadline_ms == INT64_MAX ? SLICE_MS : deadline_ms - mb_monotonic_ms();

		left = left < 0 ? 0 : left > SLICE_MS ? SLICE_MS : left;
		count = mb_backend_read(&branch->backend, &branch->batch, (int)left, error);
		backend->starved = branch->backend.starved;
		if (backend->stop)
			return MB_BACKEND_END;
		if (!count && deadline_ms != INT64_MAX && mb_monotonic_ms() >= deadline_ms)
			return 0;
	} while (!count);
	if (count < 0 && count != MB_BACKEND_END)
		return count;
	branch->next = 0;
	branch->ended = count == MB_BACKEND_END;
	if (branch->ended)
		return 1;
	count = number_interfaces(merge, branch, error);
	if (count < 0)
		return count;
	heap_push(merge, index);
	return 1;
}

/* Make sure that every branch that has not ended has a frame. */
static int feed_all(struct mb_backend *backend, int timeout_ms, struct mb_error *error)
{
	struct merge *merge = backend->state;
	int result = 1;

	if (merge->starved < merge->count)
		result = feed(backend, merge->starved, timeout_ms, error);
	if (result != 1)
		return result;
	merge->starved = merge->count;
	for (; merge->primed < merge->count; merge->primed++) {
		result = feed(backend, merge->primed, timeout_ms, error);
		if (result != 1)
			return result;
	}
	return 1;
}

/* The branch that follows the earliest one, or NULL. */
static const struct branch *second(const struct merge *merge, bool *wins_ties)
{
	size_t index;

	if (merge->heap_size < 2)
		return NULL;
	index = merge->heap[1];
	if (merge->heap_size > 2 && is_before(merge, merge->heap[2], index))
		index = merge->heap[2];
	*wins_ties = index < merge->heap[0];
	return &merge->branches[index];
}

/* Move frames of the earliest branch to BATCH until another branch is earlier. */
static void take_run(struct merge *merge, struct mb_batch *batch)
{
	struct branch *branch = &merge->branches[merge->heap[0]];
	bool other_wins_ties = false;
	const struct branch *other = second(merge, &other_wins_ties);
	int64_t until_ns = other ? other->batch.frames[other->next].ts_ns : INT64_MAX;

	while (branch->next < branch->batch.count && batch->count < MB_BATCH_FRAMES) {
		const struct mb_frame *frame = &branch->batch.frames[branch->next];

		if (frame->ts_ns > until_ns || (frame->ts_ns == until_ns && other_wins_ties))
			break;
		batch->frames[batch->count] = *frame;
		batch->frames[batch->count++].interface = branch->numbers[frame->interface];
		merge->bytes += frame->len;
		branch->next++;
	}
}

static bool keeps_frames(const struct branch *branch)
{
	return branch->backend.ops == &mb_backend_file && mb_backend_file_is_mapped(&branch->backend);
}

static int fill_batch(struct mb_backend *backend, struct mb_batch *batch, int timeout_ms, struct mb_error *error)
{
	struct merge *merge = backend->state;

	while (batch->count < MB_BATCH_FRAMES) {
		int result = feed_all(backend, timeout_ms, error);
		struct branch *branch;

		if (result != 1)
			return result;
		if (!merge->heap_size)
			return MB_BACKEND_END;
		take_run(merge, batch);
		branch = &merge->branches[merge->heap[0]];
		if (branch->next < branch->batch.count) {
			heap_sink(merge);
			continue;
		}
		merge->starved = merge->heap[0];
		heap_pop(merge);
		/* Reading on would invalidate frames that are in the batch. */
		if (!keeps_frames(branch))
			break;
	}
	return 1;
}

static int merge_read(struct mb_backend *backend, struct mb_batch *batch, int timeout_ms, struct mb_error *error)
{
	struct merge *merge = backend->state;
	int result;

	batch->count = 0;
	if (merge->failure < 0)
		return mb_fail(error, -merge->failure, "%s", merge->failure_error.message);
	result = fill_batch(backend, batch, timeout_ms, &merge->failure_error);
	if (result < 0 && result != MB_BACKEND_END)
		merge->failure = result;
	merge->frames += batch->count;
	if (batch->count)
		return (int)batch->count;
	return result < 0 && result != MB_BACKEND_END ? mb_fail(error, -result, "%s", merge->failure_error.message) :
							result;
}

static const struct mb_interface *merge_interfaces(const struct mb_backend *backend, size_t *count)
{
	const struct merge *merge = backend->state;

	*count = merge->interfaces.count;
	return merge->interfaces.list;
}

/* If the time of a branch's drops is unknown, the time of all drops is unknown. */
static void merge_stats(const struct mb_backend *backend, struct mb_backend_stats *stats)
{
	const struct merge *merge = backend->state;
	bool adrift = false;

	*stats = (struct mb_backend_stats){ .frames = merge->frames, .bytes = merge->bytes };
	for (size_t i = 0; i < merge->count; i++) {
		const struct mb_backend *part = &merge->branches[i].backend;
		struct mb_backend_stats one;

		part->ops->stats(part, &one);
		stats->filtered += one.filtered;
		if (!one.dropped)
			continue;
		if (!stats->dropped || one.drop_first_ns < stats->drop_first_ns)
			stats->drop_first_ns = one.drop_first_ns;
		if (!stats->dropped || one.drop_last_ns > stats->drop_last_ns)
			stats->drop_last_ns = one.drop_last_ns;
		stats->dropped = mb_add_saturating(stats->dropped, one.dropped);
		adrift |= !one.drop_first_ns && !one.drop_last_ns;
	}
	if (adrift)
		stats->drop_first_ns = stats->drop_last_ns = 0;
}

/* The notices of the branches, as many as fit. */
static const char *merge_notice(const struct mb_backend *backend)
{
	struct merge *merge = backend->state;
	size_t used = 0;

	merge->notice[0] = '\0';
	for (size_t i = 0; i < merge->count && used < sizeof(merge->notice); i++) {
		const struct mb_backend *part = &merge->branches[i].backend;
		const char *one = mb_backend_notice(part);

		if (one)
			used += (size_t)snprintf(merge->notice + used, sizeof(merge->notice) - used, "%s%s",
						 used ? "; " : "", one);
	}
	return used ? merge->notice : NULL;
}

/* --- open, close --- */

static void merge_close(struct mb_backend *backend)
{
	struct merge *merge = backend->state;

	for (size_t i = 0; merge->branches && i < merge->count; i++) {
		mb_backend_close(&merge->branches[i].backend);
		free(merge->branches[i].numbers);
		mb_interface_index_deinit(&merge->branches[i].tally);
	}
	free(merge->branches);
	free(merge->heap);
	mb_interfaces_deinit(&merge->interfaces);
}

static const struct mb_backend_ops mb_backend_merge = {
	.name = "merge",
	.description = "several captures as one, merged by time",
	.read = merge_read,
	.interfaces = merge_interfaces,
	.stats = merge_stats,
	.notice = merge_notice,
	.close = merge_close,
};

static int open_branch(struct mb_backend *backend, const struct mb_backend_options *options, struct mb_error *error)
{
	struct merge *merge = backend->state;
	struct branch *branch = &merge->branches[merge->count];
	int result = mb_backend_open(&branch->backend, options, error);

	if (result < 0)
		return result;
	merge->starved = ++merge->count;
	if (branch->backend.ops == &mb_backend_file)
		mb_backend_file_set_stop(&branch->backend, &backend->stop);
	return number_interfaces(merge, branch, error);
}

static int open_branches(struct mb_backend *backend, const char *const *targets, size_t count,
			 const struct mb_backend_options *options, struct mb_error *error)
{
	struct merge *merge = backend->state;
	struct mb_backend_options one = *options;
	bool has_stdin = false;

	one.merges = true;
	merge->branches = calloc(count, sizeof(*merge->branches));
	merge->heap = calloc(count, sizeof(*merge->heap));
	if (!merge->branches || !merge->heap)
		return mb_fail(error, ENOMEM, "merge: out of memory for %zu captures", count);
	for (size_t i = 0; i < count; i++) {
		bool is_stdin = !strcmp(targets[i], "-");
		int result;

		if (is_stdin && has_stdin)
			return mb_fail(error, EINVAL, "-: standard input can be named only once");
		has_stdin |= is_stdin;
		one.target = targets[i];
		result = open_branch(backend, &one, error);
		if (result < 0)
			return result;
	}
	return 0;
}

int mb_merge_open(struct mb_backend *backend, const char *const *targets, size_t count,
		  const struct mb_backend_options *options, struct mb_error *error)
{
	struct merge *merge;
	int result;

	if (count == 1) {
		struct mb_backend_options one = *options;

		one.target = targets[0];
		return mb_backend_open(backend, &one, error);
	}
	memset(backend, 0, sizeof(*backend));
	merge = calloc(1, sizeof(*merge));
	if (!merge)
		return mb_fail(error, ENOMEM, "merge: out of memory");
	backend->ops = &mb_backend_merge;
	backend->state = merge;
	result = open_branches(backend, targets, count, options, error);
	if (result < 0)
		mb_backend_close(backend);
	return result;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/ebpf/run.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* A slot is no longer trusted if only 1/GUARD of the ring is left before the program overwrites it. */
#define GUARD 16
#define FIRST_CAPACITY 256

static bool is_intact(const struct mb_ebpf_ring_memory *ring, uint64_t number, uint64_t newest)
{
	return number + ring->size - ring->size / GUARD > newest;
}

int mb_ebpf_run_insert(struct mb_ebpf_run *run, uint32_t at, const struct mb_ebpf_slot *slot)
{
	if (run->count == run->capacity) {
		uint32_t capacity = run->capacity ? 2 * run->capacity : FIRST_CAPACITY;
		struct mb_ebpf_slot *slots = realloc(run->slots, capacity * sizeof(*slots));

		if (!slots)
			return -ENOMEM;
		run->slots = slots;
		run->capacity = capacity;
	}
	memmove(run->slots + at + 1, run->slots + at, (run->count++ - at) * sizeof(*slot));
	run->slots[at] = *slot;
	return 0;
}

/* Reverse the order of the slots from FIRST on. */
static void turn_round(struct mb_ebpf_run *run, uint32_t first)
{
	for (uint32_t i = first, j = run->count; i + 1 < j; i++) {
		struct mb_ebpf_slot slot = run->slots[i];

		run->slots[i] = run->slots[--j];
		run->slots[j] = slot;
	}
}

static void forget_yielded(struct mb_ebpf_run *run)
{
	if (!run->next)
		return;
	run->count -= run->next;
	memmove(run->slots, run->slots + run->next, run->count * sizeof(*run->slots));
	run->next = 0;
}

int64_t mb_ebpf_run_copy(struct mb_ebpf_run *run, const struct mb_ebpf_ring_memory *ring, uint64_t settled_ns)
{
	uint64_t number = *ring->newest, newest = number;
	uint32_t first;

	forget_yielded(run);
	first = run->count;
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	while (number > run->taken && is_intact(ring, number, newest)) {
		struct mb_ebpf_slot slot = ring->slots[number & (ring->size - 1)];

		if (slot.number != number) {
			number--;
			continue;
		}
		if ((number + 1) * (uint64_t)ring->width_ns <= settled_ns && mb_ebpf_run_insert(run, run->count, &slot))
			return -ENOMEM;
		number = slot.back < number ? number - slot.back : 0;
	}
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	newest = *ring->newest;
	while (run->count > first && !is_intact(ring, run->slots[run->count - 1].number, newest))
		run->count--;
	turn_round(run, first);
	return first;
}

uint64_t mb_ebpf_run_packets_before(const struct mb_ebpf_run *run, uint64_t until_ns, int64_t width_ns)
{
	uint64_t packets = run->packets;

	for (uint32_t i = run->count; i > 0 && run->slots[i - 1].number * (uint64_t)width_ns >= until_ns; i--)
		packets = run->slots[i - 1].before;
	return packets;
}

void mb_ebpf_run_resume(struct mb_ebpf_run *run, uint64_t packets, uint64_t until_ns, int64_t width_ns)
{
	run->packets = packets;
	run->taken = until_ns / (uint64_t)width_ns - 1;
}

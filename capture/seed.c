/* SPDX-License-Identifier: Apache-2.0 */
#include "seed.h"

#include <stddef.h>
#include <sys/random.h>
#include <time.h>

#include "hash.h"

static uint64_t clock_bits(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void mb_seed_init(struct mb_seed *seed)
{
	if (getrandom(seed->words, sizeof(seed->words), GRND_NONBLOCK) == sizeof(seed->words))
		return;
	for (size_t i = 0; i < sizeof(seed->words) / sizeof(seed->words[0]); i++)
		seed->words[i] = mb_hash_fold(clock_bits(CLOCK_MONOTONIC) + (uintptr_t)seed,
					      clock_bits(CLOCK_REALTIME) ^ 0x9e3779b97f4a7c15u * (i + 1));
}

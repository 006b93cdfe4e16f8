/* SPDX-License-Identifier: Apache-2.0 */
#include "seed.h"

#include <stddef.h>
#include <sys/random.h>

#include "clock.h"
#include "hash.h"

void mb_seed_init(struct mb_seed *seed)
{
	if (getrandom(seed->words, sizeof(seed->words), GRND_NONBLOCK) == sizeof(seed->words))
		return;
	for (size_t i = 0; i < sizeof(seed->words) / sizeof(seed->words[0]); i++)
		seed->words[i] = mb_hash_fold((uint64_t)mb_clock_ns(CLOCK_MONOTONIC) + (uintptr_t)seed,
					      (uint64_t)mb_clock_ns(CLOCK_REALTIME) ^ 0x9e3779b97f4a7c15u * (i + 1));
}

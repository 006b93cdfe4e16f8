/* SPDX-License-Identifier: Apache-2.0
 *
 * Hashing of senders and flows, for tables that exist only in memory.
 */
#ifndef MB_HASH_H
#define MB_HASH_H

#include <stdbool.h>
#include <stdint.h>

#include "decode/decode.h"

/* 64 × 64 → 128 bit multiplication, folded: every input bit reaches every output bit. */
static inline uint64_t mb_hash_fold(uint64_t a, uint64_t b)
{
	unsigned __int128 product = (unsigned __int128)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* A product with other words of the seed. Consecutive values in one factor give multiples of the other factor, and some
 * seeds put many of these into few slots (of addresses, one seed of 60 took 18 times the steps; of interfaces, one took
 * 7 times). So products of values that a sender may choose are multiplied once more. */
static inline uint64_t mb_hash_again(uint64_t product, const struct mb_seed *seed)
{
	return mb_hash_fold(product ^ seed->words[2], seed->words[3] ^ 0x8ebc6af09c88c6e3u);
}

/* The seed is in both factors: no address can make one of them 0, which would hide the other. */
static inline uint64_t mb_hash_address(const struct mb_address *address, const struct mb_seed *seed)
{
	uint64_t product = mb_hash_fold(address->lo ^ seed->words[0] ^ 0x9e3779b97f4a7c15u,
					address->hi ^ address->family ^ seed->words[1] ^ 0xd1b54a32d192ed03u);

	return mb_hash_again(product, seed);
}

/* Called for each slot of a table that is examined. Tests count the calls; elsewhere it does nothing. */
#ifdef MB_COUNT_STEPS
extern uint64_t mb_hash_steps;
static inline void mb_hash_step(void)
{
	mb_hash_steps++;
}
#else
static inline void mb_hash_step(void)
{
}
#endif

static inline bool mb_address_equal(const struct mb_address *a, const struct mb_address *b)
{
	return a->lo == b->lo && a->hi == b->hi && a->family == b->family;
}

/* The number of bits that a table of at least COUNT slots needs. */
static inline uint32_t mb_hash_bits(uint64_t count)
{
	return count <= 1 ? 0 : 64 - (uint32_t)__builtin_clzll(count - 1);
}

#endif

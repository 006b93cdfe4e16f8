/* SPDX-License-Identifier: Apache-2.0
 *
 * Hashing of senders and flows for tables that live in memory only.
 */
#ifndef MB_HASH_H
#define MB_HASH_H

#include <stdbool.h>
#include <stdint.h>

#include "decode.h"

/* 64 × 64 → 128 bit multiplication, folded: every input bit reaches every output bit. */
static inline uint64_t mb_hash_fold(uint64_t a, uint64_t b)
{
	unsigned __int128 product = (unsigned __int128)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* SEED makes collisions unguessable for whoever chooses the addresses. */
static inline uint64_t mb_hash_address(const struct mb_address *address, uint64_t seed)
{
	return mb_hash_fold(address->lo ^ seed ^ 0x9e3779b97f4a7c15u,
			    address->hi ^ address->family ^ 0xd1b54a32d192ed03u);
}

static inline bool mb_address_equal(const struct mb_address *a, const struct mb_address *b)
{
	return a->lo == b->lo && a->hi == b->hi && a->family == b->family;
}

/* How many bits a table of at least COUNT slots needs. */
static inline uint32_t mb_hash_bits(uint64_t count)
{
	return count <= 1 ? 0 : 64 - (uint32_t)__builtin_clzll(count - 1);
}

#endif

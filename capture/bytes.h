/* SPDX-License-Identifier: Apache-2.0
 *
 * Integers out of unaligned bytes. `swapped`: the bytes are in the order that this machine
 * does not use.
 */
#ifndef MB_BYTES_H
#define MB_BYTES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t mb_load16(const uint8_t *bytes, bool swapped)
{
	uint16_t value;

	memcpy(&value, bytes, sizeof(value));
	return swapped ? __builtin_bswap16(value) : value;
}

static inline uint32_t mb_load32(const uint8_t *bytes, bool swapped)
{
	uint32_t value;

	memcpy(&value, bytes, sizeof(value));
	return swapped ? __builtin_bswap32(value) : value;
}

static inline uint64_t mb_load64(const uint8_t *bytes, bool swapped)
{
	uint64_t value;

	memcpy(&value, bytes, sizeof(value));
	return swapped ? __builtin_bswap64(value) : value;
}

#endif

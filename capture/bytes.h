/* SPDX-License-Identifier: Apache-2.0
 *
 * Integers from unaligned bytes. `swapped`: the bytes are in the byte order that this machine does not use.
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

/* Have the compiler forget what it knows of a size that was just found to differ from the previous one. Most records of
 * a file have the length of their predecessor: behind a branch on that, the address of the next record no longer
 * depends on the length of this one, and the processor runs ahead of the memory. */
#define MB_OPAQUE(size) __asm__ volatile("" : "+r"(size))

#endif

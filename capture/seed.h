/* SPDX-License-Identifier: Apache-2.0
 *
 * Secret numbers of a capture: a sender that chooses addresses and ports cannot know which of them share a slot of a
 * table, or a fingerprint. A seed of all 0 is not secret, but gives the same results.
 */
#ifndef MB_SEED_H
#define MB_SEED_H

#include <stdint.h>

struct mb_seed {
	uint64_t words[4];
};

/* Fill SEED from the kernel; before the kernel has gathered entropy (getrandom(2)), from clocks and addresses. */
void mb_seed_init(struct mb_seed *seed);

#endif

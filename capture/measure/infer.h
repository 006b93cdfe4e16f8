/* SPDX-License-Identifier: Apache-2.0
 *
 * What is inferred from the first frames of a capture: which address is this host's own,
 * and how large a frame the wire takes.
 */
#ifndef MB_INFER_H
#define MB_INFER_H

#include <stdint.h>

#include "decode/decode.h"

#define MB_INFERENCE_NOTE 256

struct mb_inference {
	struct mb_address local; /* family NONE: no address is in nearly every frame */
	uint32_t mtu;            /* largest IP packet of one wire frame; 0: merged ones cannot be recognized */
	char note[MB_INFERENCE_NOTE]; /* what was inferred and from how much, for the user */
};

/* Infer from COUNT frames, with INTERFACES as the backend numbers them. Only Ethernet, cooked and
 * raw IP interfaces say anything. 0 or -ENOMEM. */
int mb_infer(const struct mb_frame *frames, uint32_t count, const struct mb_interface *interfaces,
	     const struct mb_seed *seed, struct mb_inference *inference);

#endif

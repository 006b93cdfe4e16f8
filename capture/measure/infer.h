/* SPDX-License-Identifier: Apache-2.0
 *
 * Values inferred from the first frames of a capture: which address is that of this host, and how large a wire frame
 * can be.
 */
#ifndef MB_INFER_H
#define MB_INFER_H

#include <stdint.h>

#include "decode/decode.h"

#define MB_INFERENCE_NOTE 256

struct mb_inference {
	struct mb_address local; /* family NONE: no address is in nearly every frame */
	uint32_t mtu;            /* largest IP packet of one wire frame; 0: merged frames cannot be recognized */
	char note[MB_INFERENCE_NOTE]; /* for the user: the inferred values, and the number of frames that they are
				       * based on */
};

/* Infer from COUNT frames; INTERFACES are numbered as in the backend. Only Ethernet, cooked and raw IP interfaces
 * contribute. Returns 0 or -ENOMEM. */
int mb_infer(const struct mb_frame *frames, uint32_t count, const struct mb_interface *interfaces,
	     const struct mb_seed *seed, struct mb_inference *inference);

#endif

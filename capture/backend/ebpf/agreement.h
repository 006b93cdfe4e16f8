/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps senders consistent with bins: the rows of senders count the packets that are in bins. They may differ if bins
 * were overwritten while the program still had their senders, or if a processor was stopped within a packet.
 */
#ifndef MB_EBPF_AGREEMENT_H
#define MB_EBPF_AGREEMENT_H

#include "backend/ebpf/reader.h"

/* Compare the collected senders of cursor INDEX that will be yielded with its bins, in chunks of the wider of both widths.
 * If packets or bytes of a chunk differ, its senders become others, with the sums of the bins. Returns 0 or -ENOMEM. */
int mb_ebpf_agree(struct mb_ebpf_reader *reader, uint32_t index);

#endif

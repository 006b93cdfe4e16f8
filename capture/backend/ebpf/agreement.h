/* SPDX-License-Identifier: Apache-2.0
 *
 * Senders are those of the packets that are in bins. Where bins were written over, whose senders the program still has, or
 * a processor was stopped within a packet, what is known of senders is that of other packets.
 */
#ifndef MB_EBPF_AGREEMENT_H
#define MB_EBPF_AGREEMENT_H

#include "backend/ebpf/reader.h"

/* Hold what cursor INDEX has collected, and will be yielded, against its bins: in each chunk, the wider of both widths, in
 * which the senders' packets and bytes are not those of the bins, all senders become others, with what is in the bins. 0
 * or -ENOMEM. */
int mb_ebpf_agree(struct mb_ebpf_reader *reader, uint32_t index);

#endif

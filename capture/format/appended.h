/* SPDX-License-Identifier: Apache-2.0
 *
 * A capture that was appended to another one: its header is where a record or a block could be.
 */
#ifndef MB_APPENDED_H
#define MB_APPENDED_H

#include <stdbool.h>

#include "error.h"
#include "format/input.h"

/* Whether the header of a pcap file, or a section of pcapng, begins at the position of INPUT. A section within pcapng is
 * none that was appended: check for it before. */
bool mb_appended_is_at(const struct mb_input *input);

/* Returns -EBADMSG with ERROR filled. */
int mb_appended_refuse(const struct mb_input *input, struct mb_error *error);

#endif

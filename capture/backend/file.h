/* SPDX-License-Identifier: Apache-2.0
 *
 * What is particular to sources that are files (mb_source_file in source.h).
 */
#ifndef MB_FILE_H
#define MB_FILE_H

#include <stdbool.h>

#include "backend/backend.h"

/* Whether the file describes its interfaces (pcapng) or is one, without saying so (pcap). */
bool mb_source_file_has_interfaces(const struct mb_source *source);

/* Whether frames stay valid until close() rather than until the next read(). */
bool mb_source_file_is_mapped(const struct mb_source *source);

/* Let *STOP end reads instead of SOURCE's own flag: for a source within another. */
void mb_source_file_set_stop(struct mb_source *source, const volatile bool *stop);

#endif

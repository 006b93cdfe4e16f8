/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions for backends that are files (mb_backend_file in backend.h).
 */
#ifndef MB_FILE_H
#define MB_FILE_H

#include <stdbool.h>

#include "backend/backend.h"

/* Whether the file describes its interfaces (pcapng) or is a single one without a description (pcap). */
bool mb_backend_file_has_interfaces(const struct mb_backend *backend);

/* Whether frames stay valid until close() rather than until the next read(). */
bool mb_backend_file_is_mapped(const struct mb_backend *backend);

/* Have *STOP end reads instead of BACKEND's own flag: for a backend within another. */
void mb_backend_file_set_stop(struct mb_backend *backend, const volatile bool *stop);

#endif

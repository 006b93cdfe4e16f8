/* SPDX-License-Identifier: Apache-2.0
 *
 * The kind of a file that is not a capture, for the one-line error message.
 */
#ifndef MB_MAGIC_H
#define MB_MAGIC_H

#include <stddef.h>
#include <stdint.h>

#define MB_MAGIC_TEXT 160

/* Describe what HEAD, the first LENGTH bytes of a file, looks like: "text: …". */
void mb_magic_describe(const uint8_t *head, size_t length, char text[MB_MAGIC_TEXT]);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * A file mapped for one pass from front to back: pages behind the reader are released, and a file that shrinks (or
 * whose disk fails) under the mapping does not kill the process.
 *
 * Checking the size before each batch would not be enough: the reader is nearly always inside a batch when another
 * process truncates the file. Instead, SIGBUS inside a mapping is caught, zero pages are mapped over the rest of it,
 * and the reader calls mb_mapping_fault() when the data make no sense or have ended. A SIGBUS anywhere else goes to the
 * previous handler.
 *
 * read(2) into a buffer needs none of this, but is slower with the large folios that a file has in the page cache after
 * it was written or read in one go: a packet of 96 bytes costs 7.0 ns mapped and 11.5 ns read. (With single pages, it
 * is 20 against 16.)
 */
#ifndef MB_MAPPING_H
#define MB_MAPPING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mb_mapping {
	const uint8_t *base; /* NULL if nothing is mapped */
	size_t size;
	size_t released; /* pages before this offset have been released */
	int guard;
};

/* Map SIZE > 0 bytes of FD from its start. Returns 0 or a negative errno, also ENOMEM if more files are mapped than can
 * be guarded; the caller then reads the file. */
int mb_mapping_open(struct mb_mapping *mapping, int fd, size_t size);
void mb_mapping_close(struct mb_mapping *mapping);

/* Release the memory before OFFSET, which only grows, in steps of some MiB; at the end, release all. Pointers into it
 * stay valid: their bytes are read again. */
void mb_mapping_release(struct mb_mapping *mapping, size_t offset);

/* Whether a byte of the mapping could not be read; OFFSET is then the offset of its page. */
bool mb_mapping_fault(const struct mb_mapping *mapping, size_t *offset);

#endif

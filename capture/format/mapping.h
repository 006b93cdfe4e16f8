/* SPDX-License-Identifier: Apache-2.0
 *
 * A file mapped for one pass from front to back: pages behind the reader are given back, and
 * a file that shrinks (or whose disk fails) under the mapping does not kill the process.
 *
 * Why not check the size before each batch: the reader is nearly always inside a batch when
 * another process truncates the file, so a check between batches would not save it. Instead
 * SIGBUS inside a mapping is caught, zero pages are laid over the rest of it, and the reader
 * asks mb_mapping_fault() when what it reads makes no sense or has ended. A SIGBUS anywhere
 * else goes to the handler that was there before.
 *
 * Why not read(2) into a buffer, which needs none of this: with the large folios that a file
 * has in the page cache after it was written or read in one go, a packet of 96 bytes costs
 * 7.0 ns mapped and 11.5 ns read. (With single pages there, it is 20 against 16.)
 */
#ifndef MB_MAPPING_H
#define MB_MAPPING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mb_mapping {
	const uint8_t *base; /* NULL when nothing is mapped */
	size_t size;
	size_t released; /* pages before this offset have been given back */
	int guard;
};

/* Map SIZE > 0 bytes of FD from its start. 0 or a negative errno: ENOMEM also when more files
 * are mapped than can be guarded; the caller then reads. */
int mb_mapping_open(struct mb_mapping *mapping, int fd, size_t size);
void mb_mapping_close(struct mb_mapping *mapping);

/* Give back what lies before OFFSET, which only grows, in steps of some MiB, and all of it at the
 * end. Pointers into it stay valid: what they point to is read again. */
void mb_mapping_release(struct mb_mapping *mapping, size_t offset);

/* Whether a byte of the mapping could not be had; OFFSET is then its page. */
bool mb_mapping_fault(const struct mb_mapping *mapping, size_t *offset);

#endif

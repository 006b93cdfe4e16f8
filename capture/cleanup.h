/* SPDX-License-Identifier: Apache-2.0
 *
 * Releases the resource of a local variable when its scope ends, so that an error path is a plain `return`.
 */
#ifndef MB_CLEANUP_H
#define MB_CLEANUP_H

#include <stdlib.h>
#include <unistd.h>

#define mb_cleanup(function) __attribute__((cleanup(function)))

static inline void mb_freep(void *pointer)
{
	free(*(void **)pointer);
}

static inline void mb_closep(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

/* free() when the scope ends. */
#define mb_auto_free mb_cleanup(mb_freep)
/* close() when the scope ends, unless the descriptor is negative. */
#define mb_auto_close mb_cleanup(mb_closep)

#endif

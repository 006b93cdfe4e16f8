/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of a capture file, front to back, from a mapped file, a pipe, or compressed data in either. A parser reads
 * [at, end) and moves `at`; if it needs more bytes, it requests them.
 */
#ifndef MB_INPUT_H
#define MB_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "error.h"
#include "format/decompress.h"
#include "format/mapping.h"

/* Returned by mb_input_need() in place of a negative errno. */
enum mb_supply {
	MB_SUPPLY_READY,   /* the bytes are there */
	MB_SUPPLY_SHORT,   /* the input ends before them: only [at, end) is left */
	MB_SUPPLY_LATE,    /* they did not come in time */
	MB_SUPPLY_STOPPED, /* `stop` was set */
};

struct mb_input {
	const uint8_t *at, *end; /* the available input, from the position on */
	const uint8_t *begin;  /* start of that window */
	uint64_t begin_offset;  /* position of `begin` in the (decompressed) input */
	char *name;   /* name of the file, for messages; or "standard input" */

	int fd;    /* -1 when the file is mapped */
	bool is_standard; /* standard input, which must not be closed */
	bool regular;   /* never waits for a writer */
	const volatile bool *stop;
	int64_t deadline_ms; /* monotonic; INT64_MAX: wait forever */
	bool starved;      /* it passed while waiting for a writer */

	struct mb_mapping mapping;
	dev_t device; /* of the mapped file */
	ino_t inode;

	uint8_t *buffer; /* of a stream */
	size_t room;
	uint64_t skip; /* bytes behind the window that must still be skipped */
	bool ended;
	int failure; /* negative errno, to return after the bytes before it are used up */
	struct mb_error failure_error;

	const struct mb_compression *compression;
	struct mb_decompressor decompressor;
	uint8_t *raw; /* compressed bytes */
	size_t raw_at, raw_end;
	uint64_t raw_offset; /* offset of raw[0] in the file */
	bool raw_ended;

	char notice[MB_ERROR_LENGTH]; /* what a user should know about how the input ended, or "" */
};

/* Open TARGET ("-": standard input). *STOP ends waits; INPUT must not move in memory. */
int mb_input_open(struct mb_input *input, const char *target, const volatile bool *stop, struct mb_error *error);
void mb_input_close(struct mb_input *input);

/* How long all following calls together may take before they return LATE; negative: forever. Each call makes some
 * progress first. */
void mb_input_set_timeout(struct mb_input *input, int timeout_ms);

/* Whether that time is over: for callers that skip much input without yielding anything. */
bool mb_input_is_late(const struct mb_input *input);

/* Make NEED bytes available at `at`. Returns enum mb_supply, or a negative errno. Pointers into an earlier window
 * become invalid, unless the file is mapped. */
int mb_input_need(struct mb_input *input, size_t need, struct mb_error *error);

/* Treat the available and following input as data of KIND; `at` is then at the decompressed bytes. */
int mb_input_decompress(struct mb_input *input, const struct mb_compression *kind, struct mb_error *error);

/* Move on by COUNT bytes, which need not be available yet. */
void mb_input_skip(struct mb_input *input, uint64_t count);

/* Position of AT, a pointer into the window, in the (decompressed) input. */
static inline uint64_t mb_input_offset(const struct mb_input *input, const uint8_t *at)
{
	return input->begin_offset + (uint64_t)(at - input->begin);
}

/* Release the memory before `at`. */
static inline void mb_input_release(struct mb_input *input)
{
	if (input->mapping.base)
		mb_mapping_release(&input->mapping, (size_t)(input->at - input->mapping.base));
}

/* Whether the bytes so far are those of the file: fails if a mapped file shrank or could not be read. Call it before an
 * error is attributed to the content, and at the end. */
int mb_input_check(const struct mb_input *input, struct mb_error *error);

/* The origin of offsets, as the end of a sentence: "" or " of the decompressed data". */
const char *mb_input_place(const struct mb_input *input);

#endif

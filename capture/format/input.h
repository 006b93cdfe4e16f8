/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of a capture file, front to back, wherever they come from: a mapped file, a pipe,
 * or compressed data out of either. A parser reads [at, end) and moves `at`; when that is not
 * enough it asks for more.
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

/* What mb_input_need() returns instead of a negative errno. */
enum mb_supply {
	MB_SUPPLY_READY,   /* the bytes are there */
	MB_SUPPLY_SHORT,   /* the input ends before them: [at, end) is all that is left */
	MB_SUPPLY_LATE,    /* they did not come in time */
	MB_SUPPLY_STOPPED, /* `stop` was set */
};

struct mb_input {
	const uint8_t *at, *end; /* what is there of the input, from the position on */
	const uint8_t *begin;  /* start of that window */
	uint64_t begin_offset;  /* position of `begin` in the (decompressed) input */
	char *name;   /* the file's, for messages; "standard input" */

	int fd;    /* -1 when the file is mapped */
	bool is_standard; /* standard input, which is not ours to close */
	bool regular;   /* never waits for a writer */
	const volatile bool *stop;
	int64_t deadline_ms; /* monotonic; INT64_MAX: wait for ever */
	bool starved;      /* it came while waiting for a writer */

	struct mb_mapping mapping;
	dev_t device; /* of the mapped file */
	ino_t inode;

	uint8_t *buffer; /* of a stream */
	size_t room;
	uint64_t skip; /* bytes still to be passed over behind the window */
	bool ended;
	int failure; /* negative errno, once the bytes before it are used up */
	struct mb_error failure_error;

	const struct mb_compression *compression;
	struct mb_decompressor decompressor;
	uint8_t *raw; /* compressed bytes */
	size_t raw_at, raw_end;
	uint64_t raw_offset; /* of raw[0] in the file */
	bool raw_ended;

	char notice[MB_ERROR_LENGTH]; /* what a user should know about how it ended, or "" */
};

/* Open TARGET ("-": standard input). *STOP ends waits; INPUT must not move in memory. */
int mb_input_open(struct mb_input *input, const char *target, const volatile bool *stop, struct mb_error *error);
void mb_input_close(struct mb_input *input);

/* How long the following calls may take in all before they say LATE; negative: for ever. Each gets somewhere first. */
void mb_input_set_timeout(struct mb_input *input, int timeout_ms);

/* Whether that time is over: who passes over much without yielding anything asks now and then. */
bool mb_input_is_late(const struct mb_input *input);

/* Have NEED bytes at `at`: enum mb_supply, or a negative errno. What pointers into an earlier
 * window point to is lost, unless the file is mapped. */
int mb_input_need(struct mb_input *input, size_t need, struct mb_error *error);

/* Take what is there and follows as data of KIND; `at` then stands at the plain bytes. */
int mb_input_decompress(struct mb_input *input, const struct mb_compression *kind, struct mb_error *error);

/* Move on by COUNT bytes, which need not be there yet. */
void mb_input_skip(struct mb_input *input, uint64_t count);

/* Position of AT, a pointer into the window, in the (decompressed) input. */
static inline uint64_t mb_input_offset(const struct mb_input *input, const uint8_t *at)
{
	return input->begin_offset + (uint64_t)(at - input->begin);
}

/* Give back the memory of what lies before `at`. */
static inline void mb_input_release(struct mb_input *input)
{
	if (input->mapping.base)
		mb_mapping_release(&input->mapping, (size_t)(input->at - input->mapping.base));
}

/* Whether the bytes so far are those of the file: fails when a mapped file shrank or could not
 * be read. To be asked before an error is put down to what was read, and at the end. */
int mb_input_check(const struct mb_input *input, struct mb_error *error);

/* Where offsets count from, as the end of a sentence: "" or " of the decompressed data". */
const char *mb_input_place(const struct mb_input *input);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * How a call of the engine fails: it returns a negative errno value and fills the caller's struct mb_error with one
 * line that a user can act on. The line names the file or device, and for a file the byte offset. It has no newline.
 */
#ifndef MB_ERROR_H
#define MB_ERROR_H

#define MB_ERROR_LENGTH 512

struct mb_error {
	char message[MB_ERROR_LENGTH];
};

/* Format MESSAGE into ERROR and return -CODE, so that a failing call is one statement:
 * `return mb_fail(error, EINVAL, "%s: …", path)`. ERROR may be NULL. */
int mb_fail(struct mb_error *error, int code, const char *format, ...) __attribute__((format(printf, 3, 4), cold));

/* The same, with ": " and strerror(CODE) after the message. */
int mb_fail_errno(struct mb_error *error, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4), cold));

#endif

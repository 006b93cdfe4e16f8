/* SPDX-License-Identifier: Apache-2.0 */
#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int mb_fail(struct mb_error *error, int code, const char *format, ...)
{
	if (error) {
		va_list arguments;

		va_start(arguments, format);
		vsnprintf(error->message, sizeof(error->message), format, arguments);
		va_end(arguments);
	}
	return -code;
}

int mb_fail_errno(struct mb_error *error, int code, const char *format, ...)
{
	if (error) {
		va_list arguments;
		size_t length;

		va_start(arguments, format);
		vsnprintf(error->message, sizeof(error->message), format, arguments);
		va_end(arguments);
		length = strlen(error->message);
		snprintf(error->message + length, sizeof(error->message) - length, ": %s", strerror(code));
	}
	return -code;
}

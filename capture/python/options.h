/* SPDX-License-Identifier: Apache-2.0
 *
 * The options of Capture: keywords of Python are read into the structs of the engine and the backend. One table, in
 * options.c, has each option's name, its reader and its field; _engine.pyi documents them.
 */
#ifndef MB_OPTIONS_H
#define MB_OPTIONS_H

#include "measure/engine.h"
#include "python/module.h"

struct mb_capture_options {
	struct mb_engine_options engine;
	struct mb_backend_options backend; /* texts belong to the keywords, and live as long as these */
	struct mb_packet_files_options keep; /* folder -1: packets are not kept */
};

/* Set OPTIONS to the defaults, then to the values in KEYWORDS (a dict, or NULL). Returns -1 with an exception set on
 * failure: TypeError for an option that does not exist or has another type, ValueError for a value out of range. */
int mb_options_read(struct mb_capture_options *options, PyObject *keywords);

#endif

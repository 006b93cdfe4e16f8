/* SPDX-License-Identifier: Apache-2.0
 *
 * The options of Capture: keywords of Python into the structs of the engine and the backend. One table, in options.c,
 * says each option's name, how it is read and where it goes; _engine.pyi documents them.
 */
#ifndef MB_OPTIONS_H
#define MB_OPTIONS_H

#include "measure/engine.h"
#include "python/module.h"

struct mb_capture_options {
	struct mb_engine_options engine;
	struct mb_backend_options backend; /* texts are those of the keywords, and live as long */
	struct mb_packet_files_options keep; /* folder -1: packets are not kept */
};

/* Set OPTIONS to the defaults, and to what KEYWORDS (a dict, or NULL) say. -1 with an exception set: TypeError for an
 * option that does not exist or has another type, ValueError for a value out of range. */
int mb_options_read(struct mb_capture_options *options, PyObject *keywords);

#endif

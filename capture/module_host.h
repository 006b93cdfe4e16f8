/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of mburst.capture._engine that tell of this host: sources and interfaces.
 */
#ifndef MB_MODULE_HOST_H
#define MB_MODULE_HOST_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

extern PyMethodDef mb_host_methods[];

#endif

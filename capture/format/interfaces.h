/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of interfaces that a backend has seen, and properties of their link types.
 */
#ifndef MB_INTERFACES_H
#define MB_INTERFACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/interface_index.h"
#include "error.h"
#include "frame.h"

struct mb_interfaces {
	struct mb_interface *list;
	size_t count, room;
	struct mb_interface_index numbers; /* of interfaces with a name: index + 1 */
};

/* Append INTERFACE. Returns its index, or a negative errno (ENOMEM; E2BIG beyond 65,536). */
int mb_interfaces_add(struct mb_interfaces *interfaces, const struct mb_interface *interface);
void mb_interfaces_deinit(struct mb_interfaces *interfaces);

/* Returns the index of an interface that is described again: the interface called NAME that agrees with INTERFACE (link
 * type, FCS, quality) and is the next such in TALLY, which counts those of one section or capture. It is appended if it
 * is not listed yet. NAME is NULL for an interface without a name, which is always a new one. Returns a negative errno
 * like mb_interfaces_add(). */
int mb_interfaces_number(struct mb_interfaces *interfaces, struct mb_interface_index *tally, const char *name,
			 const struct mb_interface *interface);

/* Store TEXT as the interface's name: cut to fit, with '?' for anything that is not printable UTF-8. */
void mb_interface_set_name(struct mb_interface *interface, const char *text, size_t length);

/* The same for an interface that has only the PATH of its file as a name: "a/cache.pcap.gz" is "cache". */
void mb_interface_set_stem(struct mb_interface *interface, const char *path);

/* The longest captured frame of LINKTYPE that libpcap and Wireshark accept. */
uint32_t mb_linktype_max_caplen(uint32_t linktype);

#endif

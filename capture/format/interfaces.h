/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of interfaces that a backend has met, and what their link types allow.
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
	struct mb_interface_index numbers; /* of those with a name: index + 1 */
};

/* Append INTERFACE; its index, or a negative errno (ENOMEM; E2BIG beyond 65,536). */
int mb_interfaces_add(struct mb_interfaces *interfaces, const struct mb_interface *interface);
void mb_interfaces_deinit(struct mb_interfaces *interfaces);

/* Index of an interface that is described once more: the interface called NAME that agrees with INTERFACE (link type, FCS, quality)
 * and is the next such in TALLY, which counts those of one section or capture; appended when it is not listed yet.
 * NULL for NAME: it has none, and is always another. A negative errno as of mb_interfaces_add(). */
int mb_interfaces_number(struct mb_interfaces *interfaces, struct mb_interface_index *tally, const char *name,
			 const struct mb_interface *interface);

/* Store TEXT as the interface's name: cut to fit, and what is not printable UTF-8 as '?'. */
void mb_interface_set_name(struct mb_interface *interface, const char *text, size_t length);

/* The same for an interface that only its file's PATH names: "a/cache.pcap.gz" is "cache". */
void mb_interface_set_stem(struct mb_interface *interface, const char *path);

/* The longest captured frame of LINKTYPE that libpcap and Wireshark take for sane. */
uint32_t mb_linktype_max_caplen(uint32_t linktype);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Link types as numbered in capture files (https://www.tcpdump.org/linktypes.html): those that the engine treats
 * specially.
 */
#ifndef MB_LINKTYPE_H
#define MB_LINKTYPE_H

#include <stdint.h>

enum mb_linktype {
	MB_LINKTYPE_NULL = 0,
	MB_LINKTYPE_ETHERNET = 1,
	MB_LINKTYPE_PPP = 9,
	MB_LINKTYPE_RAW_12 = 12, /* raw IP, as numbered on some systems */
	MB_LINKTYPE_RAW_14 = 14,
	MB_LINKTYPE_PPP_HDLC = 50,
	MB_LINKTYPE_PPP_ETHER = 51,
	MB_LINKTYPE_RAW = 101,
	MB_LINKTYPE_C_HDLC = 104,
	MB_LINKTYPE_LOOP = 108,
	MB_LINKTYPE_LINUX_SLL = 113,
	MB_LINKTYPE_IPV4 = 228,
	MB_LINKTYPE_IPV6 = 229,
	MB_LINKTYPE_DBUS = 231,
	MB_LINKTYPE_USBPCAP = 249,
	MB_LINKTYPE_LINUX_SLL2 = 276,
	MB_LINKTYPE_EBHSCR = 279,
};

/* The link type of files for DLT, which numbers it in libpcap on this platform (pcap-linktype(7)): raw IP has another
 * number. */
uint32_t mb_linktype_of_dlt(int dlt);

#endif

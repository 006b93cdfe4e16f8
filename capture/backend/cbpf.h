/* SPDX-License-Identifier: Apache-2.0
 *
 * The classic BPF program that a packet socket runs on each frame: it selects the direction, applies the user's filter,
 * and limits the bytes to keep. See the kernel's Documentation/networking/filter.rst.
 */
#ifndef MB_CBPF_H
#define MB_CBPF_H

#include <linux/filter.h>
#include <stdint.h>

#include "error.h"
#include "frame.h"

struct pcap;

struct mb_cbpf {
	struct sock_filter code[BPF_MAXINSNS];
	uint32_t length;
};

/* Compile FILTER (NULL: every frame) for frames of LINKTYPE on DEVICE. libpcap compiles it on a handle that is open on
 * the device, because a filter for a live packet socket differs from one for a file: there, VLAN tags are outside of
 * the frame. */
int mb_cbpf_compile(struct mb_cbpf *program, const char *device, uint32_t linktype, const char *filter,
		    struct mb_error *error);

/* The same for HANDLE, which is open on DEVICE (with no FILTER it may be NULL). */
int mb_cbpf_compile_for(struct mb_cbpf *program, struct pcap *handle, const char *device, const char *filter,
			struct mb_error *error);

/* Restrict PROGRAM to frames of DIRECTION (UNKNOWN: both). */
int mb_cbpf_restrict(struct mb_cbpf *program, enum mb_direction direction, struct mb_error *error);

/* Limit the bytes that PROGRAM keeps of each accepted frame to SNAPLEN. */
void mb_cbpf_truncate(struct mb_cbpf *program, uint32_t snaplen);

/* A program that accepts no frame. */
extern const struct mb_cbpf mb_cbpf_nothing;

/* Make socket FD run PROGRAM from now on, in place of its present program. NAME is the name of the device, for
 * ERROR. */
int mb_cbpf_attach(const struct mb_cbpf *program, int fd, const char *name, struct mb_error *error);

#endif

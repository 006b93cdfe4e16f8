/* SPDX-License-Identifier: Apache-2.0
 *
 * PF_RING's library, loaded at run time, because only its vendor packages it. Prototypes and numbers are those of its
 * API, versions 7.3 to 8.9 (pfring.h, linux/pf_ring.h).
 */
#ifndef MB_PFRING_LIBRARY_H
#define MB_PFRING_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/time.h>

#include "error.h"

enum pfring_flag {
	PFRING_LONG_HEADER = 1 << 2,
	PFRING_PROMISC = 1 << 3,
	PFRING_TIMESTAMP = 1 << 4,
	PFRING_HW_TIMESTAMP = 1 << 5,
	PFRING_DO_NOT_PARSE = 1 << 9,
};

enum { PFRING_RX_AND_TX = 0, PFRING_RX_ONLY = 1, PFRING_TX_ONLY = 2 };
enum { PFRING_RECV_ONLY_MODE = 2 };
enum { PFRING_CLUSTER_PER_FLOW_2_TUPLE = 2 };
enum { PFRING_END = -2, PFRING_NOT_SUPPORTED = -7 };

/* The packet header is packed and grew from release to release. These are the fields at its front that all releases
 * share; the rest is room for the library to write to. */
union pfring_header {
	struct {
		struct timeval ts;
		uint32_t caplen, len;
		uint64_t timestamp_ns; /* 0: none */
		uint32_t flags;
		uint8_t rx_direction;  /* 1: received, 0: sent */
	} __attribute__((packed)) field;
	uint8_t room[512];
};

_Static_assert(offsetof(union pfring_header, field.caplen) == 16, "as libpfring has it");
_Static_assert(offsetof(union pfring_header, field.timestamp_ns) == 24, "as libpfring has it");
_Static_assert(offsetof(union pfring_header, field.rx_direction) == 36, "as libpfring has it");

struct pfring_stat {
	uint64_t recv, drop, shunt;
};

/* The library's functions; `ring` is a pfring *. */
struct pfring_api {
	void *library;
	void *(*open)(const char *device, uint32_t caplen, uint32_t flags);
	int (*set_application_name)(void *ring, char *name);
	int (*set_direction)(void *ring, int direction);
	int (*set_socket_mode)(void *ring, int mode);
	int (*set_cluster)(void *ring, unsigned int id, int type);
	int (*set_bpf_filter)(void *ring, char *filter);
	int (*enable_ring)(void *ring);
	int (*recv)(void *ring, uint8_t **buffer, unsigned int buffer_len, union pfring_header *header, uint8_t wait);
	int (*stats)(void *ring, struct pfring_stat *stats);
	void (*close)(void *ring);
};

/* Load the library that MBURST_PFRING_LIB names, else that of the system. Returns 0, or a negative errno with ERROR
 * filled and nothing loaded. */
int mb_pfring_load(struct pfring_api *api, struct mb_error *error);
void mb_pfring_unload(struct pfring_api *api);

/* Whether the kernel has the module that PF_RING needs for interfaces; files and some cards do not need it. */
bool mb_pfring_has_module(void);

#endif

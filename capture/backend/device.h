/* SPDX-License-Identifier: Apache-2.0
 *
 * What the kernel reports of a network interface: state, link speed, and the settings that
 * distort what a capture sees. By ioctl and netlink (packet(7), rtnetlink(7), ethtool's
 * ioctls), so that it holds in the network namespace of the caller. Needs no privilege.
 */
#ifndef MB_DEVICE_H
#define MB_DEVICE_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#include "error.h"
#include "frame.h"

/* Offloads that hand a capture merged frames instead of those on the wire. */
struct mb_offload {
	const char *feature; /* as the kernel names it */
	const char *word;    /* as `ethtool -K` takes it */
	bool receive;        /* of frames that arrive; else of those that leave */
};

#define MB_OFFLOADS 8
extern const struct mb_offload mb_offloads[MB_OFFLOADS];

struct mb_device {
	char name[IFNAMSIZ];
	char driver[32];      /* empty when there is none */
	char mac[18];         /* aa:bb:cc:dd:ee:ff; empty where it has none */
	uint32_t index;
	uint32_t mtu;
	uint16_t arphrd;      /* ARPHRD_… of <net/if_arp.h> */
	bool up;              /* administratively */
	bool carrier;         /* the link is there */
	bool loopback;
	bool promiscuous;
	uint64_t link_bps;    /* bits a second of one direction; 0 when not known */
	uint32_t rx_ring;     /* descriptors of a receive queue; 0 when the driver has none */
	uint32_t rx_ring_max;
	uint32_t rx_queues;   /* 0 when the driver does not say */
	uint32_t rx_usecs;    /* interrupt coalescing: frames wait up to this for their stamp */
	bool rx_adaptive;     /* the driver varies rx_usecs */
	uint32_t offloads;    /* bit i: mb_offloads[i] is on */
};

/* -ENODEV when there is no such interface. What the driver does not say stays 0. */
int mb_device_read(struct mb_device *device, const char *name, struct mb_error *error);

/* The flags of an interface (IFF_… of <net/if.h>), whatever it is called. -ENODEV where there is none. */
int mb_device_flags(uint32_t index, uint32_t *flags);

/* The MTU of an interface, whatever it is called; 0 where there is none. FD: any socket of its network namespace. */
uint32_t mb_device_mtu(int fd, uint32_t index);

/* What the kernel counts of an interface; 0 where it does not say. */
struct mb_device_counts {
	uint64_t missed;        /* frames lost for lack of a buffer, before any capture could see them */
	uint64_t rx_packets, rx_bytes, tx_packets, tx_bytes; /* as the driver counts them, since it came up */
	uint32_t carrier_lost;  /* how often the link went away */
};

void mb_device_count(uint32_t index, struct mb_device_counts *counts);

/* Have DEVICE take in frames for other hosts, too, until FD, a packet socket, is closed, however the process ends. */
int mb_device_promiscuous(const struct mb_device *device, int fd, struct mb_error *error);

/* LINKTYPE_ of the frames that a raw packet socket sees on such a device, or -1 where
 * only libpcap's cooked mode makes sense of them. */
int mb_device_linktype(uint16_t arphrd);

#define MB_LOOPBACK_NOTICE "on the loopback every frame leaves and arrives: it is recorded once, as arriving"

/* The direction of the frames to capture where ASKED is asked for (UNKNOWN: both). On the loopback every frame passes
 * twice, leaving and arriving, and is captured once: *NOTICE is MB_LOOPBACK_NOTICE there, else NULL. */
enum mb_direction mb_device_direction(const struct mb_device *device, enum mb_direction asked, const char **notice);

/* That the interface NAME is down, and the remedy. Returns -ENETDOWN. */
int mb_device_down(const char *name, struct mb_error *error);

/* Why a capture on NAME came to its end with errno CODE: fills ERROR, returns the negative
 * errno that says it best (-ENODEV vanished, -ENETDOWN set down, else -CODE). */
int mb_device_lost(const char *name, int code, struct mb_error *error);

/* That there is no interface NAME, and what lists them. Returns -ENODEV. */
int mb_device_missing(const char *name, struct mb_error *error);

/* That the process may not capture from NAME, and how it might. Returns -EPERM. */
int mb_device_forbidden(const char *name, struct mb_error *error);

#endif

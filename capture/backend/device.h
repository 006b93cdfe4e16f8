/* SPDX-License-Identifier: Apache-2.0
 *
 * What the kernel reports of a network interface: its state, its link speed, and the settings that distort a capture.
 * Uses ioctl and netlink (packet(7), rtnetlink(7), ethtool's ioctls), so that it applies to the network namespace of
 * the caller. Needs no privilege.
 */
#ifndef MB_DEVICE_H
#define MB_DEVICE_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#include "error.h"
#include "frame.h"

/* Offloads because of which a capture gets merged frames instead of the frames on the wire. */
struct mb_offload {
	const char *feature; /* as the kernel names it */
	const char *word;    /* the keyword of `ethtool -K` */
	bool receive;        /* merges received frames; else sent frames */
};

#define MB_OFFLOADS 8
extern const struct mb_offload mb_offloads[MB_OFFLOADS];

struct mb_device {
	char name[IFNAMSIZ];
	char driver[32];      /* empty when there is none */
	char mac[18];         /* aa:bb:cc:dd:ee:ff; empty if there is none */
	uint32_t index;
	uint32_t mtu;
	uint16_t arphrd;      /* ARPHRD_… of <net/if_arp.h> */
	bool up;              /* administratively */
	bool carrier;         /* the link is up */
	bool loopback;
	bool promiscuous;
	uint64_t link_bps;    /* bits per second of one direction; 0 if unknown */
	uint32_t rx_ring;     /* descriptors of a receive queue; 0 if the driver has none */
	uint32_t rx_ring_max;
	uint32_t rx_queues;   /* 0 if the driver does not report it */
	uint32_t rx_usecs;    /* interrupt coalescing: frames wait up to this long for their stamp */
	bool rx_adaptive;     /* the driver varies rx_usecs */
	uint32_t offloads;    /* bit i: mb_offloads[i] is on */
};

/* Returns -ENODEV if there is no such interface. Values that the driver does not report stay 0. */
int mb_device_read(struct mb_device *device, const char *name, struct mb_error *error);

/* Read the flags of an interface (IFF_… of <net/if.h>) by its index, so that a change of its name does not matter.
 * Returns -ENODEV if it does not exist or is being deleted, or another errno if the kernel cannot be asked. */
int mb_device_flags(uint32_t index, uint32_t *flags);

/* Returns the MTU of an interface by its index, so that a change of its name does not matter; 0 if it does not exist.
 * FD: any socket of its network namespace. */
uint32_t mb_device_mtu(int fd, uint32_t index);

/* The kernel's counters of an interface; all 0 unless they are known: it may not exist any more, or the kernel cannot be
 * asked. */
struct mb_device_counts {
	bool known;
	uint64_t missed;        /* frames lost for lack of a buffer, before any capture could see them */
	uint64_t rx_packets, rx_bytes, tx_packets, tx_bytes; /* as the driver counts them, since it came up */
	uint32_t carrier_lost;  /* how often the link went down */
};

void mb_device_count(uint32_t index, struct mb_device_counts *counts);

/* Make DEVICE also accept frames for other hosts, until FD, a packet socket, is closed, however the process ends. */
int mb_device_promiscuous(const struct mb_device *device, int fd, struct mb_error *error);

/* Returns the LINKTYPE_ of the frames that a raw packet socket receives on such a device, or -1 if only libpcap's
 * cooked mode can handle them. */
int mb_device_linktype(uint16_t arphrd);

#define MB_LOOPBACK_NOTICE "on the loopback every frame leaves and arrives: it is recorded once, as arriving"

/* The direction of the frames to capture if ASKED is requested (UNKNOWN: both). On the loopback, every frame passes
 * twice, leaving and arriving, and is captured once: *NOTICE is then MB_LOOPBACK_NOTICE, else NULL. */
enum mb_direction mb_device_direction(const struct mb_device *device, enum mb_direction asked, const char **notice);

/* Report that the interface NAME is down, and the remedy. Returns -ENETDOWN. */
int mb_device_down(const char *name, struct mb_error *error);

/* Report why a capture on NAME ended with errno CODE. Fills ERROR, and returns the negative errno that describes it
 * best (-ENODEV: vanished, -ENETDOWN: set down, else -CODE). */
int mb_device_lost(const char *name, int code, struct mb_error *error);

#define MB_DEVICE_SHORT_NAME "alternative names may be longer, give a short one"

/* Report that there is no interface NAME, and the command that lists the interfaces. Returns -ENODEV. */
int mb_device_missing(const char *name, struct mb_error *error);

/* Report that the process may not capture from NAME, and the remedy. Returns -EPERM. */
int mb_device_forbidden(const char *name, struct mb_error *error);

#endif

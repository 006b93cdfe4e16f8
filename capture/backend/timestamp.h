/* SPDX-License-Identifier: Apache-2.0
 *
 * What stamps the frames of a live capture. Linux has three kinds, best first: the network
 * interface (SIOCSHWTSTAMP, raw hardware), the kernel on receipt (SO_TIMESTAMPING, software),
 * the kernel on copying to the ring. Documentation/networking/timestamping.rst of the kernel.
 */
#ifndef MB_TIMESTAMP_H
#define MB_TIMESTAMP_H

#include <linux/net_tstamp.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "backend/backend.h"
#include "clock.h"

/* What an interface can do, by ETHTOOL_GET_TS_INFO. */
struct mb_stamp_support {
	bool hardware;     /* stamps every frame that arrives */
	bool ptp_only;     /* stamps arriving frames, but only those of PTP */
	int32_t phc_index; /* its clock is /dev/ptpN; -1: none to read */
};

/* Nothing when the driver does not say. NAME exists. */
void mb_stamp_support_read(struct mb_stamp_support *support, const char *name);

struct mb_stamping {
	char device[IFNAMSIZ];
	bool hardware;     /* hardware stamps are asked for; a frame may still have another */
	bool synchronized; /* the clock that stamps is disciplined, and within 1 ms of system time */
	bool changed;      /* this process switched the interface's stamping on: deinit() undoes it */
	struct hwtstamp_config before, during;
	int phc;           /* descriptor of the interface's clock, or -1 */
	clockid_t clock;   /* what stamps: CLOCK_REALTIME, or the interface's clock */
	char notice[MB_ERROR_LENGTH]; /* what a user should know of it, or empty */
};

/* What deinit() finds nothing to do on. */
#define MB_STAMPING_NONE ((struct mb_stamping){ .phc = -1, .clock = CLOCK_REALTIME })

/* Decide for DEVICE, and switch hardware stamps on where WANTED lets and the interface can.
 * AUTO never fails: it falls back on software and says why in `notice`. */
int mb_stamping_init(struct mb_stamping *stamping, const char *device, enum mb_stamps wanted, struct mb_error *error);
/* Set the interface back as it was found, unless someone else has changed it meanwhile.
 * Harmless when called twice. */
void mb_stamping_deinit(struct mb_stamping *stamping);

/* What was done to the interface's stamping since init(), by a library on behalf of this
 * process, is to be undone by deinit(), too. */
void mb_stamping_adopt(struct mb_stamping *stamping);

/* Ask for the stamps on a packet socket. */
int mb_stamping_apply(const struct mb_stamping *stamping, int fd, struct mb_error *error);

/* MB_QUALITY_HW, _SW or _RING, as a ring's tp_status says. */
uint8_t mb_stamp_quality(uint32_t tp_status);

/* Whether the kernel's clock is kept in step by NTP or PTP (adjtimex(2)). */
bool mb_clock_synchronized(void);

#endif

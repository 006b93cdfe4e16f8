/* SPDX-License-Identifier: Apache-2.0
 *
 * What stamps the frames of a live capture. Linux has three kinds, best first: the network interface (SIOCSHWTSTAMP,
 * raw hardware), the kernel on receipt (SO_TIMESTAMPING, software), and the kernel on copying to the ring. See the
 * kernel's Documentation/networking/timestamping.rst.
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

/* The capabilities of an interface, from ETHTOOL_GET_TS_INFO. */
struct mb_stamp_support {
	bool hardware;     /* stamps every frame that arrives */
	bool ptp_only;     /* stamps only arriving PTP frames */
	int32_t phc_index; /* its clock is /dev/ptpN; -1: no readable clock */
};

/* All false if the driver does not report it. NAME must exist. */
void mb_stamp_support_read(struct mb_stamp_support *support, const char *name);

struct mb_stamping {
	char device[IFNAMSIZ];
	bool hardware;     /* hardware stamps are requested; a frame may still have another kind */
	bool synchronized; /* the clock that stamps is disciplined, and within 1 ms of system time */
	bool changed;      /* this process turned the interface's stamping on: deinit() undoes it */
	struct hwtstamp_config before, during;
	int phc;           /* descriptor of the interface's clock, or -1 */
	clockid_t clock;   /* what stamps: CLOCK_REALTIME, or the interface's clock */
	char notice[MB_ERROR_LENGTH]; /* a sentence for the user, or empty */
};

/* A state in which deinit() has nothing to do. */
#define MB_STAMPING_NONE ((struct mb_stamping){ .phc = -1, .clock = CLOCK_REALTIME })

/* Choose the stamps for DEVICE, and turn hardware stamps on if WANTED allows and the interface supports them. AUTO
 * never fails: it falls back to software stamps, with the reason in `notice`. */
int mb_stamping_init(struct mb_stamping *stamping, const char *device, enum mb_stamps wanted, struct mb_error *error);
/* Restore the setting of the interface, unless another process has changed it since. Harmless if called twice. */
void mb_stamping_deinit(struct mb_stamping *stamping);

/* Have deinit() also undo changes to the interface's stamping that a library made for this process since init(). */
void mb_stamping_adopt(struct mb_stamping *stamping);

/* Request the stamps on a packet socket. */
int mb_stamping_apply(const struct mb_stamping *stamping, int fd, struct mb_error *error);

/* MB_QUALITY_HW, _SW or _RING, from a ring's tp_status. */
uint8_t mb_stamp_quality(uint32_t tp_status);

/* Whether NTP or PTP disciplines the system clock (adjtimex(2)). */
bool mb_clock_synchronized(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/timestamp.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/timex.h>

#include "cleanup.h"

/* Beyond this difference, stamps of the interface and of the kernel must not be mixed in one capture. */
#define CLOCKS_AGREE_NS 1000000
#define CLOCK_READINGS 5

/* clockid of an open PTP clock (include/linux/posix-timers.h: CPUCLOCK_MAX, FD_TO_CLOCKID). */
static clockid_t phc_clockid(int fd)
{
	return (clockid_t)((~(unsigned int)fd << 3) | 3);
}

static int device_ioctl(const char *name, unsigned long request, void *data)
{
	mb_auto_close int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq argument = { .ifr_data = data };

	if (fd < 0)
		return -errno;
	snprintf(argument.ifr_name, sizeof(argument.ifr_name), "%s", name);
	return ioctl(fd, request, &argument) ? -errno : 0;
}

void mb_stamp_support_read(struct mb_stamp_support *support, const char *name)
{
	struct ethtool_ts_info info = { .cmd = ETHTOOL_GET_TS_INFO };
	const uint32_t needed = SOF_TIMESTAMPING_RX_HARDWARE | SOF_TIMESTAMPING_RAW_HARDWARE;
	bool stamps;

	*support = (struct mb_stamp_support){ .phc_index = -1 };
	if (device_ioctl(name, SIOCETHTOOL, &info))
		return;
	stamps = (info.so_timestamping & needed) == needed;
	support->hardware = stamps && info.rx_filters & 1u << HWTSTAMP_FILTER_ALL;
	support->ptp_only = stamps && !support->hardware;
	support->phc_index = info.phc_index;
}

bool mb_clock_synchronized(void)
{
	struct timex timex = { .modes = 0 };

	return adjtimex(&timex) != TIME_ERROR && !(timex.status & STA_UNSYNC);
}

static int refuse(const char *device, int code, struct mb_error *error)
{
	switch (code) {
	case EOPNOTSUPP:
	case ENOTTY:
	case EINVAL:
		return mb_fail(error, code, "%s has no hardware stamps", device);
	case ERANGE:
		return mb_fail(error, code, "%s stamps only frames of PTP in hardware", device);
	case EPERM:
		return mb_fail(error, code,
			       "switching on the hardware stamps of %s needs CAP_NET_ADMIN: "
			       "run as root, or beforehand: sudo hwstamp_ctl -i %s -r 1",
			       device, device);
	case EBUSY:
		return mb_fail(error, code, "the hardware stamps of %s are in use by another program", device);
	default:
		return mb_fail_errno(error, code, "hardware stamps of %s", device);
	}
}

/* Have every arriving frame stamped. If it already is, nothing is changed. */
static int switch_on(struct mb_stamping *stamping, struct mb_error *error)
{
	struct hwtstamp_config *during = &stamping->during;
	int status = device_ioctl(stamping->device, SIOCGHWTSTAMP, &stamping->before);

	if (status) /* some drivers can set but not get the mode: they start with none */
		stamping->before = (struct hwtstamp_config){ .rx_filter = HWTSTAMP_FILTER_NONE };
	if (!status && stamping->before.rx_filter == HWTSTAMP_FILTER_ALL)
		return 0;
	*during = (struct hwtstamp_config){ .tx_type = stamping->before.tx_type, .rx_filter = HWTSTAMP_FILTER_ALL };
	status = device_ioctl(stamping->device, SIOCSHWTSTAMP, during);
	if (status)
		return refuse(stamping->device, -status, error);
	stamping->changed = true;
	if (during->rx_filter != HWTSTAMP_FILTER_ALL) { /* the driver writes back the mode that it uses */
		mb_stamping_deinit(stamping);
		return refuse(stamping->device, ERANGE, error);
	}
	return 0;
}

/* How far the interface's clock is ahead of system time: the result of the fastest of several readings, because the
 * scheduler may interrupt any of them. Returns false if the clock cannot be read. */
static bool phc_ahead(struct mb_stamping *stamping, int32_t phc_index, int64_t *ahead_ns)
{
	char path[32];
	int64_t shortest = INT64_MAX;

	if (phc_index < 0)
		return false;
	snprintf(path, sizeof(path), "/dev/ptp%d", phc_index);
	stamping->phc = open(path, O_RDONLY | O_CLOEXEC);
	if (stamping->phc < 0)
		return false;
	for (int reading = 0; reading < CLOCK_READINGS; reading++) {
		int64_t before = mb_clock_ns(CLOCK_REALTIME);
		int64_t there = mb_clock_ns(phc_clockid(stamping->phc));
		int64_t took = mb_clock_ns(CLOCK_REALTIME) - before;

		if (took < 0 || took >= shortest) /* system time may be set between the two */
			continue;
		shortest = took;
		*ahead_ns = there - before - took / 2;
	}
	return shortest < INT64_MAX;
}

/* Whether hardware stamps can be converted to system time; `notice` gets the reason why not. */
static bool compare_clocks(struct mb_stamping *stamping, int32_t phc_index)
{
	int64_t ahead_ns;

	if (!phc_ahead(stamping, phc_index, &ahead_ns)) {
		snprintf(stamping->notice, sizeof(stamping->notice),
			 "the clock of %s cannot be read, so its "
			 "stamps cannot be compared with system time",
			 stamping->device);
		return false;
	}
	if (ahead_ns > CLOCKS_AGREE_NS || ahead_ns < -CLOCKS_AGREE_NS) {
		snprintf(stamping->notice, sizeof(stamping->notice),
			 "the clock of %s, /dev/ptp%d, is %.6f s "
			 "ahead of system time (phc2sys would bring them together)",
			 stamping->device, phc_index, (double)ahead_ns / 1e9);
		return false;
	}
	return true;
}

static int use_hardware(struct mb_stamping *stamping, struct mb_error *error)
{
	struct mb_stamp_support support;
	int status = switch_on(stamping, error);

	if (status)
		return status;
	mb_stamp_support_read(&support, stamping->device);
	stamping->synchronized = compare_clocks(stamping, support.phc_index) && stamping->synchronized;
	stamping->hardware = true;
	if (stamping->phc >= 0)
		stamping->clock = phc_clockid(stamping->phc);
	return 0;
}

static void use_hardware_if_it_serves(struct mb_stamping *stamping)
{
	struct mb_stamp_support support;
	struct mb_error reason;

	mb_stamp_support_read(&support, stamping->device);
	if (!support.hardware || !compare_clocks(stamping, support.phc_index))
		return;
	if (switch_on(stamping, &reason)) {
		memcpy(stamping->notice, reason.message, sizeof(stamping->notice));
		return;
	}
	stamping->hardware = true;
	stamping->clock = phc_clockid(stamping->phc);
}

int mb_stamping_init(struct mb_stamping *stamping, const char *device, enum mb_stamps wanted, struct mb_error *error)
{
	*stamping = MB_STAMPING_NONE;
	snprintf(stamping->device, sizeof(stamping->device), "%s", device);
	stamping->synchronized = mb_clock_synchronized();
	if (wanted == MB_STAMPS_HW)
		return use_hardware(stamping, error);
	if (wanted == MB_STAMPS_AUTO)
		use_hardware_if_it_serves(stamping);
	return 0;
}

void mb_stamping_deinit(struct mb_stamping *stamping)
{
	struct hwtstamp_config now = stamping->during;

	if (stamping->changed) {
		device_ioctl(stamping->device, SIOCGHWTSTAMP, &now);
		if (!memcmp(&now, &stamping->during, sizeof(now)))
			device_ioctl(stamping->device, SIOCSHWTSTAMP, &stamping->before);
	}
	if (stamping->phc >= 0)
		close(stamping->phc);
	stamping->changed = false;
	stamping->phc = -1;
	stamping->clock = CLOCK_REALTIME;
}

void mb_stamping_adopt(struct mb_stamping *stamping)
{
	if (device_ioctl(stamping->device, SIOCGHWTSTAMP, &stamping->during))
		return;
	stamping->changed = memcmp(&stamping->before, &stamping->during, sizeof(stamping->before));
}

int mb_stamping_apply(const struct mb_stamping *stamping, int fd, struct mb_error *error)
{
	/* SOFTWARE always: frames that the interface did not stamp have these stamps. Without it on the socket itself,
	 * frames are stamped on copying if no other socket requested stamps. */
	int reported = SOF_TIMESTAMPING_SOFTWARE | (stamping->hardware ? SOF_TIMESTAMPING_RAW_HARDWARE : 0);
	int asked = reported | SOF_TIMESTAMPING_RX_SOFTWARE | (stamping->hardware ? SOF_TIMESTAMPING_RX_HARDWARE : 0);

	if (setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &asked, sizeof(asked)))
		return mb_fail_errno(error, errno, "%s: SO_TIMESTAMPING", stamping->device);
	if (setsockopt(fd, SOL_PACKET, PACKET_TIMESTAMP, &reported, sizeof(reported)))
		return mb_fail_errno(error, errno, "%s: PACKET_TIMESTAMP", stamping->device);
	return 0;
}

uint8_t mb_stamp_quality(uint32_t tp_status)
{
	if (tp_status & TP_STATUS_TS_RAW_HARDWARE)
		return MB_QUALITY_HW;
	return tp_status & TP_STATUS_TS_SOFTWARE ? MB_QUALITY_SW : MB_QUALITY_RING;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Drives capture/backend/timestamp.c on a network interface that this file simulates: linked with
 * --wrap=ioctl,--wrap=open,--wrap=clock_gettime,--wrap=adjtimex,--wrap=setsockopt. Arguments:
 * WANTED (auto|hw|sw) and KEY=VALUE:
 *   features=full|ptp|none  the answer of ETHTOOL_GET_TS_INFO
 *   set_errno=N get_errno=N the errors of the ioctls SIOCSHWTSTAMP and SIOCGHWTSTAMP
 *   set_gives=FILTER        the rx_filter that the driver sets in place of the requested one
 *   before=FILTER           the rx_filter before the capture
 *   ahead_ns=N phc=N        its clock relative to system time; phc=-1: it has none, phc_open=0: it cannot be opened
 *   held=N                  number of readings of its clock that take 5 ms
 *   synced=0|1              the answer of adjtimex
 *   meddle=1                another process sets the interface during the capture
 *   fail_socket=1           SO_TIMESTAMPING is refused
 * Prints one JSON object: the decision, and the final state of the interface.
 */
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

#include "backend/timestamp.h"

static const char *const *arguments;

static long value(const char *key, long missing)
{
	size_t length = strlen(key);

	for (const char *const *argument = arguments; *argument; argument++)
		if (!strncmp(*argument, key, length) && (*argument)[length] == '=')
			return strtol(*argument + length + 1, NULL, 0);
	return missing;
}

static struct hwtstamp_config config;
static int sets, asked_flags, reported_flags;

static int refuse(long code)
{
	errno = (int)code;
	return -1;
}

static int answer_features(struct ethtool_ts_info *info)
{
	const uint32_t stamping = SOF_TIMESTAMPING_RX_HARDWARE | SOF_TIMESTAMPING_RAW_HARDWARE;
	long features = value("features", 2);

	info->so_timestamping = SOF_TIMESTAMPING_RX_SOFTWARE | (features ? stamping : 0);
	info->rx_filters = features == 2 ? 1u << HWTSTAMP_FILTER_ALL | 1 : 1u << HWTSTAMP_FILTER_PTP_V2_EVENT | 1;
	info->phc_index = (int)value("phc", 0);
	return 0;
}

int __wrap_ioctl(int fd, unsigned long request, void *data);
int __wrap_ioctl(int fd, unsigned long request, void *data)
{
	struct ifreq *argument = data;

	(void)fd;
	if (request == SIOCETHTOOL)
		return answer_features((void *)argument->ifr_data);
	if (request == SIOCGHWTSTAMP) {
		if (value("get_errno", 0))
			return refuse(value("get_errno", 0));
		memcpy(argument->ifr_data, &config, sizeof(config));
		return 0;
	}
	if (value("set_errno", 0))
		return refuse(value("set_errno", 0));
	memcpy(&config, argument->ifr_data, sizeof(config));
	if (config.rx_filter == HWTSTAMP_FILTER_ALL)
		config.rx_filter = (int)value("set_gives", HWTSTAMP_FILTER_ALL);
	memcpy(argument->ifr_data, &config, sizeof(config));
	sets++;
	return 0;
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
	if (strncmp(path, "/dev/ptp", 8))
		return __real_open(path, flags);
	return value("phc_open", 1) ? __real_open("/dev/null", flags) : refuse(EACCES);
}

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	static int held;
	int status = __real_clock_gettime(clock < 0 ? CLOCK_REALTIME : clock, now);
	long long ns = now->tv_sec * 1000000000ll + now->tv_nsec;

	if (clock < 0)
		ns += value("ahead_ns", 0);
	if (clock < 0 && held++ < value("held", 0))
		nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
	now->tv_sec = ns / 1000000000;
	now->tv_nsec = ns % 1000000000;
	return status;
}

int __wrap_adjtimex(struct timex *timex);
int __wrap_adjtimex(struct timex *timex)
{
	timex->status = value("synced", 1) ? 0 : STA_UNSYNC;
	return value("synced", 1) ? TIME_OK : TIME_ERROR;
}

int __wrap_setsockopt(int fd, int level, int option, const void *data, socklen_t length);
int __wrap_setsockopt(int fd, int level, int option, const void *data, socklen_t length)
{
	(void)fd;
	(void)length;
	if (value("fail_socket", 0))
		return refuse(EPERM);
	if (level == SOL_PACKET && option == PACKET_TIMESTAMP)
		memcpy(&reported_flags, data, sizeof(reported_flags));
	else
		memcpy(&asked_flags, data, sizeof(asked_flags));
	return 0;
}

static void print_qualities(void)
{
	printf("\"hw\": %u, \"sw\": %u, \"neither\": %u, \"both\": %u, ",
	       mb_stamp_quality(TP_STATUS_USER | TP_STATUS_TS_RAW_HARDWARE | TP_STATUS_LOSING),
	       mb_stamp_quality(TP_STATUS_USER | TP_STATUS_TS_SOFTWARE),
	       mb_stamp_quality(TP_STATUS_USER | TP_STATUS_VLAN_VALID),
	       mb_stamp_quality(TP_STATUS_TS_RAW_HARDWARE | TP_STATUS_TS_SOFTWARE));
}

int main(int argc, char **argv)
{
	enum mb_stamps wanted = !strcmp(argv[1], "hw") ? MB_STAMPS_HW :
				!strcmp(argv[1], "sw") ? MB_STAMPS_SW :
							 MB_STAMPS_AUTO;
	struct mb_error error = { "" };
	struct mb_stamping stamping;
	int status, applied = 0;

	(void)argc;
	arguments = (const char *const *)argv + 1;
	config = (struct hwtstamp_config){ .tx_type = HWTSTAMP_TX_ON, .rx_filter = (int)value("before", 0) };
	status = mb_stamping_init(&stamping, "eth7", wanted, &error);
	if (!status)
		applied = mb_stamping_apply(&stamping, 0, &error);
	printf("{\"status\": %d, \"applied\": %d, \"error\": \"%s\", \"notice\": \"%s\", ", status, applied,
	       error.message, status ? "" : stamping.notice);
	printf("\"hardware\": %d, \"synchronized\": %d, \"during\": %d, \"own_clock\": %d, ", stamping.hardware,
	       stamping.synchronized, config.rx_filter, stamping.clock != CLOCK_REALTIME);
	printf("\"asked\": %d, \"reported\": %d, ", asked_flags, reported_flags);
	print_qualities();
	if (value("meddle", 0))
		config.rx_filter = HWTSTAMP_FILTER_PTP_V2_EVENT;
	mb_stamping_deinit(&stamping);
	mb_stamping_deinit(&stamping);
	printf("\"after\": %d, \"tx\": %d, \"sets\": %d}\n", config.rx_filter, config.tx_type, sets);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/device.h"

#include <errno.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if_arp.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "cleanup.h"
#include "linktype.h"

const struct mb_offload mb_offloads[MB_OFFLOADS] = {
	{ "rx-gro", "gro", true },
	{ "rx-gro-hw", "rx-gro-hw", true },
	{ "rx-gro-list", "rx-gro-list", true },
	{ "rx-udp-gro-forwarding", "rx-udp-gro-forwarding", true },
	{ "rx-lro", "lro", true },
	{ "tx-generic-segmentation", "gso", false },
	{ "tx-tcp-segmentation", "tso", false },
	{ "tx-udp-segmentation", "tx-udp-segmentation", false },
};

/* One ethtool ioctl; COMMAND begins with its __u32 cmd. */
static bool ethtool(int fd, const char *name, void *command)
{
	struct ifreq request = { .ifr_data = command };

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	return !ioctl(fd, SIOCETHTOOL, &request);
}

/* ETHTOOL_GLINKSETTINGS must be called twice: first for the length of its bitmaps. */
static uint64_t link_bps(int fd, const char *name)
{
	struct {
		struct ethtool_link_settings settings;
		__u32 masks[3 * 127];
	} link = { .settings.cmd = ETHTOOL_GLINKSETTINGS };

	if (!ethtool(fd, name, &link) || link.settings.link_mode_masks_nwords >= 0)
		return 0;
	link.settings.link_mode_masks_nwords = -link.settings.link_mode_masks_nwords;
	link.settings.cmd = ETHTOOL_GLINKSETTINGS;
	if (!ethtool(fd, name, &link) || link.settings.speed == (__u32)SPEED_UNKNOWN)
		return 0;
	return link.settings.speed * 1000000ull;
}

static uint32_t offload_bit(const char *feature)
{
	for (uint32_t i = 0; i < MB_OFFLOADS; i++) {
		if (!strncmp(feature, mb_offloads[i].feature, ETH_GSTRING_LEN))
			return 1u << i;
	}
	return 0;
}

static uint32_t feature_count(int fd, const char *name)
{
	struct {
		struct ethtool_sset_info info;
		__u32 count;
	} sets = { .info = { .cmd = ETHTOOL_GSSET_INFO, .sset_mask = 1ull << ETH_SS_FEATURES } };

	return ethtool(fd, name, &sets) && sets.info.sset_mask ? sets.count : 0;
}

static uint32_t offloads(int fd, const char *name)
{
	uint32_t count = feature_count(fd, name), words = (count + 31) / 32, active = 0;
	mb_auto_free struct ethtool_gstrings *names = NULL;
	mb_auto_free struct ethtool_gfeatures *features = NULL;

	names = calloc(1, sizeof(*names) + (size_t)count * ETH_GSTRING_LEN);
	features = calloc(1, sizeof(*features) + words * sizeof(features->features[0]));
	if (!count || !names || !features)
		return 0;
	*names = (struct ethtool_gstrings){ .cmd = ETHTOOL_GSTRINGS, .string_set = ETH_SS_FEATURES, .len = count };
	*features = (struct ethtool_gfeatures){ .cmd = ETHTOOL_GFEATURES, .size = words };
	if (!ethtool(fd, name, names) || !ethtool(fd, name, features))
		return 0;
	for (uint32_t i = 0; i < count; i++) {
		if (features->features[i / 32].active & (1u << i % 32))
			active |= offload_bit((char *)names->data + (size_t)i * ETH_GSTRING_LEN);
	}
	return active;
}

static void read_driver(int fd, struct mb_device *device)
{
	struct ethtool_drvinfo driver = { .cmd = ETHTOOL_GDRVINFO };
	struct ethtool_ringparam ring = { .cmd = ETHTOOL_GRINGPARAM };
	struct ethtool_channels channels = { .cmd = ETHTOOL_GCHANNELS };
	struct ethtool_coalesce coalesce = { .cmd = ETHTOOL_GCOALESCE };

	if (ethtool(fd, device->name, &driver))
		memcpy(device->driver, driver.driver, sizeof(device->driver) - 1);
	if (ethtool(fd, device->name, &ring)) {
		device->rx_ring = ring.rx_pending;
		device->rx_ring_max = ring.rx_max_pending;
	}
	if (ethtool(fd, device->name, &channels))
		device->rx_queues = channels.rx_count + channels.combined_count;
	if (ethtool(fd, device->name, &coalesce)) {
		device->rx_usecs = coalesce.rx_coalesce_usecs;
		device->rx_adaptive = coalesce.use_adaptive_rx_coalesce;
	}
	device->link_bps = link_bps(fd, device->name);
	device->offloads = offloads(fd, device->name);
}

static void write_mac(struct mb_device *device, const uint8_t *address)
{
	if (device->arphrd == ARPHRD_ETHER)
		snprintf(device->mac, sizeof(device->mac), "%02x:%02x:%02x:%02x:%02x:%02x", address[0], address[1],
			 address[2], address[3], address[4], address[5]);
}

int mb_device_read(struct mb_device *device, const char *name, struct mb_error *error)
{
	mb_auto_close int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq request = { 0 };

	memset(device, 0, sizeof(*device));
	if (fd < 0)
		return mb_fail_errno(error, errno, "%s: socket", name);
	if (strlen(name) >= IFNAMSIZ)
		return mb_device_missing(name, error);
	strcpy(device->name, name);
	strcpy(request.ifr_name, name);
	if (ioctl(fd, SIOCGIFINDEX, &request))
		return mb_device_missing(name, error);
	device->index = request.ifr_ifindex;
	if (ioctl(fd, SIOCGIFFLAGS, &request))
		return mb_fail_errno(error, errno, "%s: SIOCGIFFLAGS", name);
	device->up = request.ifr_flags & IFF_UP;
	device->carrier = request.ifr_flags & IFF_RUNNING;
	device->loopback = request.ifr_flags & IFF_LOOPBACK;
	device->promiscuous = request.ifr_flags & IFF_PROMISC;
	if (ioctl(fd, SIOCGIFHWADDR, &request))
		return mb_fail_errno(error, errno, "%s: SIOCGIFHWADDR", name);
	device->arphrd = request.ifr_hwaddr.sa_family;
	write_mac(device, (const uint8_t *)request.ifr_hwaddr.sa_data);
	if (!ioctl(fd, SIOCGIFMTU, &request))
		device->mtu = request.ifr_mtu;
	read_driver(fd, device);
	return 0;
}

uint32_t mb_device_mtu(int fd, uint32_t index)
{
	struct ifreq request = { .ifr_ifindex = (int)index };

	return ioctl(fd, SIOCGIFNAME, &request) || ioctl(fd, SIOCGIFMTU, &request) ? 0 : (uint32_t)request.ifr_mtu;
}

/* The answer to RTM_GETLINK, or NULL, with an errno. The kernel answers once it has finished what it does to interfaces:
 * one that is being deleted is not there any more. */
static const struct nlmsghdr *get_link(uint32_t index, void *answer, size_t length)
{
	mb_auto_close int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	const struct {
		struct nlmsghdr header;
		struct ifinfomsg link;
	} request = {
		.header = { .nlmsg_len = sizeof(request), .nlmsg_type = RTM_GETLINK, .nlmsg_flags = NLM_F_REQUEST },
		.link = { .ifi_family = AF_UNSPEC, .ifi_index = (int)index },
	};
	const struct nlmsghdr *header = answer;
	ssize_t received;

	if (fd < 0 || send(fd, &request, sizeof(request), 0) < 0)
		return NULL;
	received = recv(fd, answer, length, 0);
	if (received < 0)
		return NULL;
	if (NLMSG_OK(header, (size_t)received) && header->nlmsg_type == RTM_NEWLINK)
		return header;
	errno = NLMSG_OK(header, (size_t)received) && header->nlmsg_type == NLMSG_ERROR ?
			-((const struct nlmsgerr *)NLMSG_DATA(header))->error :
			0;
	errno = errno ? errno : EPROTO;
	return NULL;
}

int mb_device_flags(uint32_t index, uint32_t *flags)
{
	char answer[32768] __attribute__((aligned(NLMSG_ALIGNTO)));
	const struct nlmsghdr *header = get_link(index, answer, sizeof(answer));

	if (!header)
		return -errno;
	*flags = ((const struct ifinfomsg *)NLMSG_DATA(header))->ifi_flags;
	return 0;
}

/* Newer kernels report more, older ones less. */
static void read_stats(struct mb_device_counts *counts, const void *reported, size_t length)
{
	struct rtnl_link_stats64 stats = { 0 };

	memcpy(&stats, reported, length < sizeof(stats) ? length : sizeof(stats));
	counts->known = true;
	counts->missed = stats.rx_missed_errors;
	counts->rx_packets = stats.rx_packets;
	counts->rx_bytes = stats.rx_bytes;
	counts->tx_packets = stats.tx_packets;
	counts->tx_bytes = stats.tx_bytes;
}

void mb_device_count(uint32_t index, struct mb_device_counts *counts)
{
	char answer[32768] __attribute__((aligned(NLMSG_ALIGNTO)));
	const struct nlmsghdr *header = get_link(index, answer, sizeof(answer));
	const struct rtattr *attribute = header ? IFLA_RTA(NLMSG_DATA(header)) : NULL;
	int left = header ? (int)IFLA_PAYLOAD(header) : 0;

	*counts = (struct mb_device_counts){ 0 };
	for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left)) {
		if (attribute->rta_type == IFLA_STATS64)
			read_stats(counts, RTA_DATA(attribute), RTA_PAYLOAD(attribute));
		else if (attribute->rta_type == IFLA_CARRIER_DOWN_COUNT)
			memcpy(&counts->carrier_lost, RTA_DATA(attribute), sizeof(counts->carrier_lost));
	}
}

int mb_device_promiscuous(const struct mb_device *device, int fd, struct mb_error *error)
{
	struct packet_mreq request = { .mr_ifindex = (int)device->index, .mr_type = PACKET_MR_PROMISC };

	if (setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &request, sizeof(request)))
		return mb_fail_errno(error, errno, "%s: promiscuous mode", device->name);
	return 0;
}

int mb_device_linktype(uint16_t arphrd)
{
	switch (arphrd) {
	case ARPHRD_ETHER:
	case ARPHRD_LOOPBACK:
		return MB_LINKTYPE_ETHERNET;
	case ARPHRD_NONE:
	case ARPHRD_RAWIP:
	case ARPHRD_PPP:
	case ARPHRD_TUNNEL:
	case ARPHRD_TUNNEL6:
	case ARPHRD_SIT:
		return MB_LINKTYPE_RAW;
	default:
		return -1;
	}
}

enum mb_direction mb_device_direction(const struct mb_device *device, enum mb_direction asked, const char **notice)
{
	*notice = NULL;
	if (!device->loopback || asked == MB_DIRECTION_IN)
		return asked;
	*notice = MB_LOOPBACK_NOTICE;
	return MB_DIRECTION_IN;
}

int mb_device_down(const char *name, struct mb_error *error)
{
	return mb_fail(error, ENETDOWN, "%s: the interface is down: ip link set %s up", name, name);
}

int mb_device_lost(const char *name, int code, struct mb_error *error)
{
	struct mb_device device;
	const int status = mb_device_read(&device, name, NULL);
	uint32_t flags;

	if (status == -ENODEV || (!status && mb_device_flags((uint32_t)device.index, &flags) == -ENODEV))
		return mb_fail(error, ENODEV,
			       "%s: the interface has vanished (deleted, renamed or "
			       "moved to another network namespace)",
			       name);
	if (code == ENETDOWN || (!status && !device.up))
		return mb_fail(error, ENETDOWN, "%s: the interface was set down", name);
	return mb_fail_errno(error, code, "%s: the capture broke off", name);
}

int mb_device_missing(const char *name, struct mb_error *error)
{
	if (strlen(name) >= IFNAMSIZ)
		return mb_fail(error, ENODEV,
			       "%s: no such interface by a name of at most %d bytes: " MB_DEVICE_SHORT_NAME, name,
			       IFNAMSIZ - 1);
	return mb_fail(error, ENODEV, "%s: no such interface: `ip link` lists them", name);
}

int mb_device_forbidden(const char *name, struct mb_error *error)
{
	char program[256];
	ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);

	program[length < 0 ? 0 : length] = 0;
	return mb_fail(error, EPERM,
		       "%s: capturing needs CAP_NET_RAW: run as root, or once: "
		       "sudo setcap cap_net_raw+ep %s",
		       name, program);
}

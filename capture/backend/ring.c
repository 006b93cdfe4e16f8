/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/ring.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "backend/drop_queue.h"
#include "cleanup.h"
#include "protocols.h"

/* Many small blocks: if frames are few, each block closes after MB_RING_RETIRE_MS with little in it, so that the number
 * of blocks limits how long the reader may stall. */
#define BLOCK_SIZE (256u << 10)
#define FRAME_SIZE 2048 /* only for the kernel's sanity check: frames of V3 have any size */

/* Room that a frame takes in a block in addition to its bytes, rounded up. */
#define FRAME_OVERHEAD 256

static struct tpacket_block_desc *block_at(const struct mb_ring *ring, uint64_t index)
{
	return (void *)(ring->map + index % ring->block_count * ring->block_size);
}

static bool filled(const struct tpacket_block_desc *block)
{
	return __atomic_load_n(&block->hdr.bh1.block_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER;
}

/* Choose blocks that hold the longest frame; for a very small ring, smaller blocks: while one block is read, the kernel
 * needs others to fill. */
static void choose_blocks(struct mb_ring *ring, uint64_t ring_bytes, uint32_t snaplen)
{
	const uint32_t least = snaplen + FRAME_OVERHEAD;

	ring->block_size = BLOCK_SIZE;
	while (ring->block_size < least)
		ring->block_size *= 2;
	while (ring->block_size > 4096 && ring->block_size / 2 >= least && ring_bytes / ring->block_size < 4)
		ring->block_size /= 2;
	ring->block_count = (uint32_t)(ring_bytes / ring->block_size);
	if (ring->block_count < 2)
		ring->block_count = 2;
}

static int map_ring(struct mb_ring *ring, const char *name, struct mb_error *error)
{
	const size_t bytes = (size_t)ring->block_size * ring->block_count;
	struct tpacket_req3 request = {
		.tp_block_size = ring->block_size,
		.tp_block_nr = ring->block_count,
		.tp_frame_size = FRAME_SIZE,
		.tp_frame_nr = (unsigned int)(bytes / FRAME_SIZE),
		.tp_retire_blk_tov = MB_RING_RETIRE_MS,
	};
	void *map;

	if (setsockopt(ring->fd, SOL_PACKET, PACKET_RX_RING, &request, sizeof(request)))
		return mb_fail_errno(error, errno, "%s: a ring of %zu MiB (smaller ones: --ring)", name, bytes >> 20);
	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, 0);
	if (map == MAP_FAILED)
		return mb_fail_errno(error, errno, "%s: mapping a ring of %zu MiB", name, bytes >> 20);
	ring->map = map;
	return 0;
}

static int set_option(int fd, int option, int value, const char *what, const char *name, struct mb_error *error)
{
	if (setsockopt(fd, SOL_PACKET, option, &value, sizeof(value)))
		return mb_fail_errno(error, errno, "%s: %s", name, what);
	return 0;
}

int mb_ring_init(struct mb_ring *ring, const struct mb_device *device, const struct mb_stamping *stamping,
		 uint64_t ring_bytes, uint32_t snaplen, struct mb_error *error)
{
	int status;

	*ring = (struct mb_ring){ .stamping = stamping, .ethernet = mb_device_linktype(device->arphrd) == 1 };
	/* Protocol 0: no frame arrives before bind(). */
	ring->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (ring->fd < 0)
		return errno == EPERM ? mb_device_forbidden(device->name, error) :
					mb_fail_errno(error, errno, "%s: packet socket", device->name);
	choose_blocks(ring, ring_bytes, snaplen);
	status = mb_stamping_apply(stamping, ring->fd, error);
	if (!status)
		status = set_option(ring->fd, PACKET_VERSION, TPACKET_V3, "TPACKET_V3", device->name, error);
	if (!status)
		status = set_option(ring->fd, PACKET_VNET_HDR, 1, "PACKET_VNET_HDR", device->name, error);
	if (!status)
		status = set_option(ring->fd, PACKET_RESERVE, MB_VLAN_TAG, "PACKET_RESERVE", device->name, error);
	if (!status)
		status = map_ring(ring, device->name, error);
	if (status)
		mb_ring_deinit(ring);
	return status;
}

void mb_ring_deinit(struct mb_ring *ring)
{
	if (ring->map)
		munmap(ring->map, (size_t)ring->block_size * ring->block_count);
	mb_closep(&ring->fd);
	*ring = (struct mb_ring){ .fd = -1 };
}

int mb_ring_bind(struct mb_ring *ring, const struct mb_device *device, struct mb_error *error)
{
	struct sockaddr_ll address = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(ETH_P_ALL),
		.sll_ifindex = (int)device->index,
	};

	if (bind(ring->fd, (struct sockaddr *)&address, sizeof(address)))
		return mb_device_lost(device->name, errno, error);
	mb_packet_drops(ring->fd);
	ring->asked_ns = mb_clock_ns(CLOCK_MONOTONIC);
	ring->asked_stamp_ns = mb_clock_ns(ring->stamping->clock);
	return 0;
}

uint32_t mb_packet_drops(int fd)
{
	struct tpacket_stats_v3 stats = { 0 };
	socklen_t length = sizeof(stats);

	return getsockopt(fd, SOL_PACKET, PACKET_STATISTICS, &stats, &length) ? 0 : stats.tp_drops;
}

/* When the ring became full: the stamp of the last frame that found room. INT64_MIN if it is not full now. */
static int64_t full_since(const struct mb_ring *ring)
{
	const struct tpacket_block_desc *newest = block_at(ring, ring->released + ring->block_count - 1);
	const struct tpacket_bd_ts *last = &newest->hdr.bh1.ts_last_pkt;

	return filled(newest) ? last->ts_sec * 1000000000ll + last->ts_nsec : INT64_MIN;
}

static void ask_for_drops(struct mb_ring *ring, struct mb_loss *loss)
{
	int64_t now = mb_clock_ns(CLOCK_MONOTONIC), before = ring->asked_stamp_ns, since;

	loss->packets = 0;
	if (now - ring->asked_ns < MB_LOSS_DELAY_NS)
		return;
	since = full_since(ring);
	ring->asked_ns = now;
	ring->asked_stamp_ns = mb_clock_ns(ring->stamping->clock);
	*loss = mb_loss_between(before, ring->asked_stamp_ns, mb_packet_drops(ring->fd));
	if (since > loss->first_ns && since <= loss->last_ns)
		loss->first_ns = since;
}

/* Put back the tag that the kernel took out of the frame at DATA, by moving the addresses into the reserved room before
 * them. Returns where the frame now begins. */
static uint8_t *restore_vlan_tag(uint8_t *data, const struct tpacket3_hdr *header, struct mb_frame *frame)
{
	const bool has_tpid = header->tp_status & TP_STATUS_VLAN_TPID_VALID;
	const uint16_t tag[2] = { htons(has_tpid ? header->hv1.tp_vlan_tpid : ETH_P_8021Q),
				  htons((uint16_t)header->hv1.tp_vlan_tci) };

	frame->len += MB_VLAN_TAG;
	if (frame->caplen < 2 * ETH_ALEN) /* cut off before the position of the tag */
		return data;
	memmove(data - MB_VLAN_TAG, data, 2 * ETH_ALEN);
	data -= MB_VLAN_TAG;
	memcpy(data + 2 * ETH_ALEN, tag, sizeof(tag));
	frame->caplen += MB_VLAN_TAG;
	return data;
}

static void fill_frame(const struct mb_ring *ring, const struct tpacket3_hdr *header, struct mb_frame *frame)
{
	const struct sockaddr_ll *from = (void *)((uint8_t *)header + TPACKET_ALIGN(sizeof(*header)));
	uint8_t *data = (uint8_t *)header + header->tp_mac;
	struct virtio_net_hdr merged;

	memcpy(&merged, data - sizeof(merged), sizeof(merged));
	frame->ts_ns = header->tp_sec * 1000000000ll + header->tp_nsec;
	frame->caplen = header->tp_snaplen;
	frame->len = header->tp_len;
	frame->interface = 0;
	frame->gso_size = merged.gso_type & ~VIRTIO_NET_HDR_GSO_ECN ? merged.gso_size : 0;
	frame->direction = from->sll_pkttype == PACKET_OUTGOING ? MB_DIRECTION_OUT : MB_DIRECTION_IN;
	frame->quality = mb_stamp_quality(header->tp_status);
	frame->unused = 0;
	if (ring->ethernet && header->tp_status & TP_STATUS_VLAN_VALID)
		data = restore_vlan_tag(data, header, frame);
	frame->data = data;
}

/* Enter the next block that the kernel has filled. */
static bool enter_block(struct mb_ring *ring)
{
	const struct tpacket_block_desc *block = block_at(ring, ring->walked);

	if (ring->walked - ring->released == ring->block_count || !filled(block))
		return false;
	ring->next = (const uint8_t *)block + block->hdr.bh1.offset_to_first_pkt;
	ring->left = block->hdr.bh1.num_pkts;
	return true;
}

static uint32_t walk(struct mb_ring *ring, struct mb_frame *frames, uint32_t capacity)
{
	uint32_t count = 0;

	while (count < capacity && (ring->left || enter_block(ring))) {
		uint32_t some = ring->left < capacity - count ? ring->left : capacity - count;

		for (uint32_t end = count + some; count < end; count++) {
			const struct tpacket3_hdr *header = (const void *)ring->next;

			ring->next += header->tp_next_offset;
			fill_frame(ring, header, &frames[count]);
		}
		ring->left -= some;
		if (!ring->left)
			ring->walked++;
	}
	return count;
}

uint32_t mb_ring_read(struct mb_ring *ring, struct mb_frame *frames, uint32_t capacity, struct mb_loss *loss)
{
	ask_for_drops(ring, loss);
	for (; ring->released < ring->walked; ring->released++)
		__atomic_store_n(&block_at(ring, ring->released)->hdr.bh1.block_status, TP_STATUS_KERNEL,
				 __ATOMIC_RELEASE);
	return walk(ring, frames, capacity);
}

bool mb_ring_is_empty(const struct mb_ring *ring)
{
	const struct tpacket_block_desc *block = block_at(ring, ring->walked);

	/* The block is then the one that the kernel is filling, and has the count of packets so far. */
	return !ring->left && !filled(block) && !__atomic_load_n(&block->hdr.bh1.num_pkts, __ATOMIC_RELAXED);
}

bool mb_ring_wait(struct mb_ring *ring, int timeout_ms)
{
	struct pollfd poll_fd = { .fd = ring->fd, .events = POLLIN };
	socklen_t length = sizeof(ring->failure);

	if (ring->failure)
		return false;
	if (poll(&poll_fd, 1, timeout_ms) <= 0 || !(poll_fd.revents & (POLLERR | POLLHUP | POLLNVAL)))
		return true;
	if (getsockopt(ring->fd, SOL_SOCKET, SO_ERROR, &ring->failure, &length))
		ring->failure = errno;
	if (ring->failure)
		poll(NULL, 0, MB_RING_SETTLE_MS);
	return true;
}

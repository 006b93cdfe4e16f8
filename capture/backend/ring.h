/* SPDX-License-Identifier: Apache-2.0
 *
 * A packet socket with a receive ring (TPACKET_V3) that the kernel fills block by block:
 * packet(7), Documentation/networking/packet_mmap.rst of the kernel. One thread at a time.
 *
 * Life: init (nothing arrives yet) → the caller's socket options → bind → read … → deinit.
 */
#ifndef MB_RING_H
#define MB_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/backend.h"
#include "backend/device.h"
#include "backend/timestamp.h"
#include "error.h"
#include "frame.h"

struct mb_ring {
	int fd;
	uint8_t *map;
	uint32_t block_size, block_count;
	uint64_t walked;           /* blocks walked to their end since the start … */
	uint64_t released;         /* … and how many of them were given back to the kernel */
	const uint8_t *next;       /* packet that comes next in the block being walked */
	uint32_t left;             /* packets left in it */
	bool ethernet;             /* frames have MAC addresses, behind which a VLAN tag goes */
	const struct mb_stamping *stamping;
	int64_t asked_ns;          /* CLOCK_MONOTONIC when drops were last asked for */
	int64_t asked_stamp_ns;    /* the same in the stamps' clock */
	int failure;               /* errno that ended the capture, or 0 */
};

/* Longest that the kernel keeps a block open for more frames. Each block wakes the reader once, and
 * at a few 100,000 frames a second it is the waking that costs. */
#define MB_RING_RETIRE_MS 8

/* After so long nothing that has arrived is kept back, also where the kernel's clock ticks only 100
 * times a second. */
#define MB_RING_SETTLE_MS 20

/* Make the socket and map a ring of some RING_BYTES for frames of up to SNAPLEN bytes.
 * DEVICE and STAMPING must outlive the ring. */
int mb_ring_init(struct mb_ring *ring, const struct mb_device *device, const struct mb_stamping *stamping,
		 uint64_t ring_bytes, uint32_t snaplen, struct mb_error *error);
void mb_ring_deinit(struct mb_ring *ring);

/* Begin to receive from DEVICE. */
int mb_ring_bind(struct mb_ring *ring, const struct mb_device *device, struct mb_error *error);

/* Give back what the call before yielded, then fill FRAMES with those there are, at most
 * CAPACITY; does not wait. Frames stay valid until the next call. LOSS->packets is what the
 * kernel dropped since the call before, or 0 (it is asked once in MB_LOSS_DELAY_NS). */
uint32_t mb_ring_read(struct mb_ring *ring, struct mb_frame *frames, uint32_t capacity, struct mb_loss *loss);

/* Sleep until there is something to read, at most TIMEOUT_MS, or shorter where a signal comes.
 * False when the capture broke off (`failure`) and what had arrived before is read. */
bool mb_ring_wait(struct mb_ring *ring, int timeout_ms);

/* Whether nothing waits in the ring, neither for the caller nor for the kernel to hand it over. For
 * as long as it is not read. */
bool mb_ring_is_empty(const struct mb_ring *ring);

/* Packets that packet socket FD dropped since this was last asked of it. */
uint32_t mb_packet_drops(int fd);

#endif

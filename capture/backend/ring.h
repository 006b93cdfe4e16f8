/* SPDX-License-Identifier: Apache-2.0
 *
 * A packet socket with a receive ring (TPACKET_V3) that the kernel fills block by block: packet(7),
 * Documentation/networking/packet_mmap.rst of the kernel. Only one thread at a time may use it.
 *
 * Life cycle: init (nothing arrives yet) → the caller's socket options → bind → read … → deinit.
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
	uint64_t released;         /* … and how many of them were returned to the kernel */
	const uint8_t *next;       /* the next packet in the block being walked */
	uint32_t left;             /* packets left in it */
	bool ethernet;             /* frames have MAC addresses, which a VLAN tag follows */
	const struct mb_stamping *stamping;
	int64_t asked_ns;          /* CLOCK_MONOTONIC when drops were last read */
	int64_t asked_stamp_ns;    /* the same by the clock of the stamps */
	int failure;               /* errno that ended the capture, or 0 */
};

/* Longest time for which the kernel keeps a block open for more frames. Each block wakes the reader once, and at a few
 * 100,000 frames a second this waking dominates the cost. */
#define MB_RING_RETIRE_MS 8

/* After this long, nothing that has arrived is held back, even if the kernel's clock ticks only 100 times a second. */
#define MB_RING_SETTLE_MS 20

/* Create the socket and map a ring of about RING_BYTES for frames of up to SNAPLEN bytes. DEVICE and STAMPING must
 * outlive the ring. */
int mb_ring_init(struct mb_ring *ring, const struct mb_device *device, const struct mb_stamping *stamping,
		 uint64_t ring_bytes, uint32_t snaplen, struct mb_error *error);
void mb_ring_deinit(struct mb_ring *ring);

/* Begin to receive from DEVICE. */
int mb_ring_bind(struct mb_ring *ring, const struct mb_device *device, struct mb_error *error);

/* Return the blocks of the previous call to the kernel, then fill FRAMES with the available frames, at most CAPACITY;
 * does not wait. Frames stay valid until the next call. LOSS->packets is the number of packets that the kernel dropped
 * since the last reading of its counter, or 0 (it is read once in MB_LOSS_DELAY_NS). */
uint32_t mb_ring_read(struct mb_ring *ring, struct mb_frame *frames, uint32_t capacity, struct mb_loss *loss);

/* Sleep until there is something to read, at most TIMEOUT_MS, or until a signal. Returns false if the capture broke off
 * (`failure`) and all that had arrived before was read. */
bool mb_ring_wait(struct mb_ring *ring, int timeout_ms);

/* Whether the ring holds no frame, neither for the caller nor in a block that the kernel is filling. Valid while it is
 * not read. */
bool mb_ring_is_empty(const struct mb_ring *ring);

/* Returns the packets that packet socket FD dropped since the last call. */
uint32_t mb_packet_drops(int fd);

#endif

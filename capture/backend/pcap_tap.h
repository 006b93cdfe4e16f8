/* SPDX-License-Identifier: Apache-2.0
 *
 * A handle of libpcap on a device, and the frames that were read from it and not handed on yet. libpcap does not report
 * the direction of a frame, but a handle can be restricted to one direction, which then is the direction of its frames.
 */
#ifndef MB_PCAP_TAP_H
#define MB_PCAP_TAP_H

#include <pcap/pcap.h>
#include <stdbool.h>
#include <stdint.h>

#include "backend/backend.h"
#include "backend/frame_copies.h"
#include "backend/timestamp.h"

/* Longest time for which the kernel holds frames back to hand over several at once. Never immediate mode, which wakes
 * the reader for each frame. */
#define MB_PCAP_TIMEOUT_MS 10

struct mb_pcap_tap {
	pcap_t *handle;
	bool packet_socket;   /* its descriptor is a packet(7) socket */
	uint8_t direction;    /* enum mb_direction, of each frame */
	uint8_t quality;      /* of each frame */
	uint32_t ns_per_tick; /* of tv_usec */
	uint64_t dropped_before;
	struct mb_frame_copies copies;
	struct mb_batch batch; /* as last read */
	uint32_t next;         /* the first frame of the batch that was not handed on */
	int64_t read_ns, read_stamp_ns; /* when the batch was read: CLOCK_MONOTONIC, and the clock of the stamps */
};

/* Open a handle on OPTIONS->target, in promiscuous mode if IS_PROMISCUOUS. NOTICE receives warnings of libpcap. Returns
 * 0, or a negative errno with ERROR filled. */
int mb_pcap_tap_activate(struct mb_pcap_tap *tap, const struct mb_backend_options *options, bool is_promiscuous,
			 struct mb_stamping *stamping, char notice[MB_ERROR_LENGTH], struct mb_error *error);

/* Whether only the kernel knows the direction of its frames, so that a handle can be restricted to one direction
 * there. */
bool mb_pcap_tap_splits(const struct mb_pcap_tap *tap);

/* Capture frames of DIRECTION (UNKNOWN: both) from now on. Returns 0, or a negative errno with ERROR filled. */
int mb_pcap_tap_begin(struct mb_pcap_tap *tap, const struct mb_backend_options *options, enum mb_direction direction,
		      const struct mb_stamping *stamping, struct mb_error *error);

/* Read its next frames, once the previous ones were handed on. Returns their number; 0 if none came; negative if
 * libpcap failed. */
int mb_pcap_tap_read(struct mb_pcap_tap *tap, const struct mb_stamping *stamping);

/* Have the kernel hand over no further frames. Returns false if that is not possible. */
bool mb_pcap_tap_shut(const struct mb_pcap_tap *tap, const char *target);

/* Returns the packets that were dropped since the last call. */
uint64_t mb_pcap_tap_dropped(struct mb_pcap_tap *tap);

void mb_pcap_tap_close(struct mb_pcap_tap *tap);

#endif

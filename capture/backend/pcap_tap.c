/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/pcap_tap.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "backend/cbpf.h"
#include "backend/device.h"
#include "backend/ring.h"

static int configure(struct mb_pcap_tap *tap, const struct mb_backend_options *options, bool is_promiscuous,
		     const struct mb_stamping *stamping, struct mb_error *error)
{
	uint64_t bytes = options->ring_bytes ? options->ring_bytes : MB_LIVE_RING_BYTES;
	int status;

	if (bytes > INT32_MAX)
		return mb_fail(error, EINVAL, "%s: libpcap's buffer is less than 2 GiB", options->target);
	pcap_set_snaplen(tap->handle, options->snaplen ? (int)options->snaplen : MB_LIVE_SNAPLEN);
	pcap_set_promisc(tap->handle, is_promiscuous);
	pcap_set_timeout(tap->handle, MB_PCAP_TIMEOUT_MS);
	pcap_set_buffer_size(tap->handle, (int)bytes);
	tap->ns_per_tick = pcap_set_tstamp_precision(tap->handle, PCAP_TSTAMP_PRECISION_NANO) ? 1000 : 1;
	/* ADAPTER_UNSYNCED, because the kernel does not support the mode of ADAPTER. */
	status = stamping->hardware ? pcap_set_tstamp_type(tap->handle, PCAP_TSTAMP_ADAPTER_UNSYNCED) : 0;
	if (status)
		return mb_fail(error, EOPNOTSUPP, "%s: hardware stamps: %s", options->target, pcap_statustostr(status));
	return 0;
}

static int refuse(const struct mb_pcap_tap *tap, int status, const char *target, struct mb_error *error)
{
	const char *what = pcap_statustostr(status), *why = pcap_geterr(tap->handle);

	switch (status) {
	case PCAP_ERROR_PERM_DENIED:
		return mb_device_forbidden(target, error);
	case PCAP_ERROR_NO_SUCH_DEVICE:
		return mb_device_missing(target, error);
	case PCAP_ERROR_IFACE_NOT_UP:
		return mb_device_down(target, error);
	}
	if (!*why || !strcmp(what, why))
		return mb_fail(error, EIO, "%s: %s", target, what);
	return mb_fail(error, EIO, "%s: %s: %s", target, what, why);
}

/* If the device has no hardware stamps, libpcap warns and would continue with host time. */
static int activate(struct mb_pcap_tap *tap, const char *target, struct mb_stamping *stamping,
		    char notice[MB_ERROR_LENGTH], struct mb_error *error)
{
	int status = pcap_activate(tap->handle);

	if (status < 0)
		return refuse(tap, status, target, error);
	if (stamping->hardware)
		mb_stamping_adopt(stamping);
	if (status == PCAP_WARNING_TSTAMP_TYPE_NOTSUP)
		return mb_fail(error, EOPNOTSUPP, "%s has no hardware stamps", target);
	if (status > 0)
		snprintf(notice, MB_ERROR_LENGTH, "%s: %s", target, pcap_geterr(tap->handle));
	if (pcap_datalink(tap->handle) == DLT_LINUX_SLL) /* version 2 has the interface, too */
		pcap_set_datalink(tap->handle, DLT_LINUX_SLL2);
	if (pcap_get_tstamp_precision(tap->handle) != PCAP_TSTAMP_PRECISION_NANO)
		tap->ns_per_tick = 1000;
	return 0;
}

/* On Linux most handles are packet sockets. */
static bool is_packet_socket(pcap_t *handle)
{
	socklen_t length = sizeof(int);
	int domain;

	return !getsockopt(pcap_fileno(handle), SOL_SOCKET, SO_DOMAIN, &domain, &length) && domain == AF_PACKET;
}

int mb_pcap_tap_activate(struct mb_pcap_tap *tap, const struct mb_backend_options *options, bool is_promiscuous,
			 struct mb_stamping *stamping, char notice[MB_ERROR_LENGTH], struct mb_error *error)
{
	char reason[PCAP_ERRBUF_SIZE] = "";
	int status;

	tap->handle = pcap_create(options->target, reason);
	if (!tap->handle)
		return mb_fail(error, ENODEV, "%s: %s", options->target, reason);
	status = configure(tap, options, is_promiscuous, stamping, error);
	if (!status)
		status = activate(tap, options->target, stamping, notice, error);
	if (!status)
		tap->packet_socket = is_packet_socket(tap->handle);
	return status;
}

/* Frames of other link types have the direction in their headers, or get headers from libpcap, for which programs of
 * the kernel do not fit. */
bool mb_pcap_tap_splits(const struct mb_pcap_tap *tap)
{
	int linktype = pcap_datalink(tap->handle);

	return tap->packet_socket && (linktype == DLT_EN10MB || linktype == DLT_RAW);
}

/* pcap_setdirection() excludes frames when they are read, even frames that came before the kernel's filter was set. The
 * kernel's filter keeps them from taking room. */
static int set_filter(struct mb_pcap_tap *tap, const struct mb_backend_options *options, struct mb_error *error)
{
	struct mb_cbpf program;
	struct bpf_program compiled;
	int status = mb_cbpf_compile_for(&program, tap->handle, options->target, options->filter, error);

	if (status)
		return status;
	compiled = (struct bpf_program){ program.length, (struct bpf_insn *)program.code };
	if (options->filter && *options->filter && pcap_setfilter(tap->handle, &compiled))
		return mb_fail(error, EIO, "%s: filter: %s", options->target, pcap_geterr(tap->handle));
	if (tap->direction == MB_DIRECTION_UNKNOWN || !mb_pcap_tap_splits(tap))
		return 0;
	status = mb_cbpf_restrict(&program, tap->direction, error);
	if (status)
		return status;
	mb_cbpf_truncate(&program, (uint32_t)pcap_snapshot(tap->handle));
	return mb_cbpf_attach(&program, pcap_fileno(tap->handle), options->target, error);
}

static int restrict_frames(struct mb_pcap_tap *tap, const struct mb_backend_options *options,
			   enum mb_direction direction, struct mb_error *error)
{
	static const pcap_direction_t directions[] = { PCAP_D_INOUT, PCAP_D_IN, PCAP_D_OUT };

	tap->direction = (uint8_t)direction;
	if (direction && pcap_setdirection(tap->handle, directions[direction]))
		return mb_fail(error, EOPNOTSUPP, "%s: one direction alone: %s", options->target,
			       pcap_geterr(tap->handle));
	return set_filter(tap, options, error);
}

static void discard_frame(u_char *user, const struct pcap_pkthdr *header, const u_char *data)
{
	(void)user;
	(void)header;
	(void)data;
}

int mb_pcap_tap_begin(struct mb_pcap_tap *tap, const struct mb_backend_options *options, enum mb_direction direction,
		      const struct mb_stamping *stamping, struct mb_error *error)
{
	char reason[PCAP_ERRBUF_SIZE] = "";
	int status = restrict_frames(tap, options, direction, error);

	if (!status && pcap_setnonblock(tap->handle, 1, reason))
		status = mb_fail(error, EIO, "%s: %s", options->target, reason);
	if (!status && tap->packet_socket) { /* libpcap does not request stamps on receipt for it */
		tap->quality = stamping->hardware ? 0 : MB_QUALITY_SW;
		status = mb_stamping_apply(stamping, pcap_fileno(tap->handle), error);
	}
	if (status)
		return status;
	pcap_dispatch(tap->handle, -1, discard_frame, NULL); /* discard frames from before all this was set */
	mb_pcap_tap_dropped(tap);
	return mb_frame_copies_init(&tap->copies, (uint32_t)pcap_snapshot(tap->handle), MB_FRAME_COPIES_BYTES) ?
		       0 :
		       mb_fail_errno(error, ENOMEM, "%s", options->target);
}

void mb_pcap_tap_close(struct mb_pcap_tap *tap)
{
	if (tap->handle)
		pcap_close(tap->handle);
	mb_frame_copies_deinit(&tap->copies);
}

static void keep_frame(u_char *user, const struct pcap_pkthdr *header, const u_char *data)
{
	struct mb_pcap_tap *tap = (struct mb_pcap_tap *)user;
	uint32_t index = tap->batch.count++;
	struct mb_frame *frame = &tap->batch.frames[index];

	*frame = (struct mb_frame){
		.ts_ns = header->ts.tv_sec * 1000000000ll + (int64_t)header->ts.tv_usec * tap->ns_per_tick,
		.data = data,
		.caplen = header->caplen,
		.len = header->len,
		.direction = tap->direction,
		.quality = tap->quality,
	};
	mb_frame_copies_keep(&tap->copies, index, frame);
}

int mb_pcap_tap_read(struct mb_pcap_tap *tap, const struct mb_stamping *stamping)
{
	int status;

	tap->batch.count = tap->next = 0;
	tap->read_ns = mb_clock_ns(CLOCK_MONOTONIC);
	tap->read_stamp_ns = mb_clock_ns(stamping->clock);
	status = pcap_dispatch(tap->handle, (int)tap->copies.count, keep_frame, (u_char *)tap);
	return tap->batch.count ? (int)tap->batch.count : status;
}

bool mb_pcap_tap_shut(const struct mb_pcap_tap *tap, const char *target)
{
	return tap->packet_socket && !mb_cbpf_attach(&mb_cbpf_nothing, pcap_fileno(tap->handle), target, NULL);
}

/* The drops of a packet socket, without the side effects of pcap_stats(). */
uint64_t mb_pcap_tap_dropped(struct mb_pcap_tap *tap)
{
	struct pcap_stat stats;
	uint64_t before = tap->dropped_before;

	if (tap->packet_socket)
		return mb_packet_drops(pcap_fileno(tap->handle));
	if (pcap_stats(tap->handle, &stats))
		return 0;
	tap->dropped_before = stats.ps_drop;
	return (uint32_t)(stats.ps_drop - before); /* ps_drop is 32 bits and wraps */
}

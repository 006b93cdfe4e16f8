/* SPDX-License-Identifier: Apache-2.0
 *
 * libpcap: every device that it knows and no other backend takes, such as `any`, USB or nflog.
 */
#include <errno.h>
#include <pcap/pcap.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "backend/backend.h"
#include "backend/cbpf.h"
#include "backend/device.h"
#include "backend/frame_copies.h"
#include "backend/ring.h"
#include "backend/rx_counters.h"
#include "backend/timestamp.h"
#include "cleanup.h"
#include "linktype.h"

/* Longest that the kernel keeps frames back to hand over several at once. Never immediate
 * mode, which wakes the reader for each of them. */
#define READ_TIMEOUT_MS 10
#define LOOK_NS 500000000 /* how often a silent device is looked at */
#define REST_NS 100000000 /* how long a device that cannot be shut is read after stop */
/* Captured bytes in a batch, unless a single frame has more: libpcap's own go stale while
 * the rest of a batch is read. */
#define COPIES_BYTES (1u << 20)

struct libpcap_backend {
	struct mb_rx_counters rx; /* first: its functions are among the ops */
	pcap_t *handle;
	bool packet_socket;           /* its descriptor is one of packet(7) */
	struct mb_stamping stamping;
	uint32_t ns_per_tick;         /* of tv_usec */
	uint8_t frame_quality, direction;
	struct mb_frame_copies copies;
	int64_t asked_ns;             /* stamps' clock, when drops were last asked for */
	uint64_t dropped_before;
	int64_t looked_ns;            /* CLOCK_MONOTONIC, when the device was last seen to be up */
	int64_t rest_ns;              /* CLOCK_MONOTONIC, until when to read after stop */
	bool settled;                 /* by then nothing is kept back */
	bool broken;                  /* libpcap said so: what it still holds comes first */
	char reason[PCAP_ERRBUF_SIZE];
	int failed;                   /* negative errno that every further read() returns */
	struct mb_error failure;
	char notice[MB_ERROR_LENGTH];
};

struct filling {
	struct libpcap_backend *state;
	struct mb_batch *batch;
};

static bool libpcap_backend_accepts(const char *target)
{
	char reason[PCAP_ERRBUF_SIZE];
	pcap_if_t *devices;
	bool known = false;

	if (pcap_findalldevs(&devices, reason))
		return false;
	for (const pcap_if_t *device = devices; device && !known; device = device->next)
		known = !strcmp(device->name, target);
	pcap_freealldevs(devices);
	return known;
}

/* LINKTYPE_ as files have it, where that differs from this platform's DLT_ (pcap-linktype(7)). */
static uint32_t linktype_of(int dlt)
{
	return dlt == DLT_RAW ? MB_LINKTYPE_RAW : (uint32_t)dlt;
}

/* Hardware stamps are ADAPTER_UNSYNCED: the kernel does not know ADAPTER's mode. Where the
 * device has none, libpcap warns and would go on with host time. */
static int ask_for_hardware(struct libpcap_backend *state, const char *target, struct mb_error *error)
{
	int status = mb_stamping_init(&state->stamping, target, MB_STAMPS_HW, error);

	if (status)
		return status;
	status = pcap_set_tstamp_type(state->handle, PCAP_TSTAMP_ADAPTER_UNSYNCED);
	if (status)
		return mb_fail(error, EOPNOTSUPP, "%s: hardware stamps: %s", target, pcap_statustostr(status));
	memcpy(state->notice, state->stamping.notice, sizeof(state->notice));
	return 0;
}

static int configure(struct libpcap_backend *state, const struct mb_backend_options *options, struct mb_error *error)
{
	uint64_t bytes = options->ring_bytes ? options->ring_bytes : MB_LIVE_RING_BYTES;

	if (bytes > INT32_MAX)
		return mb_fail(error, EINVAL, "%s: libpcap's buffer is less than 2 GiB", options->target);
	pcap_set_snaplen(state->handle, (int)state->rx.interface.snaplen);
	pcap_set_promisc(state->handle, !options->own_traffic);
	pcap_set_timeout(state->handle, READ_TIMEOUT_MS);
	pcap_set_buffer_size(state->handle, (int)bytes);
	state->ns_per_tick = pcap_set_tstamp_precision(state->handle, PCAP_TSTAMP_PRECISION_NANO) ? 1000 : 1;
	if (options->stamps == MB_STAMPS_HW)
		return ask_for_hardware(state, options->target, error);
	return mb_stamping_init(&state->stamping, options->target, MB_STAMPS_SW, error);
}

static int activate(struct libpcap_backend *state, const char *target, struct mb_error *error)
{
	int status = pcap_activate(state->handle);

	if (status == PCAP_ERROR_PERM_DENIED)
		return mb_device_forbidden(target, error);
	if (status == PCAP_ERROR_NO_SUCH_DEVICE)
		return mb_device_missing(target, error);
	if (status < 0)
		return mb_fail(error, EIO, "%s: %s%s%s", target, pcap_statustostr(status),
			       *pcap_geterr(state->handle) ? ": " : "", pcap_geterr(state->handle));
	if (state->stamping.hardware)
		mb_stamping_adopt(&state->stamping);
	if (status == PCAP_WARNING_TSTAMP_TYPE_NOTSUP)
		return mb_fail(error, EOPNOTSUPP, "%s has no hardware stamps", target);
	if (status > 0)
		snprintf(state->notice, sizeof(state->notice), "%s: %s", target, pcap_geterr(state->handle));
	if (pcap_datalink(state->handle) == DLT_LINUX_SLL) /* version 2 says which interface, too */
		pcap_set_datalink(state->handle, DLT_LINUX_SLL2);
	return 0;
}

static int filter_and_direct(struct libpcap_backend *state, const struct mb_backend_options *options,
			     struct mb_error *error)
{
	static const pcap_direction_t directions[] = { PCAP_D_INOUT, PCAP_D_IN, PCAP_D_OUT };
	struct bpf_program program;
	int status;

	if (options->filter && *options->filter) {
		if (pcap_compile(state->handle, &program, options->filter, 1, PCAP_NETMASK_UNKNOWN))
			return mb_fail(error, EINVAL, "filter '%s': %s", options->filter, pcap_geterr(state->handle));
		status = pcap_setfilter(state->handle, &program);
		pcap_freecode(&program);
		if (status)
			return mb_fail(error, EIO, "%s: filter: %s", options->target, pcap_geterr(state->handle));
	}
	state->direction = options->direction;
	if (options->direction && pcap_setdirection(state->handle, directions[options->direction]))
		return mb_fail(error, EOPNOTSUPP, "%s: one direction alone: %s", options->target,
			       pcap_geterr(state->handle));
	return 0;
}

static void discard_frame(u_char *user, const struct pcap_pkthdr *header, const u_char *data)
{
	(void)user;
	(void)header;
	(void)data;
}

/* On Linux most handles are packet sockets. Those can be asked to stamp on receipt, which
 * libpcap does not, and asked for drops without the side work of pcap_stats(). */
static int adopt_socket(struct libpcap_backend *state, struct mb_error *error)
{
	int fd = pcap_fileno(state->handle), domain;
	socklen_t length = sizeof(domain);

	state->packet_socket = !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) && domain == AF_PACKET;
	if (!state->packet_socket)
		return 0;
	if (!state->stamping.hardware)
		state->frame_quality = MB_QUALITY_SW;
	return mb_stamping_apply(&state->stamping, fd, error);
}

static void describe_interface(struct libpcap_backend *state, const char *target)
{
	struct mb_interface *interface = &state->rx.interface;
	struct mb_device device;

	interface->linktype = linktype_of(pcap_datalink(state->handle));
	if (!mb_device_read(&device, target, NULL))
		interface->link_bps = device.link_bps;
	if (pcap_get_tstamp_precision(state->handle) != PCAP_TSTAMP_PRECISION_NANO)
		state->ns_per_tick = 1000;
	if (state->ns_per_tick > 1)
		interface->quality |= MB_QUALITY_FILE_US;
	if (!state->stamping.synchronized)
		interface->quality |= MB_QUALITY_UNSYNCED;
}

static uint64_t dropped_since(struct libpcap_backend *state)
{
	struct pcap_stat stats;
	uint64_t before = state->dropped_before;

	if (state->packet_socket)
		return mb_packet_drops(pcap_fileno(state->handle));
	if (pcap_stats(state->handle, &stats))
		return 0;
	state->dropped_before = stats.ps_drop;
	return (uint32_t)(stats.ps_drop - before); /* ps_drop is 32 bits and wraps */
}

static int open_capture(struct libpcap_backend *state, const struct mb_backend_options *options, struct mb_error *error)
{
	char reason[PCAP_ERRBUF_SIZE] = "";
	int status = mb_rx_counters_init(&state->rx, options, error);

	if (status)
		return status;
	if (options->threads > 1)
		return mb_fail(error, EINVAL, "%s: libpcap has one thread: --threads is for afpacket", options->target);
	state->handle = pcap_create(options->target, reason);
	if (!state->handle)
		return mb_fail(error, ENODEV, "%s: %s", options->target, reason);
	status = configure(state, options, error);
	if (!status)
		status = activate(state, options->target, error);
	if (!status)
		status = filter_and_direct(state, options, error);
	if (!status && pcap_setnonblock(state->handle, 1, reason))
		status = mb_fail(error, EIO, "%s: %s", options->target, reason);
	if (!status)
		status = adopt_socket(state, error);
	if (status)
		return status;
	pcap_dispatch(state->handle, -1, discard_frame, NULL); /* from before the stamps were set */
	describe_interface(state, options->target);
	dropped_since(state);
	state->asked_ns = mb_clock_ns(state->stamping.clock);
	return mb_frame_copies_init(&state->copies, state->rx.interface.snaplen, COPIES_BYTES) ?
		       0 :
		       mb_fail_errno(error, ENOMEM, "%s", options->target);
}

static void libpcap_backend_close(struct mb_backend *backend)
{
	struct libpcap_backend *state = backend->state;

	if (state->handle)
		pcap_close(state->handle);
	mb_stamping_deinit(&state->stamping);
	mb_frame_copies_deinit(&state->copies);
}

static int libpcap_backend_open(struct mb_backend *backend, const struct mb_backend_options *options,
				struct mb_error *error)
{
	struct libpcap_backend *state = backend->state;
	int status;

	state->stamping = MB_STAMPING_NONE;
	backend->live = true;
	status = open_capture(state, options, error);
	backend->restores = state->stamping.changed;
	return status;
}

static void keep_frame(u_char *user, const struct pcap_pkthdr *header, const u_char *data)
{
	struct filling *filling = (struct filling *)user;
	struct libpcap_backend *state = filling->state;
	uint32_t index = filling->batch->count++;
	struct mb_frame *frame = &filling->batch->frames[index];

	*frame = (struct mb_frame){
		.ts_ns = header->ts.tv_sec * 1000000000ll + (int64_t)header->ts.tv_usec * state->ns_per_tick,
		.data = data,
		.caplen = header->caplen,
		.len = header->len,
		.direction = state->direction,
		.quality = state->frame_quality,
	};
	mb_frame_copies_keep(&state->copies, index, frame);
}

static void ask_for_drops(struct libpcap_backend *state)
{
	int64_t now = mb_clock_ns(state->stamping.clock);
	struct mb_loss loss = mb_loss_between(state->asked_ns, now, 0);

	if (loss.last_ns - loss.first_ns < MB_LOSS_DELAY_NS)
		return;
	state->asked_ns = now;
	loss.packets = dropped_since(state);
	if (loss.packets)
		mb_drop_queue_add(&state->rx.drops, &loss);
}

static int dispatch(struct libpcap_backend *state, struct mb_batch *batch)
{
	struct filling filling = { .state = state, .batch = batch };
	int status;

	batch->count = 0;
	ask_for_drops(state);
	status = pcap_dispatch(state->handle, (int)state->copies.count, keep_frame, (u_char *)&filling);
	return batch->count ? (int)batch->count : status;
}

static void wait_for_frames(struct libpcap_backend *state, int timeout_ms)
{
	const struct timeval *least = pcap_get_required_select_timeout(state->handle);
	struct pollfd poll_fd = { .fd = pcap_get_selectable_fd(state->handle), .events = POLLIN };

	if (least && (timeout_ms < 0 || least->tv_sec * 1000 + least->tv_usec / 1000 < timeout_ms))
		timeout_ms = (int)(least->tv_sec * 1000 + least->tv_usec / 1000);
	poll(&poll_fd, poll_fd.fd >= 0, poll_fd.fd >= 0 || timeout_ms < READ_TIMEOUT_MS ? timeout_ms : READ_TIMEOUT_MS);
}

static int fail(struct libpcap_backend *state, struct mb_error *error)
{
	const char *name = state->rx.interface.name;
	struct mb_device device;

	if (strcmp(name, "any") && (mb_device_read(&device, name, NULL) || !device.up))
		state->failed = mb_device_lost(name, EIO, &state->failure);
	else
		state->failed = mb_fail(&state->failure, EIO, "%s: %s", name, state->reason);
	if (error)
		*error = state->failure;
	return state->failed;
}

/* libpcap continues silently when the interface is set down. */
static bool is_up(struct libpcap_backend *state)
{
	int64_t now = mb_clock_ns(CLOCK_MONOTONIC);
	struct mb_device device;

	if (!state->packet_socket || !strcmp(state->rx.interface.name, "any") || now - state->looked_ns < LOOK_NS)
		return true;
	state->looked_ns = now;
	return !mb_device_read(&device, state->rx.interface.name, NULL) && device.up;
}

/* Wait until the kernel hands over what it kept back, and read that. */
static int read_rest(struct libpcap_backend *state, struct mb_batch *batch)
{
	if (!state->broken) {
		snprintf(state->reason, sizeof(state->reason), "%s", pcap_geterr(state->handle));
		state->broken = true;
		poll(NULL, 0, 2 * READ_TIMEOUT_MS);
	}
	return dispatch(state, batch);
}

static int read_more(struct libpcap_backend *state, struct mb_batch *batch, int timeout_ms)
{
	int count = dispatch(state, batch);

	if (!count && !state->broken) {
		wait_for_frames(state, timeout_ms);
		count = dispatch(state, batch);
	}
	return count < 0 || (!count && !is_up(state)) ? read_rest(state, batch) : count;
}

/* What had arrived before the backend was stopped. libpcap's own way to set a filter would throw
 * it away. */
static int read_to_end(struct libpcap_backend *state, struct mb_batch *batch)
{
	int64_t now = mb_clock_ns(CLOCK_MONOTONIC);
	int count;

	if (!state->rest_ns) {
		state->rest_ns = now + REST_NS;
		if (state->packet_socket &&
		    !mb_cbpf_attach(&mb_cbpf_nothing, pcap_fileno(state->handle), state->rx.interface.name, NULL))
			state->rest_ns = INT64_MAX;
	}
	count = now < state->rest_ns ? dispatch(state, batch) : 0;
	if (!count && !state->settled) {
		poll(NULL, 0, 2 * READ_TIMEOUT_MS);
		state->settled = true;
		count = dispatch(state, batch);
	}
	return count > 0 ? count : MB_BACKEND_END;
}

static int libpcap_backend_read(struct mb_backend *backend, struct mb_batch *batch, int timeout_ms,
				struct mb_error *error)
{
	struct libpcap_backend *state = backend->state;
	int count;

	if (state->failed) {
		if (error)
			*error = state->failure;
		return state->failed;
	}
	count = backend->stop ? read_to_end(state, batch) : read_more(state, batch, timeout_ms);
	if (count == MB_BACKEND_END)
		return count;
	if (count <= 0 && state->broken)
		return fail(state, error);
	return mb_rx_counters_count(&state->rx, batch);
}

static int libpcap_backend_check(const char *target, struct mb_error *error)
{
	const struct mb_backend_options options = { .target = target ? target : "any",
						    .backend = mb_backend_libpcap.name,
						    .ring_bytes = 1 << 16,
						    .own_traffic = true };
	struct mb_backend backend;
	int status = mb_backend_open(&backend, &options, error);

	mb_backend_close(&backend);
	return status;
}

static const char *libpcap_backend_notice(const struct mb_backend *backend)
{
	const struct libpcap_backend *state = backend->state;

	return *state->notice ? state->notice : NULL;
}

const struct mb_backend_ops mb_backend_libpcap = {
	.name = "libpcap",
	.description = "any device that libpcap knows, such as the pseudo-device any",
	.accepts = libpcap_backend_accepts,
	.state_size = sizeof(struct libpcap_backend),
	.open = libpcap_backend_open,
	.read = libpcap_backend_read,
	.interfaces = mb_rx_counters_interfaces,
	.stats = mb_rx_counters_stats,
	.loss = mb_rx_counters_loss,
	.check = libpcap_backend_check,
	.notice = libpcap_backend_notice,
	.close = libpcap_backend_close,
};

/* SPDX-License-Identifier: Apache-2.0
 *
 * libpcap: every device that it knows and that no other backend accepts, such as `any`, USB or nflog.
 */
#include <errno.h>
#include <pcap/pcap.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/device.h"
#include "backend/pcap_tap.h"
#include "backend/rx_counters.h"
#include "backend/timestamp.h"
#include "linktype.h"

#define SETTLE_MS (2 * MB_PCAP_TIMEOUT_MS) /* time in which the kernel hands over the frames that it holds back */
/* After this time it has done so, even if its timer is late: a handle that was read has no older frames to come. */
#define HELD_NS (3 * MB_PCAP_TIMEOUT_MS * 1000000ll)
#define LOOK_NS 500000000 /* how often a silent device is checked */

struct libpcap_backend {
	struct mb_rx_counters rx; /* first: its functions are among the ops */
	struct mb_pcap_tap taps[2]; /* two, one for each direction, if only the kernel knows the direction */
	uint32_t tap_count;
	struct mb_stamping stamping;
	uint32_t index;               /* of the interface behind packet sockets; 0: none */
	int64_t asked_ns;             /* by the clock of the stamps: when drops were last read */
	int64_t looked_ns;            /* CLOCK_MONOTONIC, when the device was last seen to be up */
	int64_t rest_ns;              /* CLOCK_MONOTONIC, until when to read after stop */
	bool settled;                 /* from then on nothing is held back */
	bool broken;                  /* libpcap reported a fault: frames that it still holds come first */
	char reason[PCAP_ERRBUF_SIZE];
	int failed;                   /* negative errno that every further read() returns */
	struct mb_error failure;
	char notice[MB_ERROR_LENGTH];
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

static int start_stamping(struct libpcap_backend *state, const struct mb_backend_options *options,
			  struct mb_error *error)
{
	const enum mb_stamps stamps = options->stamps == MB_STAMPS_HW ? MB_STAMPS_HW : MB_STAMPS_SW;
	int status = mb_stamping_init(&state->stamping, options->target, stamps, error);

	if (!status)
		memcpy(state->notice, state->stamping.notice, sizeof(state->notice));
	return status;
}

static int add_tap(struct libpcap_backend *state, const struct mb_backend_options *options, bool is_promiscuous,
		   struct mb_error *error)
{
	return mb_pcap_tap_activate(&state->taps[state->tap_count++], options, is_promiscuous, &state->stamping,
				    state->notice, error);
}

static void describe_interface(struct libpcap_backend *state, const struct mb_device *device)
{
	struct mb_interface *interface = &state->rx.interface;

	interface->linktype = mb_linktype_of_dlt(pcap_datalink(state->taps[0].handle));
	interface->link_bps = device->link_bps;
	state->index = state->taps[0].packet_socket ? device->index : 0;
	if (state->taps[0].ns_per_tick > 1)
		interface->quality |= MB_QUALITY_FILE_US;
	if (!state->stamping.synchronized)
		interface->quality |= MB_QUALITY_UNSYNCED;
}

/* Let frames in, by as many handles as are needed to know the direction of each frame. */
static int begin_taps(struct libpcap_backend *state, const struct mb_backend_options *options,
		      const struct mb_device *device, struct mb_error *error)
{
	enum mb_direction first = options->direction;
	const char *loopback = NULL;
	int status = 0;

	if (mb_pcap_tap_splits(&state->taps[0]))
		first = mb_device_direction(device, options->direction, &loopback);
	if (loopback)
		snprintf(state->notice, sizeof(state->notice), "%s", loopback);
	if (first == MB_DIRECTION_UNKNOWN && mb_pcap_tap_splits(&state->taps[0])) {
		first = MB_DIRECTION_IN;
		status = add_tap(state, options, false, error);
		if (!status)
			status = mb_pcap_tap_begin(&state->taps[1], options, MB_DIRECTION_OUT, &state->stamping, error);
	}
	return status ? status : mb_pcap_tap_begin(&state->taps[0], options, first, &state->stamping, error);
}

/* An interface enters promiscuous mode last and only once, because other programs take that as the sign that the capture
 * has begun. For other devices, only libpcap can set the mode. */
static int begin(struct libpcap_backend *state, const struct mb_backend_options *options, struct mb_error *error)
{
	struct mb_device device;
	const bool is_interface = !mb_device_read(&device, options->target, NULL);
	int status = add_tap(state, options, !is_interface && !options->own_traffic, error);

	if (!status)
		status = begin_taps(state, options, &device, error);
	if (!status && is_interface && !options->own_traffic && state->taps[0].packet_socket)
		status = mb_device_promiscuous(&device, pcap_fileno(state->taps[0].handle), error);
	if (!status)
		describe_interface(state, &device);
	return status;
}

static int open_capture(struct libpcap_backend *state, const struct mb_backend_options *options, struct mb_error *error)
{
	int status = mb_rx_counters_init(&state->rx, options, error);

	if (status)
		return status;
	if (options->threads > 1)
		return mb_fail(error, EINVAL, "%s: libpcap has one thread: --threads is for afpacket", options->target);
	status = start_stamping(state, options, error);
	if (!status)
		status = begin(state, options, error);
	state->asked_ns = mb_clock_ns(state->stamping.clock);
	return status;
}

static void libpcap_backend_close(struct mb_backend *backend)
{
	struct libpcap_backend *state = backend->state;

	for (uint32_t i = 0; i < state->tap_count; i++)
		mb_pcap_tap_close(&state->taps[i]);
	mb_stamping_deinit(&state->stamping);
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
	backend->clock = state->stamping.clock;
	return status;
}

static void ask_for_drops(struct libpcap_backend *state)
{
	int64_t now = mb_clock_ns(state->stamping.clock);
	struct mb_loss loss = mb_loss_between(state->asked_ns, now, 0);

	if (loss.last_ns - loss.first_ns < MB_LOSS_DELAY_NS)
		return;
	state->asked_ns = now;
	for (uint32_t i = 0; i < state->tap_count; i++)
		loss.packets += mb_pcap_tap_dropped(&state->taps[i]);
	if (loss.packets)
		mb_drop_queue_add(&state->rx.drops, &loss);
}

static bool has_frames(const struct mb_pcap_tap *tap)
{
	return tap->next < tap->batch.count;
}

/* Whether the next frame of TAP is older than all frames that OTHER, which has none now, will hand over. */
static bool is_past(const struct libpcap_backend *state, const struct mb_pcap_tap *tap, const struct mb_pcap_tap *other)
{
	if (other->batch.count == other->copies.count) /* it had no room for more */
		return false;
	return state->settled || state->broken ||
	       tap->batch.frames[tap->next].ts_ns + HELD_NS <= other->read_stamp_ns ||
	       tap->read_ns + HELD_NS <= other->read_ns; /* the clock of the stamps may be set back */
}

/* The handle whose next frame is the earliest; NULL if that is not known yet, or if there is no frame. */
static struct mb_pcap_tap *earliest(struct libpcap_backend *state)
{
	struct mb_pcap_tap *a = &state->taps[0], *b = &state->taps[1];

	if (!has_frames(a)) {
		struct mb_pcap_tap *empty = a;

		a = b;
		b = empty;
	}
	if (!has_frames(a))
		return NULL;
	if (has_frames(b))
		return a->batch.frames[a->next].ts_ns <= b->batch.frames[b->next].ts_ns ? a : b;
	return state->tap_count == 1 || is_past(state, a, b) ? a : NULL;
}

/* Read from the handles that have no frames left, and fill BATCH in the order of stamps. Returns the number of its
 * frames; 0 if none can be handed on yet; negative if libpcap failed. */
static int read_taps(struct libpcap_backend *state, struct mb_batch *batch)
{
	struct mb_pcap_tap *tap;
	int status = 0;

	batch->count = 0;
	ask_for_drops(state);
	for (uint32_t i = 0; i < state->tap_count; i++) {
		int count = has_frames(&state->taps[i]) ? 1 : mb_pcap_tap_read(&state->taps[i], &state->stamping);

		if (count < 0 && !state->broken)
			snprintf(state->reason, sizeof(state->reason), "%s", pcap_geterr(state->taps[i].handle));
		status = count < 0 ? count : status;
	}
	while (batch->count < MB_BATCH_FRAMES && (tap = earliest(state)))
		batch->frames[batch->count++] = tap->batch.frames[tap->next++];
	return batch->count ? (int)batch->count : status;
}

/* Wait until a handle without frames can be read, or until the frames of the other one have waited long enough. */
static void wait_for_frames(struct libpcap_backend *state, int timeout_ms)
{
	struct pollfd poll_fds[2];
	nfds_t count = 0;

	for (uint32_t i = 0; i < state->tap_count; i++) {
		const struct timeval *least = pcap_get_required_select_timeout(state->taps[i].handle);
		const int fd = pcap_get_selectable_fd(state->taps[i].handle);
		int most_ms = timeout_ms;

		if (least)
			most_ms = (int)(least->tv_sec * 1000 + least->tv_usec / 1000);
		if (fd < 0 || has_frames(&state->taps[i]))
			most_ms = MB_PCAP_TIMEOUT_MS;
		else
			poll_fds[count++] = (struct pollfd){ .fd = fd, .events = POLLIN };
		if (most_ms < timeout_ms)
			timeout_ms = most_ms;
	}
	poll(poll_fds, count, timeout_ms);
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

/* libpcap continues silently if the interface is set down. */
static bool is_up(struct libpcap_backend *state)
{
	int64_t now = mb_clock_ns(CLOCK_MONOTONIC);
	uint32_t flags;
	int status;

	if (!state->index || now - state->looked_ns < LOOK_NS)
		return true;
	state->looked_ns = now;
	status = mb_device_flags(state->index, &flags);
	return status ? status != -ENODEV : flags & IFF_UP; /* without an answer, as before */
}

/* Wait until the kernel hands over the frames that it held back, and read them. */
static int read_rest(struct libpcap_backend *state, struct mb_batch *batch)
{
	if (!state->broken) {
		state->broken = true;
		poll(NULL, 0, SETTLE_MS);
	}
	return read_taps(state, batch);
}

static int read_more(struct libpcap_backend *state, struct mb_batch *batch, int timeout_ms)
{
	const int64_t deadline_ns = mb_clock_ns(CLOCK_MONOTONIC) + timeout_ms * 1000000ll;
	int count = read_taps(state, batch);

	while (!count && !state->broken) {
		int64_t left_ns = deadline_ns - mb_clock_ns(CLOCK_MONOTONIC);

		if (left_ns <= 0)
			break;
		wait_for_frames(state, (int)(left_ns / 1000000) + 1);
		count = read_taps(state, batch);
	}
	return count < 0 || (!count && !is_up(state)) ? read_rest(state, batch) : count;
}

/* Let no more frames in. Returns false if a handle cannot be shut. */
static bool shut(const struct libpcap_backend *state)
{
	bool all = true;

	for (uint32_t i = 0; i < state->tap_count; i++)
		all &= mb_pcap_tap_shut(&state->taps[i], state->rx.interface.name);
	return all;
}

/* Read the frames that had arrived before the backend was stopped. libpcap's own function to set a filter would discard
 * them. */
static int read_to_end(struct libpcap_backend *state, struct mb_batch *batch)
{
	int64_t now = mb_clock_ns(CLOCK_MONOTONIC);
	int count;

	if (!state->rest_ns)
		state->rest_ns = shut(state) ? INT64_MAX : now + MB_LIVE_REST_NS;
	count = now < state->rest_ns ? read_taps(state, batch) : 0;
	if (!count && !state->settled) {
		poll(NULL, 0, SETTLE_MS);
		state->settled = true;
		count = read_taps(state, batch);
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

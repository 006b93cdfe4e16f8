/* SPDX-License-Identifier: Apache-2.0
 *
 * Linux packet sockets with TPACKET_V3 rings, for network interfaces.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <linux/if_packet.h>

#include "backend/backend.h"
#include "backend/cbpf.h"
#include "backend/device.h"
#include "backend/fanout.h"
#include "backend/ring.h"
#include "backend/rx_counters.h"
#include "backend/timestamp.h"
#include "cleanup.h"

#define BEGIN_TRIES 4 /* an interface may have no pause that is long enough */

struct afpacket {
	struct mb_rx_counters rx; /* first: its functions are among the ops */
	struct mb_device device;
	struct mb_stamping stamping;
	struct mb_ring rings[MB_LIVE_THREADS_MAX];
	uint32_t ring_count;
	struct mb_fanout *fanout; /* NULL with a single ring */
	bool shut, settled;       /* no more frames come in; and all frames that came in are available */
	struct mb_device_counts counts; /* just before the first frames came in */
	int failed;               /* negative errno that every further read() returns */
	struct mb_error failure;
	char notice[2 * MB_ERROR_LENGTH];   /* as known at the start … */
	char current_notice[4 * MB_ERROR_LENGTH];     /* … and with later events */
};

static void add_notice(struct afpacket *state, const char *text)
{
	size_t length = strlen(state->notice);

	if (*text)
		snprintf(state->notice + length, sizeof(state->notice) - length, "%s%s", length ? "\n" : "", text);
}

static bool afpacket_accepts(const char *target)
{
	struct mb_device device;

	return !mb_device_read(&device, target, NULL) && mb_device_linktype(device.arphrd) >= 0;
}

static int read_device(struct mb_device *device, const char *target, struct mb_error *error)
{
	int status = mb_device_read(device, target, error);

	if (status)
		return status;
	if (mb_device_linktype(device->arphrd) < 0)
		return mb_fail(error, EOPNOTSUPP,
			       "%s: its frames (ARPHRD %u) need the cooked mode of libpcap: "
			       "use --backend libpcap",
			       target, device->arphrd);
	if (!device->up)
		return mb_device_down(target, error);
	return 0;
}

/* Open sockets with rings; nothing arrives on them yet. */
static int make_rings(struct afpacket *state, const struct mb_backend_options *options, struct mb_error *error)
{
	const uint64_t bytes = options->ring_bytes ? options->ring_bytes : MB_LIVE_RING_BYTES;
	const uint32_t count = options->threads > 1 ? options->threads : 1;
	int status = 0;

	if (count > MB_LIVE_THREADS_MAX)
		return mb_fail(error, EINVAL, "%s: --threads %u: at most %d", options->target, count,
			       MB_LIVE_THREADS_MAX);
	for (uint32_t i = 0; !status && i < count; i++) {
		status = mb_ring_init(&state->rings[i], &state->device, &state->stamping, bytes,
				      state->rx.interface.snaplen, error);
		if (!status)
			state->ring_count++;
	}
	return status;
}

static int build_filter(struct afpacket *state, const struct mb_backend_options *options, enum mb_direction direction,
			struct mb_cbpf *program, struct mb_error *error)
{
	const struct mb_interface *interface = &state->rx.interface;
	int status = mb_cbpf_compile(program, interface->name, interface->linktype, options->filter, error);

	if (!status)
		status = mb_cbpf_restrict(program, direction, error);
	if (!status)
		mb_cbpf_truncate(program, interface->snaplen);
	return status;
}

static int attach_filter(struct afpacket *state, const struct mb_cbpf *program, struct mb_error *error)
{
	int status = 0;

	for (uint32_t i = 0; !status && i < state->ring_count; i++)
		status = mb_cbpf_attach(program, state->rings[i].fd, state->device.name, error);
	return status;
}

/* Let the frames in. Members of a fanout group must be bound before they join it, and until then each of them would
 * receive every frame: they drop all frames until the group is complete. */
static int arm(struct afpacket *state, const struct mb_backend_options *options, enum mb_direction direction,
	       struct mb_error *error)
{
	struct mb_cbpf program;
	const int ignored = direction == MB_DIRECTION_IN;
	int status = build_filter(state, options, direction, &program, error);

	if (!status)
		status = attach_filter(state, state->ring_count > 1 ? &mb_cbpf_nothing : &program, error);
	mb_device_count(state->device.index, &state->counts);
	for (uint32_t i = 0; !status && i < state->ring_count; i++) {
		/* Saves the kernel a copy of frames that leave; before 4.20 only the filter excludes them. */
		setsockopt(state->rings[i].fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &ignored, sizeof(ignored));
		status = mb_ring_bind(&state->rings[i], &state->device, error);
	}
	if (status || state->ring_count == 1)
		return status;
	status = mb_fanout_join(state->rings, state->ring_count, &state->device, direction, error);
	mb_device_count(state->device.index, &state->counts);
	return status ? status : attach_filter(state, &program, error);
}

/* Whether a frame may have passed since `counts`, whether it is in a ring or not. If these are not known, no frame needs
 * to be compared with them. */
static bool has_frame_passed(const struct afpacket *state, enum mb_direction direction)
{
	struct mb_device_counts now;

	if (!state->counts.known)
		return false;
	mb_device_count(state->device.index, &now);
	return !now.known || (direction != MB_DIRECTION_OUT && now.rx_packets != state->counts.rx_packets) ||
	       (direction != MB_DIRECTION_IN && now.tx_packets != state->counts.tx_packets);
}

static void drop_rings(struct afpacket *state)
{
	for (uint32_t i = 0; i < state->ring_count; i++)
		mb_ring_deinit(&state->rings[i]);
	state->ring_count = 0;
}

/* Let frames in, and read `counts` at that moment. The kernel cannot do both at once: if a frame passes in between, the
 * frames in the rings are dropped, because the next `counts` includes them, and all is tried again. */
static int let_in(struct afpacket *state, const struct mb_backend_options *options, struct mb_error *error)
{
	const char *notice;
	const enum mb_direction direction = mb_device_direction(&state->device, options->direction, &notice);

	if (notice)
		add_notice(state, notice);
	for (int tries = BEGIN_TRIES;; tries--) {
		int status = make_rings(state, options, error);

		if (!status)
			status = arm(state, options, direction, error);
		if (status || tries == 1 || !has_frame_passed(state, direction))
			return status;
		drop_rings(state);
	}
}

static int begin(struct afpacket *state, const struct mb_backend_options *options, struct mb_error *error)
{
	int status = let_in(state, options, error);

	if (!status && !options->own_traffic)
		status = mb_device_promiscuous(&state->device, state->rings[0].fd, error);
	if (!status && state->ring_count > 1)
		status = mb_fanout_start(&state->fanout, state->rings, state->ring_count, state->rx.interface.snaplen,
					 error);
	return status;
}

static int start_stamping(struct afpacket *state, const struct mb_backend_options *options, struct mb_error *error)
{
	int status = mb_stamping_init(&state->stamping, state->device.name, options->stamps, error);

	if (status)
		return status;
	if (state->stamping.hardware && *state->stamping.notice && options->direction != MB_DIRECTION_IN)
		return mb_fail(error, EINVAL,
			       "%s; only frames that arrive have its stamps, so they do not mix with "
			       "those that leave: use --direction in",
			       state->stamping.notice);
	add_notice(state, state->stamping.notice);
	return 0;
}

static void afpacket_close(struct mb_backend *backend)
{
	struct afpacket *state = backend->state;

	mb_fanout_stop(state->fanout);
	drop_rings(state);
	mb_stamping_deinit(&state->stamping);
}

static int open_capture(struct afpacket *state, const struct mb_backend_options *options, struct mb_error *error)
{
	int status = read_device(&state->device, options->target, error);

	if (status)
		return status;
	status = mb_rx_counters_init(&state->rx, options, error);
	if (status)
		return status;
	state->rx.interface.linktype = (uint32_t)mb_device_linktype(state->device.arphrd);
	state->rx.interface.link_bps = state->device.link_bps;
	status = start_stamping(state, options, error);
	if (!status)
		status = begin(state, options, error);
	if (!state->stamping.synchronized)
		state->rx.interface.quality |= MB_QUALITY_UNSYNCED;
	return status;
}

static int afpacket_open(struct mb_backend *backend, const struct mb_backend_options *options, struct mb_error *error)
{
	struct afpacket *state = backend->state;
	int status;

	state->stamping = MB_STAMPING_NONE;
	backend->live = true;
	status = open_capture(state, options, error);
	backend->restores = state->stamping.changed;
	backend->clock = state->stamping.clock;
	return status;
}

static int fail(struct afpacket *state, int code, struct mb_error *error)
{
	state->failed = mb_device_lost(state->device.name, code, &state->failure);
	if (error)
		*error = state->failure;
	return state->failed;
}

static uint32_t take(struct afpacket *state, struct mb_batch *batch)
{
	struct mb_loss loss;

	batch->count = mb_ring_read(&state->rings[0], batch->frames, MB_BATCH_FRAMES, &loss);
	if (loss.packets)
		mb_drop_queue_add(&state->rx.drops, &loss);
	return batch->count;
}

/* Let no more frames in; frames that have arrived can still be read. */
static void shut(struct afpacket *state)
{
	if (state->shut)
		return;
	state->shut = true;
	attach_filter(state, &mb_cbpf_nothing, NULL);
	if (state->fanout)
		mb_fanout_finish(state->fanout);
}

static int read_rest(struct afpacket *state, struct mb_batch *batch)
{
	if (!take(state, batch) && !state->settled) {
		poll(NULL, 0, MB_RING_SETTLE_MS);
		state->settled = true;
		take(state, batch);
	}
	if (batch->count)
		return (int)batch->count;
	return state->rings[0].failure ? -state->rings[0].failure : MB_BACKEND_END;
}

static int read_single(struct afpacket *state, struct mb_batch *batch, int timeout_ms)
{
	bool alive = true;
	uint32_t count;

	if (state->shut)
		return read_rest(state, batch);
	count = take(state, batch);
	if (!count) {
		alive = mb_ring_wait(&state->rings[0], timeout_ms);
		count = take(state, batch);
	}
	return count || alive ? (int)count : -state->rings[0].failure;
}

static int afpacket_read(struct mb_backend *backend, struct mb_batch *batch, int timeout_ms, struct mb_error *error)
{
	struct afpacket *state = backend->state;
	int count;

	if (state->failed) {
		if (error)
			*error = state->failure;
		return state->failed;
	}
	if (backend->stop || (state->fanout && mb_fanout_has_failed(state->fanout)))
		shut(state);
	count = state->fanout ? mb_fanout_read(state->fanout, batch, timeout_ms, &state->rx.drops) :
				read_single(state, batch, timeout_ms);
	if (count == MB_BACKEND_END)
		return count;
	if (count < 0)
		return fail(state, -count, error);
	return mb_rx_counters_count(&state->rx, batch);
}

static int afpacket_check(const char *target, struct mb_error *error)
{
	mb_auto_close int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	struct mb_device device;

	if (fd < 0)
		return errno == EPERM ? mb_device_forbidden(target ? target : "packet sockets", error) :
					mb_fail_errno(error, errno, "packet sockets");
	return target ? read_device(&device, target, error) : 0;
}

static const char *afpacket_notice(const struct mb_backend *backend)
{
	struct afpacket *state = backend->state;
	struct mb_device_counts now;
	size_t length;

	mb_device_count(state->device.index, &now);
	snprintf(state->current_notice, sizeof(state->current_notice), "%s", state->notice);
	length = strlen(state->current_notice);
	if (!now.known || !state->counts.known)
		return *state->current_notice ? state->current_notice : NULL;
	if (now.missed > state->counts.missed)
		snprintf(
			state->current_notice + length, sizeof(state->current_notice) - length,
			"%sthe interface itself lost %llu frames "
			"for lack of receive buffers, before any capture could see them (ethtool -G %s rx %u would help)",
			length ? "\n" : "", (unsigned long long)(now.missed - state->counts.missed), state->device.name,
			state->device.rx_ring_max);
	length = strlen(state->current_notice);
	if (now.carrier_lost > state->counts.carrier_lost)
		snprintf(state->current_notice + length, sizeof(state->current_notice) - length,
			 "%sthe link went away during the capture "
			 "(%u ×)",
			 length ? "\n" : "", now.carrier_lost - state->counts.carrier_lost);
	return *state->current_notice ? state->current_notice : NULL;
}

static const struct mb_device_counts *afpacket_begun(const struct mb_backend *backend)
{
	const struct afpacket *state = backend->state;

	return state->counts.known ? &state->counts : NULL;
}

const struct mb_backend_ops mb_backend_afpacket = {
	.name = "afpacket",
	.description = "Linux packet sockets with TPACKET_V3 rings",
	.accepts = afpacket_accepts,
	.state_size = sizeof(struct afpacket),
	.open = afpacket_open,
	.read = afpacket_read,
	.interfaces = mb_rx_counters_interfaces,
	.stats = mb_rx_counters_stats,
	.loss = mb_rx_counters_loss,
	.check = afpacket_check,
	.notice = afpacket_notice,
	.begun = afpacket_begun,
	.close = afpacket_close,
};

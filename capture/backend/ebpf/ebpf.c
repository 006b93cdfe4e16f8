/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts bins in the kernel, at tcx: no frame is copied to this process.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <net/if.h>

#include "backend/backend.h"
#include "backend/device.h"
#include "backend/ebpf/attach.h"
#include "backend/ebpf/kernel_clock.h"
#include "backend/ebpf/options.h"
#include "backend/ebpf/pinned.h"
#include "backend/ebpf/progress.h"
#include "backend/rx_counters.h"
#include "backend/timestamp.h"
#include "cleanup.h"
#include "clock.h"
#include "linktype.h"

#define PERIOD_MS 50       /* between two reads of the counts */
#define SETTLE_NS 20000000   /* a packet is in its bin this long after its stamp; later ones are a counted loss */

#define GENERIC_NOTICE                                                                                                      \
	"\nwhat arrives is counted behind the driver (generic XDP): a merged frame counts as one, with the headers of one " \
	"segment"

struct ebpf {
	struct mb_rx_counters rx; /* first: its functions are among the ops */
	struct mb_device device;
	struct mb_device_counts counts;
	struct mb_ebpf_kernel kernel;
	struct mb_ebpf_clock clock;
	struct mb_ebpf_reader reader;
	struct mb_ebpf_pins pins;
	bool own_traffic;         /* as in struct mb_backend_options */
	bool adopted;             /* an earlier recorder began the counting, and had read up to … */
	int64_t since_ns;         /* … this system time */
	bool replaced;            /* the pinned program counted with other settings */
	bool generic;             /* counted behind the driver */
	bool looked;              /* the counts were read at least once */
	bool left;                /* the pinned program continues to count */
	int socket;               /* in the interface's namespace */
	int64_t due_ns;           /* CLOCK_MONOTONIC of the next read */
	bool stepped;             /* the clock was set: the next counts are in a new epoch */
	bool reading;             /* not all collected counts were yielded */
	int ending;               /* why counting has ended: MB_BACKEND_END or a negative errno */
	bool ended;               /* and all counts were yielded */
	struct mb_error failure;
	char notice[2 * MB_ERROR_LENGTH];
};

static bool ebpf_accepts(const char *target)
{
	struct mb_device device;

	return !mb_device_read(&device, target, NULL) && mb_device_linktype(device.arphrd) == MB_LINKTYPE_ETHERNET;
}

static int read_device(struct ebpf *state, const char *target, struct mb_error *error)
{
	struct mb_device *device = &state->device;
	int status = mb_device_read(device, target, error);

	if (status)
		return status;
	if (mb_device_linktype(device->arphrd) != MB_LINKTYPE_ETHERNET)
		return mb_fail(error, EOPNOTSUPP,
			       "%s: --backend ebpf counts at interfaces of Ethernet alone: use --backend afpacket",
			       target);
	if (!device->up)
		return mb_device_down(target, error);
	return 0;
}

/* On the loopback, every frame passes twice, leaving and arriving: it is counted once. */
static bool wants(const struct ebpf *state, const struct mb_backend_options *options, int side)
{
	const uint8_t direction = side ? MB_DIRECTION_OUT : MB_DIRECTION_IN;

	if (state->device.loopback && options->direction != MB_DIRECTION_OUT)
		return direction == MB_DIRECTION_IN;
	return options->direction == MB_DIRECTION_UNKNOWN || options->direction == direction;
}

static uint32_t sides_of(const struct ebpf *state, const struct mb_backend_options *options)
{
	uint32_t sides = 0;

	for (int side = 0; side < MB_EBPF_SIDES; side++)
		sides |= wants(state, options, side) ? 1u << side : 0;
	return sides;
}

static int attach(struct ebpf *state, const struct mb_backend_options *options, struct mb_error *error)
{
	int status = 0;

	mb_device_count(state->device.index, &state->counts);
	for (int side = 0; side < MB_EBPF_SIDES && !status; side++)
		if (wants(state, options, side))
			status = mb_ebpf_attach(&state->kernel, side, state->device.index, options->target, error);
	return status;
}

/* Take over the pinned program if it counts as OPTIONS require; else remove it. Returns 0 or a negative errno. */
static int take_over(struct ebpf *state, const struct mb_backend_options *options, struct mb_error *error)
{
	int status = mb_ebpf_pins_open(&state->pins, state->device.index, options->pin_group, options->target, error);

	if (status)
		return status;
	if (mb_ebpf_adopt(&state->kernel, &state->pins, options, state->device.index, sides_of(state, options))) {
		status = mb_ebpf_progress_resume(&state->reader, &state->clock, &state->kernel, &state->since_ns);
		if (status == -ENOMEM)
			return mb_fail_errno(error, ENOMEM, "%s", options->target);
		state->adopted = !status;
	}
	if (!state->adopted) {
		mb_ebpf_unload(&state->kernel);
		state->replaced = mb_ebpf_pins_clear(&state->pins) > 0;
	}
	return 0;
}

static int count_from_here(struct ebpf *state, const struct mb_backend_options *options, struct mb_error *error)
{
	const uint64_t chunk = (uint64_t)state->clock.chunk_ns;
	int status = mb_ebpf_load(&state->kernel, options, options->target, error);

	if (status)
		return status;
	if (mb_ebpf_reader_init(&state->reader, &state->kernel, 0))
		return mb_fail_errno(error, ENOMEM, "%s", options->target);
	state->reader.base_ns = mb_ebpf_clock_begin(&state->clock, &state->kernel);
	state->reader.read_ns = mb_ebpf_clock_now(&state->kernel);
	state->reader.until_ns = state->reader.read_ns / chunk * chunk;
	mb_ebpf_progress_note(&state->reader, &state->clock);
	return attach(state, options, error);
}

/* What happened to the pinned program, or an empty text. */
static const char *describe_begin(const struct ebpf *state)
{
	if (state->adopted)
		return state->own_traffic ?
			       "\nread on from where the recorder before it ended (--pin)" :
			       "\nread on from where the recorder before it ended (--pin): until this one began, the "
			       "interface took in frames for this host alone";
	return state->replaced ?
		       "\nwhat was pinned here (--pin) counted with other settings, or by another mburst: it was "
		       "taken off unread, and counting restarts" :
		       "";
}

static void say(struct ebpf *state)
{
	const uint64_t unspread = mb_ebpf_reader_unspread(&state->reader);
	char text[160] = "";

	if (unspread)
		snprintf(text, sizeof(text),
			 "\n%" PRIu64
			 " merged frames found no room to be split (--split-merged): each counts in the bin of "
			 "its stamp",
			 unspread);
	snprintf(state->notice, sizeof(state->notice),
		 "counted in the kernel (ebpf): no pause frames; what leaves, before the queueing discipline%s%s%s%s%s",
		 state->device.loopback ? "\n" MB_LOOPBACK_NOTICE : "", state->generic ? GENERIC_NOTICE : "",
		 describe_begin(state),
		 state->left ?
			 "\nthe kernel counts on (--pin), for the next recorder: `mburst doctor` says how to end it" :
			 "",
		 text);
}

/* Open a socket in the interface's namespace on which nothing arrives. It serves to query the interface, and to make it
 * accept frames for other hosts. */
static int make_socket(struct ebpf *state, const struct mb_backend_options *options, struct mb_error *error)
{
	state->socket = socket(options->own_traffic ? AF_INET : AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (state->socket >= 0)
		return 0;
	return errno == EPERM ? mb_device_forbidden(options->target, error) :
				mb_fail_errno(error, errno, "%s", options->target);
}

static int ebpf_open(struct mb_backend *backend, const struct mb_backend_options *options, struct mb_error *error)
{
	struct ebpf *state = backend->state;
	int status = mb_ebpf_refuse_options(options, error);

	backend->live = true;
	state->own_traffic = options->own_traffic;
	state->kernel = MB_EBPF_KERNEL_NONE;
	state->pins = MB_EBPF_PINS_NONE;
	state->socket = -1;
	if (!status)
		status = read_device(state, options->target, error);
	if (!status)
		status = mb_rx_counters_init(&state->rx, options, error);
	if (status)
		return status;
	state->rx.interface.linktype = MB_LINKTYPE_ETHERNET;
	state->rx.interface.link_bps = state->device.link_bps;
	state->rx.interface.quality = mb_clock_synchronized() ? 0 : MB_QUALITY_UNSYNCED;
	state->clock.chunk_ns = options->bin_ns > options->source_bin_ns ? options->bin_ns : options->source_bin_ns;
	status = make_socket(state, options, error);
	if (!status && options->pins)
		status = take_over(state, options, error);
	if (!status && !state->adopted)
		status = count_from_here(state, options, error);
	if (!status && !options->own_traffic)
		status = mb_device_promiscuous(&state->device, state->socket, error);
	if (!status && options->pins && !state->adopted)
		status = mb_ebpf_pin(&state->kernel, &state->pins, state->device.index, sides_of(state, options),
				     options->target, error);
	backend->restores = mb_ebpf_stays(&state->kernel);
	state->generic = !status && mb_ebpf_is_generic(&state->kernel, state->device.index);
	say(state);
	return status;
}

/* Returns 0, ENODEV or ENETDOWN. Netlink is the fallback if flags cannot be read by name, as during a rename: it finds
 * the interface by its index, but waits for any process that is changing an interface. */
static int device_trouble(int socket, uint32_t index)
{
	struct ifreq request = { .ifr_ifindex = (int)index };
	uint32_t flags;
	int status;

	if (ioctl(socket, SIOCGIFNAME, &request))
		return ENODEV;
	if (!ioctl(socket, SIOCGIFFLAGS, &request))
		flags = (uint32_t)request.ifr_flags;
	else if ((status = mb_device_flags(index, &flags)))
		return status == -ENODEV ? ENODEV : 0; /* without an answer, as before */
	return flags & IFF_UP ? 0 : ENETDOWN;
}

/* If the interface is gone or down, or the program not attached to it, end the counting. */
static void check_device(struct ebpf *state)
{
	const int code = device_trouble(state->socket, state->device.index);

	if (code)
		state->ending = mb_device_lost(state->device.name, code, &state->failure);
	else if (mb_ebpf_is_taken(&state->kernel))
		state->ending =
			mb_fail(&state->failure, ENODEV,
				"%s: another process has taken the program that counts off the interface: record "
				"it again",
				state->device.name);
}

/* Collect the counts that can no longer change. */
static int collect(struct ebpf *state, struct mb_error *error)
{
	const uint64_t now = mb_ebpf_clock_now(&state->kernel), chunk = (uint64_t)state->clock.chunk_ns;
	const uint64_t settled_ns = state->ending && !state->left ? (now / chunk + 2) * chunk : now - SETTLE_NS;
	uint64_t until_ns = settled_ns / chunk * chunk;

	if (state->clock.stepping && until_ns > state->clock.step_at_ns)
		until_ns = state->clock.step_at_ns;
	if (until_ns < state->reader.until_ns)
		until_ns = state->reader.until_ns;
	state->reader.step_at_ns = state->clock.stepping ? state->clock.step_at_ns : UINT64_MAX;
	state->reader.step_base_ns = state->clock.step_base_ns;
	if (mb_ebpf_reader_collect(&state->reader, settled_ns, until_ns, &state->rx.drops))
		return mb_fail(error, ENOMEM, "out of memory");
	mb_ebpf_progress_note(&state->reader, &state->clock);
	state->reading = state->looked = true;
	return 0;
}

/* Wait until the next read is due, at most TIMEOUT_MS. Returns false if it is not due yet. */
static bool wait_for_look(struct ebpf *state, int timeout_ms)
{
	int64_t now_ns = mb_clock_ns(CLOCK_MONOTONIC), left_ms = (state->due_ns - now_ns + 999999) / 1000000;

	if (left_ms > 0)
		poll(NULL, 0, left_ms < timeout_ms ? (int)left_ms : timeout_ms);
	now_ns = mb_clock_ns(CLOCK_MONOTONIC);
	if (now_ns < state->due_ns)
		return false;
	state->due_ns = now_ns + PERIOD_MS * 1000000ll;
	return true;
}

/* Stop counting, and wait until no processor runs the program. */
static void shut(struct ebpf *state)
{
	mb_ebpf_stop(&state->kernel);
	mb_ebpf_pins_remove(&state->pins);
	poll(NULL, 0, SETTLE_NS / 1000000 + 1);
}

/* All collected counts were yielded: time has passed to their end, or a new epoch begins after them. */
static void finish_look(struct ebpf *state, struct mb_counts *counts)
{
	state->reading = false;
	if (state->clock.stepping && state->reader.until_ns >= state->clock.step_at_ns) {
		state->reader.base_ns = state->clock.step_base_ns;
		state->clock.stepping = false;
		state->stepped = true;
		return;
	}
	counts->passed_ns = (int64_t)state->reader.until_ns + state->reader.base_ns;
	state->ended = state->ending;
}

static int end(const struct ebpf *state, struct mb_error *error)
{
	if (error && state->ending != MB_BACKEND_END)
		*error = state->failure;
	return state->ending;
}

/* Whether the pinned program continues after this reader: unless it was ended for good, or the interface is gone. */
static bool is_left(const struct ebpf *state, const struct mb_backend *backend)
{
	return state->pins.folder >= 0 && state->ending != -ENODEV &&
	       (state->ending != MB_BACKEND_END || backend->leaves);
}

/* Begin the next read if it is due. Returns 1; 0 if it is not due; or a negative errno. */
static int look(struct mb_backend *backend, int timeout_ms, struct mb_error *error)
{
	struct ebpf *state = backend->state;
	int status;

	if (!state->ending) {
		if (!backend->stop && !wait_for_look(state, timeout_ms))
			return 0;
		mb_ebpf_clock_check(&state->clock, &state->kernel);
		check_device(state);
		if (!state->ending && backend->stop)
			state->ending = MB_BACKEND_END;
		state->left = state->ending && is_left(state, backend);
		if (state->ending && !state->left)
			shut(state);
		if (state->ending)
			say(state);
	}
	status = collect(state, error);
	return status ? status : 1;
}

/* If the clock was set: the counts are in a new epoch, and so are losses that were found before. */
static void begin_epoch(struct ebpf *state, struct mb_counts *counts)
{
	struct mb_loss loss;

	counts->stepped = state->stepped;
	while (state->stepped && mb_drop_queue_take(&state->reader.later, &loss))
		mb_drop_queue_add(&state->rx.drops, &loss);
	state->stepped = false;
}

static int ebpf_read_counts(struct mb_backend *backend, struct mb_counts *counts, int timeout_ms,
			    struct mb_error *error)
{
	struct ebpf *state = backend->state;
	int status;

	if (state->ended)
		return end(state, error);
	if (!state->reading) {
		status = look(backend, timeout_ms, error);
		if (status <= 0)
			return status;
	}
	begin_epoch(state, counts);
	if (!mb_ebpf_reader_fill(&state->reader, counts))
		finish_look(state, counts);
	backend->starved = !counts->count;
	state->rx.frames = state->reader.packets;
	state->rx.bytes = state->reader.bytes;
	return (int)counts->count;
}

static int ebpf_check(const char *target, struct mb_error *error)
{
	struct ebpf state = { 0 };
	mb_auto_close int fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0); /* for promiscuous mode */
	int status = target ? read_device(&state, target, error) : 0;

	if (!status && fd < 0)
		status = errno == EPERM ? mb_device_forbidden(target ? target : "packet sockets", error) :
					  mb_fail_errno(error, errno, "packet sockets");
	return status ? status : mb_ebpf_check(target, error);
}

static const char *ebpf_notice(const struct mb_backend *backend)
{
	const struct ebpf *state = backend->state;

	return state->notice;
}

static const struct mb_device_counts *ebpf_begun(const struct mb_backend *backend)
{
	const struct ebpf *state = backend->state;

	return state->counts.known ? &state->counts : NULL;
}

static void ebpf_close(struct mb_backend *backend)
{
	struct ebpf *state = backend->state;

	if (!state->adopted && !state->looked) /* the recording never began */
		mb_ebpf_pins_remove(&state->pins);
	mb_ebpf_reader_deinit(&state->reader);
	mb_ebpf_unload(&state->kernel);
	mb_ebpf_pins_close(&state->pins);
	if (state->socket >= 0)
		close(state->socket);
}

static int64_t ebpf_since(const struct mb_backend *backend)
{
	const struct ebpf *state = backend->state;

	return state->since_ns;
}

const struct mb_backend_ops mb_backend_ebpf = {
	.name = "ebpf",
	.description = "bins counted in the kernel by eBPF, no frames copied",
	.accepts = ebpf_accepts,
	.gives_way = true,
	.state_size = sizeof(struct ebpf),
	.open = ebpf_open,
	.read_counts = ebpf_read_counts,
	.interfaces = mb_rx_counters_interfaces,
	.stats = mb_rx_counters_stats,
	.loss = mb_rx_counters_loss,
	.check = ebpf_check,
	.cost = mb_ebpf_cost,
	.notice = ebpf_notice,
	.begun = ebpf_begun,
	.since = ebpf_since,
	.close = ebpf_close,
};

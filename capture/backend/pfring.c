/* SPDX-License-Identifier: Apache-2.0
 *
 * PF_RING, through its own library.
 */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <pcap/pcap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backend/backend.h"
#include "backend/device.h"
#include "backend/filter.h"
#include "backend/frame_copies.h"
#include "backend/pfring_library.h"
#include "backend/rx_counters.h"
#include "backend/timestamp.h"
#include "linktype.h"

/* How long to sleep if there was no packet. recv() could wait itself, but for how long and in which unit differs
 * between devices, and a stop should not have to wait for it. */
#define IDLE_NS 500000
#define FILE_PREFIX "pcap:"

struct pfring_backend {
	struct mb_rx_counters rx; /* first: its functions are among the ops */
	struct pfring_api api;
	char *target;
	void *ring;
	int file;                 /* descriptor of the capture file that the device is, or -1 */
	bool directions;          /* the device distinguishes received from sent */
	bool counts_drops;
	struct mb_frame_copies copies;
	int64_t asked_ns;
	uint64_t dropped_before;
	int ended;                /* what pfring_recv() returned instead of a packet, or 0 */
	int64_t rest_ns;          /* CLOCK_MONOTONIC, until when to read after stop */
	char notice[MB_ERROR_LENGTH];
};

static bool pfring_accepts(const char *target)
{
	(void)target;
	return false; /* only on request: it needs its kernel module, and may take packets away from the host */
}

static uint32_t open_flags(const struct mb_backend_options *options)
{
	return PFRING_LONG_HEADER | PFRING_TIMESTAMP | PFRING_DO_NOT_PARSE |
	       (options->own_traffic ? 0 : PFRING_PROMISC) |
	       (options->stamps == MB_STAMPS_SW ? 0 : PFRING_HW_TIMESTAMP);
}

/* The path in TARGET, or NULL if it does not name a file. */
static const char *path_in(const char *target)
{
	const size_t length = strlen(FILE_PREFIX);

	return strncmp(target, FILE_PREFIX, length) ? NULL : target + length;
}

/* The library does not report why it cannot open a device. Names with characters that interface names do not have are
 * names of its modules (zc:eth0, nt:stream1), of queues (eth0@1) or of several interfaces (eth0,eth1). */
static int explain(const char *target, struct mb_error *error)
{
	const bool plain = !strpbrk(target, ":@,;");

	if (plain && !if_nametoindex(target) && !access(target, F_OK))
		return mb_fail(error, ENODEV, "%s: a file is read as pcap:%s", target, target);
	if (plain && !if_nametoindex(target))
		return mb_device_missing(target, error);
	if (!mb_pfring_has_module())
		return mb_fail(error, ENODEV,
			       "%s: PF_RING cannot open it: the kernel module pf_ring is not loaded "
			       "(sudo modprobe pf_ring)",
			       target);
	return mb_fail(error, ENODEV, "%s: PF_RING cannot open it (the interface must be up and the user root)",
		       target);
}

static int open_ring(struct pfring_backend *state, const struct mb_backend_options *options, struct mb_error *error)
{
	/* libpfring searches the whole device name for the names of its modules: a path with "nt" in it would be taken
	 * for a Napatech card, so the name has no path in it. */
	char file[sizeof(FILE_PREFIX "/proc/self/fd/") + 3 * sizeof(int)];

	snprintf(file, sizeof(file), FILE_PREFIX "/proc/self/fd/%d", state->file);
	state->ring = state->api.open(state->file < 0 ? options->target : file, state->rx.interface.snaplen,
				      open_flags(options));
	if (state->ring)
		return 0;
	if (state->file >= 0)
		return mb_fail(error, EINVAL, "%s: PF_RING cannot read it: it knows what libpcap knows",
			       options->target);
	if (path_in(options->target))
		return mb_fail(error, ENODEV, "%s: neither a file that can be read nor an interface", options->target);
	return explain(options->target, error);
}

/* The library also compiles the filter, but does not report what is wrong with it. */
static int check_filter(struct pfring_backend *state, const char *expression, struct mb_error *error)
{
	struct mb_filter *filter = mb_filter_create(expression);
	int status = filter ? mb_filter_prepare(filter, &state->rx.interface, 1, false, error) :
			      mb_fail_errno(error, ENOMEM, "filter '%s'", expression);

	mb_filter_destroy(filter);
	return status;
}

/* Set the requested restrictions; fail if that is not possible. */
static int restrict_frames(struct pfring_backend *state, const struct mb_backend_options *options,
			   struct mb_error *error)
{
	static const int directions[] = { PFRING_RX_AND_TX, PFRING_RX_ONLY, PFRING_TX_ONLY };
	int status = state->api.set_direction(state->ring, directions[options->direction]);

	state->directions = !status;
	if (status && options->direction && state->file < 0) /* of a file, the engine does it */
		return mb_fail(error, EOPNOTSUPP, "%s: PF_RING cannot distinguish directions on it (%d)",
			       options->target, status);
	if (!options->filter || !*options->filter)
		return 0;
	status = check_filter(state, options->filter, error);
	if (status)
		return status;
	status = state->api.set_bpf_filter(state->ring, (char *)options->filter);
	if (status == PFRING_NOT_SUPPORTED)
		return mb_fail(error, EOPNOTSUPP, "%s: PF_RING has no filter for it", options->target);
	if (status)
		return mb_fail(error, EINVAL, "filter '%s': PF_RING refused it (%d)", options->filter, status);
	return 0;
}

static int join_cluster(struct pfring_backend *state, const struct mb_backend_options *options, struct mb_error *error)
{
	int status;

	if (!options->cluster)
		return 0;
	status = state->api.set_cluster(state->ring, options->cluster, PFRING_CLUSTER_PER_FLOW_2_TUPLE);
	if (status == PFRING_NOT_SUPPORTED)
		snprintf(state->notice, sizeof(state->notice), "%s takes no cluster: every process sees all frames",
			 options->target);
	else if (status)
		return mb_fail(error, EIO, "%s: pfring_set_cluster(%u) failed (%d)", options->target, options->cluster,
			       status);
	return 0;
}

static int set_up(struct pfring_backend *state, const struct mb_backend_options *options, struct mb_error *error)
{
	const struct pfring_api *api = &state->api;
	int status;

	api->set_application_name(state->ring, (char *)"mburst");
	status = restrict_frames(state, options, error);
	if (status)
		return status;
	status = api->set_socket_mode(state->ring, PFRING_RECV_ONLY_MODE);
	if (status && status != PFRING_NOT_SUPPORTED)
		return mb_fail(error, EIO, "%s: pfring_set_socket_mode failed (%d)", options->target, status);
	status = join_cluster(state, options, error);
	if (status)
		return status;
	status = api->enable_ring(state->ring);
	if (status && status != PFRING_NOT_SUPPORTED)
		return mb_fail(error, EIO, "%s: pfring_enable_ring failed (%d)", options->target, status);
	return 0;
}

/* PF_RING only supports Ethernet; a capture file may hold anything. */
static uint32_t linktype_of(const char *target)
{
	char reason[PCAP_ERRBUF_SIZE];
	const char *path = path_in(target);
	pcap_t *file = path ? pcap_open_offline(path, reason) : NULL;
	int dlt = DLT_EN10MB;

	if (file) {
		dlt = pcap_datalink(file);
		pcap_close(file);
	}
	return mb_linktype_of_dlt(dlt);
}

static void describe_interface(struct pfring_backend *state, const struct mb_backend_options *options)
{
	struct mb_interface *interface = &state->rx.interface;
	const char *device = strrchr(options->target, ':');
	struct mb_device found;

	interface->linktype = linktype_of(options->target);
	if (state->file >= 0)
		return;
	if (!mb_device_read(&found, device ? device + 1 : options->target, NULL))
		interface->link_bps = found.link_bps;
	if (!mb_clock_synchronized())
		interface->quality |= MB_QUALITY_UNSYNCED;
}

static void start_counting_drops(struct pfring_backend *state)
{
	struct pfring_stat stats = { 0 };

	state->counts_drops = !state->api.stats(state->ring, &stats);
	state->dropped_before = stats.drop;
	state->asked_ns = mb_clock_ns(CLOCK_REALTIME);
	if (!state->counts_drops && state->file < 0 && !*state->notice)
		snprintf(state->notice, sizeof(state->notice),
			 "PF_RING counts no drops on %s: whether packets were "
			 "lost is not known",
			 state->rx.interface.name);
}

static int open_capture(struct pfring_backend *state, const struct mb_backend_options *options, struct mb_error *error)
{
	int status = mb_rx_counters_init(&state->rx, options, error);

	if (status)
		return status;
	if (options->threads > 1)
		return mb_fail(error, EINVAL, "%s: pfring has one thread, and --cluster for several processes",
			       options->target);
	state->file = path_in(options->target) ? open(path_in(options->target), O_RDONLY | O_CLOEXEC) : -1;
	describe_interface(state, options);
	status = mb_pfring_load(&state->api, error);
	if (!status)
		status = open_ring(state, options, error);
	if (!status)
		status = set_up(state, options, error);
	if (!status && !mb_frame_copies_init(&state->copies, state->rx.interface.snaplen, MB_FRAME_COPIES_BYTES))
		status = mb_fail_errno(error, ENOMEM, "%s", options->target);
	if (!status)
		start_counting_drops(state);
	return status;
}

static void pfring_backend_close(struct mb_backend *backend)
{
	struct pfring_backend *state = backend->state;

	if (state->ring)
		state->api.close(state->ring);
	mb_pfring_unload(&state->api);
	mb_frame_copies_deinit(&state->copies);
	if (state->file >= 0)
		close(state->file);
	free(state->target);
}

static int pfring_backend_open(struct mb_backend *backend, const struct mb_backend_options *options,
			       struct mb_error *error)
{
	struct pfring_backend *state = backend->state;
	int status;

	state->file = -1;
	state->target = strdup(options->target);
	status = state->target ? open_capture(state, options, error) :
				 mb_fail_errno(error, ENOMEM, "%s", options->target);
	backend->live = state->file < 0;
	return status;
}

/* timestamp_ns is the stamp of the interface, unless it is merely `ts` with nanoseconds. */
static void stamp(const struct pfring_backend *state, const union pfring_header *header, struct mb_frame *frame)
{
	const int64_t ts_us = header->field.ts.tv_sec * 1000000ll + header->field.ts.tv_usec;
	const int64_t stamp_ns = (int64_t)header->field.timestamp_ns;

	frame->ts_ns = stamp_ns ? stamp_ns : ts_us * 1000;
	if (stamp_ns && stamp_ns / 1000 != ts_us)
		frame->quality = MB_QUALITY_HW;
	else
		frame->quality = (uint8_t)((state->file < 0 ? MB_QUALITY_SW : 0) | (stamp_ns ? 0 : MB_QUALITY_FILE_US));
}

static void keep_frame(struct pfring_backend *state, const union pfring_header *header, const uint8_t *data,
		       struct mb_batch *batch)
{
	uint32_t index = batch->count++;
	struct mb_frame *frame = &batch->frames[index];

	*frame = (struct mb_frame){ .data = data, .caplen = header->field.caplen, .len = header->field.len };
	if (frame->caplen > state->rx.interface.snaplen) /* without copying, the library does not cut frames */
		frame->caplen = state->rx.interface.snaplen;
	if (state->directions)
		frame->direction = header->field.rx_direction ? MB_DIRECTION_IN : MB_DIRECTION_OUT;
	stamp(state, header, frame);
	mb_frame_copies_keep(&state->copies, index, frame);
}

/* Returns the last result of pfring_recv(): 1 if the batch is full, 0 if there is no more now. */
static int fill(struct pfring_backend *state, struct mb_batch *batch)
{
	int status = 1;

	batch->count = 0;
	while (status == 1 && batch->count < state->copies.count) {
		union pfring_header header;
		uint8_t *data = NULL;

		memset(&header.field, 0, sizeof(header.field)); /* some devices fill in only the first fields */
		status = state->api.recv(state->ring, &data, 0, &header, 0);
		if (status == 1 && data)
			keep_frame(state, &header, data, batch);
	}
	return status;
}

static void ask_for_drops(struct pfring_backend *state)
{
	int64_t now = mb_clock_ns(CLOCK_REALTIME);
	struct mb_loss loss = mb_loss_between(state->asked_ns, now, 0);
	struct pfring_stat stats;

	if (!state->counts_drops || loss.last_ns - loss.first_ns < MB_LOSS_DELAY_NS)
		return;
	state->asked_ns = now;
	if (state->api.stats(state->ring, &stats) || stats.drop <= state->dropped_before)
		return;
	loss.packets = stats.drop - state->dropped_before;
	state->dropped_before = stats.drop;
	mb_drop_queue_add(&state->rx.drops, &loss);
}

static int end(const struct pfring_backend *state, struct mb_error *error)
{
	if (state->ended == PFRING_END)
		return MB_BACKEND_END;
	return mb_fail(error, EIO, "%s: pfring_recv failed (%d)%s", state->target, state->ended,
		       state->file < 0 ? "" : ": the file is cut or damaged here");
}

/* Read the frames that had arrived before the backend was stopped, or that come in MB_LIVE_REST_NS. Returns false at
 * the end. */
static bool read_rest(struct pfring_backend *state, struct mb_batch *batch)
{
	int64_t now = mb_clock_ns(CLOCK_MONOTONIC);

	if (!state->rest_ns)
		state->rest_ns = now + MB_LIVE_REST_NS;
	batch->count = 0;
	if (state->file < 0 && now < state->rest_ns)
		fill(state, batch);
	return batch->count;
}

static int read_more(struct pfring_backend *state, const struct mb_backend *backend, struct mb_batch *batch,
		     int timeout_ms)
{
	const struct timespec nap = { .tv_nsec = IDLE_NS };
	int status = fill(state, batch);

	for (int64_t waited = 0; !batch->count && !status && !backend->stop && waited < timeout_ms * 1000000ll;
	     waited += IDLE_NS) {
		nanosleep(&nap, NULL);
		status = fill(state, batch);
	}
	return status;
}

static int pfring_backend_read(struct mb_backend *backend, struct mb_batch *batch, int timeout_ms,
			       struct mb_error *error)
{
	struct pfring_backend *state = backend->state;
	int status;

	if (state->ended)
		return end(state, error);
	ask_for_drops(state);
	if (backend->stop) {
		if (!read_rest(state, batch))
			return MB_BACKEND_END;
	} else if ((status = read_more(state, backend, batch, timeout_ms)) < 0) {
		state->ended = status;
	}
	if (!batch->count && state->ended)
		return end(state, error);
	return mb_rx_counters_count(&state->rx, batch);
}

static int pfring_check(const char *target, struct mb_error *error)
{
	const struct mb_backend_options options = {
		.target = target, .backend = mb_backend_pfring.name, .own_traffic = true, .stamps = MB_STAMPS_SW
	};
	struct mb_backend backend;
	struct pfring_api api = { 0 };
	int status;

	if (!target) {
		status = mb_pfring_load(&api, error);
		mb_pfring_unload(&api);
		if (!status && !mb_pfring_has_module())
			return mb_fail(error, ENODEV,
				       "the kernel module pf_ring is not loaded (sudo modprobe pf_ring); "
				       "files (pcap:FILE) can be read without it");
		return status;
	}
	status = mb_backend_open(&backend, &options, error);
	mb_backend_close(&backend);
	return status;
}

static const char *pfring_notice(const struct mb_backend *backend)
{
	const struct pfring_backend *state = backend->state;

	return *state->notice ? state->notice : NULL;
}

const struct mb_backend_ops mb_backend_pfring = {
	.name = "pfring",
	.description = "PF_RING devices, by the vendor's libpfring",
	.accepts = pfring_accepts,
	.state_size = sizeof(struct pfring_backend),
	.open = pfring_backend_open,
	.read = pfring_backend_read,
	.interfaces = mb_rx_counters_interfaces,
	.stats = mb_rx_counters_stats,
	.loss = mb_rx_counters_loss,
	.check = pfring_check,
	.notice = pfring_notice,
	.close = pfring_backend_close,
};

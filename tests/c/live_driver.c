/* SPDX-License-Identifier: Apache-2.0
 *
 * Captures with a live backend and prints what it received, as one JSON object a line.
 * Arguments are KEY=VALUE: the fields of struct mb_backend_options, and
 *   mode=count|dump|check   totals only, every frame, or whether the backend can run here
 *   mode=read               only the work of the backend itself: for bench/bench_backends.py
 *   seconds=N idle_ms=N     end after N seconds, or N ms after the last frame
 *   frames=N                end after N frames
 *   pause_ms=N              sleep N ms before the first read
 * First line: {"ready": …} once frames are being captured. SIGINT and SIGTERM stop the backend.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/backend.h"
#include "clock.h"

/* The payload of tests/c/send.c, behind the Ethernet header. */
#define SEQUENCE_OFFSET 20
#define SEQUENCE_MAGIC "mbst"
#define SEQUENCE_MAX (64u << 20)

static struct mb_backend backend;

struct tally {
	uint64_t frames, bytes, captured, merged;
	uint64_t quality[3], direction[3]; /* hw, sw, ring; unknown, in, out */
	uint64_t sequenced, distinct, lowest, highest;
	int64_t first_ns, last_ns, latest_ns, backwards_ns;
	uint8_t seen[SEQUENCE_MAX / 8]; /* a bit for each sequence number */
};

static void on_signal(int signal)
{
	(void)signal;
	mb_backend_stop(&backend);
}

static const char *argument(int argc, char **argv, const char *key, const char *missing)
{
	size_t length = strlen(key);

	for (int i = 1; i < argc; i++) {
		if (!strncmp(argv[i], key, length) && argv[i][length] == '=')
			return argv[i] + length + 1;
	}
	return missing;
}

static uint64_t number(int argc, char **argv, const char *key, const char *missing)
{
	return strtoull(argument(argc, argv, key, missing), NULL, 0);
}

static void print_text(const char *key, const char *text)
{
	printf("\"%s\": \"", key);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			putchar('\\');
		if (*text == '\n')
			printf("\\n");
		else
			putchar(*text);
	}
	putchar('"');
}

static void note_sequence(struct tally *tally, const struct mb_frame *frame)
{
	uint64_t sequence;

	if (frame->caplen < SEQUENCE_OFFSET + 8 + sizeof(sequence) ||
	    memcmp(frame->data + SEQUENCE_OFFSET, SEQUENCE_MAGIC, 4))
		return;
	memcpy(&sequence, frame->data + SEQUENCE_OFFSET + 8, sizeof(sequence));
	if (sequence >= SEQUENCE_MAX)
		return;
	if (!tally->sequenced || sequence < tally->lowest)
		tally->lowest = sequence;
	if (sequence > tally->highest)
		tally->highest = sequence;
	tally->sequenced++;
	tally->distinct += !(tally->seen[sequence / 8] & 1 << sequence % 8);
	tally->seen[sequence / 8] |= (uint8_t)(1 << sequence % 8);
}

static void count_frame(struct tally *tally, const struct mb_frame *frame)
{
	if (!tally->frames++)
		tally->first_ns = tally->latest_ns = frame->ts_ns;
	tally->last_ns = frame->ts_ns;
	if (tally->latest_ns - frame->ts_ns > tally->backwards_ns)
		tally->backwards_ns = tally->latest_ns - frame->ts_ns;
	if (frame->ts_ns > tally->latest_ns)
		tally->latest_ns = frame->ts_ns;
	tally->bytes += frame->len;
	tally->captured += frame->caplen;
	tally->merged += frame->gso_size != 0;
	for (int i = 0; i < 3; i++)
		tally->quality[i] += frame->quality >> i & 1;
	tally->direction[frame->direction]++;
	note_sequence(tally, frame);
}

static void dump_frame(const struct mb_frame *frame)
{
	printf("{\"ts_ns\": %" PRId64
	       ", \"len\": %u, \"gso_size\": %u, \"direction\": %u, \"quality\": %u, \"data\": \"",
	       frame->ts_ns, frame->len, frame->gso_size, frame->direction, frame->quality);
	for (uint32_t i = 0; i < frame->caplen; i++)
		printf("%02x", frame->data[i]);
	printf("\"}\n");
}

static void print_losses(void)
{
	struct mb_loss loss;

	while (mb_backend_loss(&backend, &loss))
		printf("{\"loss\": {\"first_ns\": %" PRId64 ", \"last_ns\": %" PRId64 ", \"packets\": %" PRIu64 "}}\n",
		       loss.first_ns, loss.last_ns, loss.packets);
}

static int capture(struct tally *tally, int argc, char **argv, struct mb_error *error)
{
	static struct mb_batch batch;
	const char *mode = argument(argc, argv, "mode", "count");
	const bool dump = !strcmp(mode, "dump"), look = strcmp(mode, "read");
	const int64_t end = mb_monotonic_ms() + (int64_t)(1000 * number(argc, argv, "seconds", "60"));
	const int64_t idle = (int64_t)number(argc, argv, "idle_ms", "0");
	const uint64_t enough = number(argc, argv, "frames", "0");
	int64_t last = 0;
	int empty = 0; /* reads since the last frame: the second one at the latest queries drops */

	while (mb_monotonic_ms() < end && (!idle || !last || empty < 2 || mb_monotonic_ms() - last < idle)) {
		int count = mb_backend_read(&backend, &batch, 50, error);

		print_losses();
		if (count < 0)
			return count;
		for (int i = 0; look && i < count; i++) {
			count_frame(tally, &batch.frames[i]);
			if (dump)
				dump_frame(&batch.frames[i]);
		}
		empty = count ? 0 : empty + 1;
		if (count)
			last = mb_monotonic_ms();
		if (enough && tally->frames >= enough)
			break;
	}
	return 0;
}

static void print_result(const struct tally *tally, int status, const struct mb_error *error)
{
	const char *notice = mb_backend_notice(&backend);
	struct mb_backend_stats stats;
	struct timespec cpu;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
	backend.ops->stats(&backend, &stats);
	print_losses(); /* those that the call above has queried */
	printf("{\"frames\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"captured\": %" PRIu64 ", \"merged\": %" PRIu64,
	       tally->frames, tally->bytes, tally->captured, tally->merged);
	printf(", \"hw\": %" PRIu64 ", \"sw\": %" PRIu64 ", \"ring\": %" PRIu64, tally->quality[0], tally->quality[1],
	       tally->quality[2]);
	printf(", \"unknown\": %" PRIu64 ", \"in\": %" PRIu64 ", \"out\": %" PRIu64, tally->direction[0],
	       tally->direction[1], tally->direction[2]);
	printf(", \"sequenced\": %" PRIu64 ", \"distinct\": %" PRIu64 ", \"lowest\": %" PRIu64
	       ", \"highest\": %" PRIu64,
	       tally->sequenced, tally->distinct, tally->lowest, tally->highest);
	printf(", \"first_ns\": %" PRId64 ", \"last_ns\": %" PRId64 ", \"backwards_ns\": %" PRId64, tally->first_ns,
	       tally->last_ns, tally->backwards_ns);
	printf(", \"stats_frames\": %" PRIu64 ", \"stats_bytes\": %" PRIu64 ", \"dropped\": %" PRIu64, stats.frames,
	       stats.bytes, stats.dropped);
	printf(", \"cpu_ns\": %" PRId64, (int64_t)cpu.tv_sec * 1000000000 + cpu.tv_nsec);
	printf(", \"status\": %d, ", status == MB_BACKEND_END ? 0 : status);
	print_text("error", status < 0 && status != MB_BACKEND_END ? error->message : "");
	printf(", ");
	print_text("notice", notice ? notice : "");
	printf("}\n");
}

static int print_check(int argc, char **argv)
{
	const char *backend = argument(argc, argv, "backend", ""), *target = argument(argc, argv, "target", NULL);

	for (const struct mb_backend_ops *const *ops = mb_backends; *ops; ops++) {
		struct mb_error error = { "" };
		int status;

		if (strcmp((*ops)->name, backend) || !(*ops)->check)
			continue;
		status = (*ops)->check(target, &error);
		printf("{\"status\": %d, ", status);
		print_text("error", error.message);
		printf("}\n");
	}
	return 0;
}

static struct mb_backend_options parse_options(int argc, char **argv)
{
	const char *stamps = argument(argc, argv, "stamps", "auto");
	const char *direction = argument(argc, argv, "direction", "both");

	return (struct mb_backend_options){
		.target = argument(argc, argv, "target", "lo"),
		.backend = argument(argc, argv, "backend", NULL),
		.filter = argument(argc, argv, "filter", NULL),
		.snaplen = (uint32_t)number(argc, argv, "snaplen", "0"),
		.threads = (uint32_t)number(argc, argv, "threads", "0"),
		.ring_bytes = number(argc, argv, "ring_bytes", "0"),
		.stamps = !strcmp(stamps, "hw") ? MB_STAMPS_HW :
			  !strcmp(stamps, "sw") ? MB_STAMPS_SW :
						  MB_STAMPS_AUTO,
		.direction = !strcmp(direction, "in")  ? MB_DIRECTION_IN :
			     !strcmp(direction, "out") ? MB_DIRECTION_OUT :
							 MB_DIRECTION_UNKNOWN,
		.own_traffic = number(argc, argv, "own_traffic", "0"),
		.cluster = (uint32_t)number(argc, argv, "cluster", "0"),
	};
}

int main(int argc, char **argv)
{
	const struct mb_backend_options options = parse_options(argc, argv);
	struct mb_error error = { "" };
	static struct tally tally;
	const struct mb_interface *interface;
	const long pause = (long)number(argc, argv, "pause_ms", "0");
	size_t interfaces;
	int status;

	if (!strcmp(argument(argc, argv, "mode", "count"), "check"))
		return print_check(argc, argv);
	status = mb_backend_open(&backend, &options, &error);
	if (status) {
		printf("{\"status\": %d, ", status);
		print_text("error", error.message);
		printf("}\n");
		return 1;
	}
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	interface = backend.ops->interfaces(&backend, &interfaces);
	printf("{\"ready\": \"%s\", \"linktype\": %u, \"link_bps\": %" PRIu64 ", \"quality\": %u, \"snaplen\": %u}\n",
	       backend.ops->name, interface->linktype, interface->link_bps, interface->quality, interface->snaplen);
	fflush(stdout);
	nanosleep(&(struct timespec){ .tv_sec = pause / 1000, .tv_nsec = pause % 1000 * 1000000 }, NULL);
	status = capture(&tally, argc, argv, &error);
	print_result(&tally, status, &error);
	mb_backend_close(&backend);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * dump_frames [-f FILTER] [-t TIMEOUT_MS] [-s STOP_MS] [-e] [-p] [-q] FILE…: prints what the
 * backends read from the files, for tests: one line per frame (unless -q), then the number of late
 * reads, the interfaces, the statistics and the notice; "error: …" and exit code 1 if one fails.
 * -e reads each file separately, after a line "file …", instead of merging them; -s
 * stops the backend from a signal handler after that time; -p waits for a line of input between
 * the first read and the use of its frames.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

#include "backend/backend.h"
#include "backend/merge.h"

static struct mb_backend backend;

/* FNV-1a reads every captured byte, so that the sanitizers check it. */
static uint32_t fingerprint(const uint8_t *data, uint32_t length)
{
	uint32_t hash = 2166136261u;

	for (uint32_t i = 0; i < length; i++)
		hash = (hash ^ data[i]) * 16777619u;
	return hash;
}

static void print_batch(const struct mb_batch *batch)
{
	for (uint32_t i = 0; i < batch->count; i++) {
		const struct mb_frame *frame = &batch->frames[i];

		printf("frame %" PRId64 " %u %u %u %u %u %08x\n", frame->ts_ns, frame->interface, frame->caplen,
		       frame->len, frame->direction, frame->quality, fingerprint(frame->data, frame->caplen));
	}
}

static void print_rest(void)
{
	const struct mb_interface *interfaces;
	struct mb_backend_stats stats;
	size_t count;

	interfaces = backend.ops->interfaces(&backend, &count);
	for (size_t i = 0; i < count; i++)
		printf("interface %zu %u %u %" PRIu64 " %u %u %s\n", i, interfaces[i].linktype, interfaces[i].snaplen,
		       interfaces[i].link_bps, interfaces[i].fcs_len, interfaces[i].quality, interfaces[i].name);
	backend.ops->stats(&backend, &stats);
	printf("stats %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRId64 " %" PRId64 "\n", stats.frames,
	       stats.bytes, stats.filtered, stats.dropped, stats.drop_first_ns, stats.drop_last_ns);
	if (mb_backend_notice(&backend))
		printf("notice %s\n", mb_backend_notice(&backend));
}

static void on_alarm(int number)
{
	(void)number;
	mb_backend_stop(&backend);
}

static void stop_after(int ms)
{
	struct sigaction action = { .sa_handler = on_alarm };
	struct itimerval timer = { .it_value = { ms / 1000, ms % 1000 * 1000 } };

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
}

static void wait_for_line(void)
{
	int character;

	puts("paused");
	fflush(stdout);
	do
		character = getchar();
	while (character != EOF && character != '\n');
}

struct settings {
	struct mb_backend_options options;
	int timeout_ms, stop_ms;
	bool each, pause, quiet;
};

/* Reads to the end. Returns the result of the last read. */
static int read_all(const struct settings *settings, struct mb_error *error)
{
	static struct mb_batch batch;
	bool pause = settings->pause;
	unsigned late = 0;
	int result;

	while ((result = mb_backend_read(&backend, &batch, settings->timeout_ms, error)) >= 0) {
		if (pause)
			wait_for_line();
		pause = false;
		late += !result;
		if (!settings->quiet)
			print_batch(&batch);
	}
	if (late)
		printf("late %u\n", late);
	return result;
}

/* Returns the exit code. */
static int dump(const struct settings *settings, char **files, size_t count)
{
	struct mb_error error;
	int result = mb_merge_open(&backend, (const char *const *)files, count, &settings->options, &error);

	if (result < 0) {
		printf("error: %s\n", error.message);
		return 1;
	}
	if (settings->stop_ms)
		stop_after(settings->stop_ms);
	result = read_all(settings, &error);
	if (result != MB_BACKEND_END)
		printf("error: %s\n", error.message);
	print_rest();
	mb_backend_close(&backend);
	return result != MB_BACKEND_END;
}

static bool parse(int argc, char **argv, struct settings *settings)
{
	int option;

	while ((option = getopt(argc, argv, "f:t:s:epq")) != -1) {
		if (option == 'f')
			settings->options.filter = optarg;
		else if (option == 't')
			settings->timeout_ms = atoi(optarg);
		else if (option == 's')
			settings->stop_ms = atoi(optarg);
		else if (option == 'e')
			settings->each = true;
		else if (option == 'p')
			settings->pause = true;
		else if (option == 'q')
			settings->quiet = true;
		else
			return false;
	}
	return optind < argc;
}

int main(int argc, char **argv)
{
	struct settings settings = { .timeout_ms = -1 };
	int failed = 0;

	if (!parse(argc, argv, &settings))
		return 2;
	if (!settings.each)
		return dump(&settings, argv + optind, (size_t)(argc - optind));
	for (int i = optind; i < argc; i++) {
		printf("file %s\n", argv[i]);
		failed |= dump(&settings, argv + i, 1);
	}
	return failed;
}

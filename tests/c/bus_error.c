/* SPDX-License-Identifier: Apache-2.0
 *
 * bus_error CAPTURE OTHER: a bus error outside the open captures reaches the program's own handler, and one inside them
 * is still caught after that. Truncates both files.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backend/backend.h"

static sigjmp_buf escape;

static void on_bus_error(int number)
{
	siglongjmp(escape, number);
}

/* Returns whether reading the first byte of a mapping of the emptied file PATH reaches our handler. */
static bool faults(const char *path)
{
	int fd = open(path, O_RDWR);
	const volatile char *bytes = mmap(NULL, 1, PROT_READ, MAP_SHARED, fd, 0);
	bool reached = false;

	if (ftruncate(fd, 0) == 0 && !sigsetjmp(escape, 1))
		(void)*bytes;
	else
		reached = true;
	close(fd);
	return reached;
}

int main(int argc, char **argv)
{
	struct sigaction ours = { .sa_handler = on_bus_error, .sa_flags = SA_NODEFER }, after;
	struct mb_backend_options options = { 0 };
	static struct mb_batch batch;
	struct mb_backend backend;
	struct mb_error error;
	int result;

	if (argc != 3)
		return 2;
	options.target = argv[1];
	sigaction(SIGBUS, &ours, NULL);
	if (mb_backend_open(&backend, &options, &error) < 0)
		return 2;
	printf("outside: %s\n", faults(argv[2]) ? "handled" : "lost");
	if (truncate(argv[1], 0))
		return 2;
	while ((result = mb_backend_read(&backend, &batch, -1, &error)) >= 0)
		;
	printf("inside: %s\n", error.message);
	mb_backend_close(&backend);
	sigaction(SIGBUS, NULL, &after);
	printf("after: %s\n", after.sa_handler == on_bus_error ? "restored" : "changed");
	return 0;
}

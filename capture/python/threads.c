/* SPDX-License-Identifier: Apache-2.0 */
#include "python/threads.h"

#include <dirent.h>
#include <errno.h>
#include <linux/capability.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "cleanup.h"
#include "clock.h"

#ifndef SYS_landlock_restrict_self
#define SYS_landlock_restrict_self 446
#endif

/* SIGSETXID of the C library, which serves the same purpose for users and groups, and which no thread can block
 * (nptl(7)). */
#define SIGNAL 33
#define HALVES 2          /* of 32 capabilities (capget(2)) */
#define PASSES 16         /* over the threads: a later pass finds those that were started during an earlier one */
#define MOST_THREADS 4096
#define ANSWER_NS 2000000000u
#define LOOK_NS 50000u

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
static struct mb_rights wanted;
static atomic_int result;       /* of the last thread that answered */
static atomic_int answered;     /* its id */

static int limit_capabilities(uint64_t kept)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct sets[HALVES];

	if (syscall(SYS_capget, &header, sets))
		return -errno;
	for (int i = 0; i < HALVES; i++) {
		sets[i].permitted &= (uint32_t)(kept >> (32 * i));
		sets[i].effective = sets[i].permitted;
		sets[i].inheritable = 0;
	}
	if (syscall(SYS_capset, &header, sets))
		return -errno;
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); /* do not exist before Linux 4.3 */
	return 0;
}

/* Applies RIGHTS to the calling thread. Only system calls: it runs in a signal handler. */
static int apply(const struct mb_rights *rights)
{
	int code = rights->limit ? limit_capabilities(rights->kept) : 0;

	if (code)
		return code;
	if (rights->no_new && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -errno;
	if (rights->ruleset >= 0 && syscall(SYS_landlock_restrict_self, rights->ruleset, 0))
		return -errno;
	return 0;
}

static void on_signal(int number, siginfo_t *info, void *context)
{
	int before = errno;

	(void)number;
	(void)context;
	if (info->si_code == SI_QUEUE) {
		atomic_store(&result, apply(&wanted));
		atomic_store(&answered, (int)syscall(SYS_gettid));
	}
	errno = before;
}

static bool is_there(int thread)
{
	return syscall(SYS_tgkill, getpid(), thread, 0) == 0;
}

/* Sends the signal so that the C library ignores it: it only handles its own (nptl_setxid.c). */
static int send(int thread)
{
	siginfo_t info = { .si_signo = SIGNAL, .si_code = SI_QUEUE };

	info.si_pid = getpid();
	info.si_uid = getuid();
	return (int)syscall(SYS_rt_tgsigqueueinfo, getpid(), thread, SIGNAL, &info);
}

/* Whether THREAD applied the rights, or has ended. */
static bool reach(int thread)
{
	const struct timespec pause = { .tv_nsec = LOOK_NS };
	int64_t until = mb_clock_ns(CLOCK_MONOTONIC) + ANSWER_NS;

	atomic_store(&answered, 0);
	if (send(thread))
		return errno == ESRCH;
	while (atomic_load(&answered) != thread) {
		if (!is_there(thread))
			return true;
		if (mb_clock_ns(CLOCK_MONOTONIC) > until)
			return false;
		nanosleep(&pause, NULL);
	}
	return atomic_load(&result) == 0;
}

struct seen {
	int threads[MOST_THREADS];
	uint32_t count;
};

static bool is_new(struct seen *seen, int thread)
{
	for (uint32_t i = 0; i < seen->count; i++)
		if (seen->threads[i] == thread)
			return false;
	if (seen->count < MOST_THREADS)
		seen->threads[seen->count++] = thread;
	return true;
}

static void close_folder(DIR **folder)
{
	if (*folder)
		closedir(*folder);
}

/* Reach the threads that SEEN lacks. Returns how many there were, or a negative errno. */
static int pass(struct seen *seen, uint32_t *left)
{
	mb_cleanup(close_folder) DIR *folder = opendir("/proc/self/task");
	const struct dirent *entry;
	int found = 0;

	if (!folder)
		return -errno;
	while ((entry = readdir(folder))) {
		int thread = atoi(entry->d_name);

		if (thread <= 0 || !is_new(seen, thread))
			continue;
		found++;
		*left += !reach(thread);
	}
	return found;
}

/* Reach every thread except this one. Returns 0 or a negative errno. */
static int reach_all(uint32_t *left)
{
	mb_auto_free struct seen *seen = calloc(1, sizeof(*seen));
	int found = seen ? 1 : -ENOMEM;

	if (seen)
		is_new(seen, (int)syscall(SYS_gettid));
	for (int i = 0; i < PASSES && found > 0; i++)
		found = pass(seen, left);
	return found < 0 ? found : 0;
}

/* The kernel's struct sigaction: the handler is its first word on all architectures of Linux except MIPS. */
union action {
	void (*handler)(int, siginfo_t *, void *);
	unsigned char bytes[64];
};

static int set_action(const union action *next, union action *before)
{
	return syscall(SYS_rt_sigaction, SIGNAL, next, before, sizeof(uint64_t)) ? -errno : 0;
}

/* The C library sets the handler of SIGNAL with the first thread that it starts. This handler replaces it
 * temporarily. */
static int apply_everywhere(uint32_t *left)
{
	union action before = { 0 }, ours;
	int code = set_action(NULL, &before);

	if (code)
		return code;
	ours = before;
	ours.handler = on_signal;
	if (before.handler)
		code = set_action(&ours, NULL);
	if (!code)
		code = reach_all(left);
	if (before.handler)
		set_action(&before, NULL);
	return code;
}

int mb_rights_apply(const struct mb_rights *rights, uint32_t *left)
{
	int code;

	*left = 0;
	pthread_mutex_lock(&one_at_a_time);
	wanted = *rights;
	code = apply_everywhere(left);
	if (!code)
		code = apply(rights);
	pthread_mutex_unlock(&one_at_a_time);
	return code;
}

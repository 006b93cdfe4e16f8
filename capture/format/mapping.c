/* SPDX-License-Identifier: Apache-2.0 */
#include "format/mapping.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

/* 2 MiB and 32 MiB cost the same; with 4 MiB, many files at once use little memory. */
#define RELEASE_STEP ((size_t)4 << 20)
#define GUARDS 4096
#define NO_FAULT SIZE_MAX

/* A mapping as seen by the signal handler: plain words that never need a lock. */
struct guard {
	atomic_uintptr_t begin; /* 0: free */
	atomic_uintptr_t end;
	atomic_size_t fault; /* offset of the first page that could not be read */
};

static struct guard guards[GUARDS];
static int guards_used;
static pthread_mutex_t guards_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sigaction previous;
static size_t page_size;

static struct guard *guard_of(uintptr_t address)
{
	for (int i = 0; i < GUARDS; i++) {
		uintptr_t begin = atomic_load(&guards[i].begin);

		if (begin && address >= begin && address < atomic_load(&guards[i].end))
			return &guards[i];
	}
	return NULL;
}

/* Pass a bus error outside of our mappings to the previous handler. */
static void pass_on(int number, siginfo_t *info, void *context)
{
	static void *volatile passing; /* address of the error that is being handled */
	bool is_handled = previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN;

	/* A handler that calls the previous handler in turn comes back to us. */
	if (!is_handled || passing == info->si_addr) {
		signal(number, SIG_DFL); /* the access is repeated, and kills the process */
		if (info->si_code <= 0)
			raise(number);
		return;
	}
	passing = info->si_addr;
	if (previous.sa_flags & SA_SIGINFO)
		previous.sa_sigaction(number, info, context);
	else
		previous.sa_handler(number);
	passing = NULL;
}

/* mmap() is a bare system call, and everything else here is a plain load or store. */
static void on_bus_error(int number, siginfo_t *info, void *context)
{
	uintptr_t address = (uintptr_t)info->si_addr;
	struct guard *guard = info->si_code > 0 ? guard_of(address) : NULL;
	int saved = errno;

	if (guard) {
		uintptr_t page = address & ~(uintptr_t)(page_size - 1);
		size_t rest = atomic_load(&guard->end) - page;
		size_t offset = page - atomic_load(&guard->begin);

		if (offset < atomic_load(&guard->fault))
			atomic_store(&guard->fault, offset);
		if (mmap((void *)page, rest, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED) {
			errno = saved;
			return;
		}
	}
	pass_on(number, info, context);
	errno = saved;
}

static bool handler_is_ours(void)
{
	struct sigaction current;

	return !sigaction(SIGBUS, NULL, &current) && (current.sa_flags & SA_SIGINFO) &&
	       current.sa_sigaction == on_bus_error;
}

static int guard_add(uintptr_t begin, size_t size)
{
	struct sigaction action = { .sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_ONSTACK };
	int found = -ENOMEM;

	pthread_mutex_lock(&guards_lock);
	if (!guards_used)
		page_size = (size_t)sysconf(_SC_PAGESIZE);
	for (int i = 0; i < GUARDS && found < 0; i++)
		if (!atomic_load(&guards[i].begin))
			found = i;
	if (found >= 0 && !handler_is_ours() && sigaction(SIGBUS, &action, &previous))
		found = -errno;
	if (found >= 0) {
		atomic_store(&guards[found].fault, NO_FAULT);
		atomic_store(&guards[found].end, begin + size);
		atomic_store(&guards[found].begin, begin);
		guards_used++;
	}
	pthread_mutex_unlock(&guards_lock);
	return found;
}

static void guard_remove(int guard)
{
	pthread_mutex_lock(&guards_lock);
	atomic_store(&guards[guard].begin, 0);
	if (!--guards_used && handler_is_ours())
		sigaction(SIGBUS, &previous, NULL);
	pthread_mutex_unlock(&guards_lock);
}

int mb_mapping_open(struct mb_mapping *mapping, int fd, size_t size)
{
	void *base = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	int guard;

	if (base == MAP_FAILED)
		return -errno;
	guard = guard_add((uintptr_t)base, size);
	if (guard < 0) {
		munmap(base, size);
		return guard;
	}
	madvise(base, size, MADV_SEQUENTIAL);
	*mapping = (struct mb_mapping){ .base = base, .size = size, .guard = guard };
	return 0;
}

void mb_mapping_close(struct mb_mapping *mapping)
{
	if (!mapping->base)
		return;
	guard_remove(mapping->guard);
	munmap((void *)mapping->base, mapping->size);
	mapping->base = NULL;
}

void mb_mapping_release(struct mb_mapping *mapping, size_t offset)
{
	size_t step = offset - mapping->released;

	if (offset < mapping->size)
		step &= ~(RELEASE_STEP - 1);
	if (!step)
		return;
	madvise((void *)(mapping->base + mapping->released), step, MADV_DONTNEED);
	mapping->released += step;
}

bool mb_mapping_fault(const struct mb_mapping *mapping, size_t *offset)
{
	*offset = atomic_load(&guards[mapping->guard].fault);
	return *offset != NO_FAULT;
}

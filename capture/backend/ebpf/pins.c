/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/ebpf/pins.h"

#include <unistd.h>

void mb_ebpf_pins_close(struct mb_ebpf_pins *pins)
{
	if (pins->folder >= 0) {
		rmdir(pins->path); /* if it is empty */
		close(pins->folder);
	}
	pins->folder = -1;
}

#ifdef MB_EBPF_OBJECT

#include <bpf/bpf.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "cleanup.h"

#define MOUNT "/sys/fs/bpf"
#define BPFFS 0xcafe4a11u
#define TRIES 10 /* while other processes remove the folder, or check who holds it */
#define BETWEEN_MS 30

static int no_folder(const char *name, const char *path, int code, struct mb_error *error)
{
	if (code == EACCES || code == EPERM || code == EROFS)
		return mb_fail(error, code,
			       "%s: --pin: this process may not write in " MOUNT
			       ": start mburst as root, which gives that up once it has begun",
			       name);
	return mb_fail_errno(error, code, "%s: --pin: %s", name, path);
}

static int find_mount(const char *name, struct mb_error *error)
{
	struct statfs status;

	if (statfs(MOUNT, &status))
		return no_folder(name, MOUNT, errno, error);
	if ((uint32_t)status.f_type != BPFFS)
		return mb_fail(error, ENOENT,
			       "%s: --pin needs a mounted BPF file system: mount -t bpf bpf " MOUNT
			       " (`ip netns exec` hides that of the host: use nsenter --net=FILE)",
			       name);
	return 0;
}

/* Whether the open folder still has that name. */
static bool is_named(const struct mb_ebpf_pins *pins)
{
	struct stat open, named;

	return !fstat(pins->folder, &open) && !stat(pins->path, &named) && open.st_ino == named.st_ino;
}

/* Returns 0 with the folder open, locked and named; -EAGAIN if it was removed in the meantime; or another negative
 * errno. */
static int open_once(struct mb_ebpf_pins *pins)
{
	int status = 0;

	if (mkdir(pins->path, 0770) && errno != EEXIST)
		return -errno;
	pins->folder = open(pins->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (pins->folder < 0)
		return errno == ENOENT ? -EAGAIN : -errno;
	if (flock(pins->folder, LOCK_EX | LOCK_NB))
		status = errno == EWOULDBLOCK ? -EBUSY : -errno;
	else if (!is_named(pins))
		status = -EAGAIN;
	if (status) {
		close(pins->folder);
		pins->folder = -1;
	}
	return status;
}

/* The owner of a folder may give it to one of the groups of the owner, without CAP_CHOWN. */
static int change_group(const struct mb_ebpf_pins *pins, uint32_t group)
{
	const int before = setfsgid(group);
	const int status = fchown(pins->folder, (uid_t)-1, group) ? -errno : 0;

	setfsgid((gid_t)before);
	return status;
}

/* Skip calls that change nothing: a service may be denied them. */
static int give(const struct mb_ebpf_pins *pins, uint32_t group)
{
	struct stat found;
	int status = fstat(pins->folder, &found) ? -errno : 0;

	if (!status && found.st_gid != group)
		status = change_group(pins, group);
	if (!status && fchmod(pins->folder, 0770))
		status = -errno;
	return status;
}

int mb_ebpf_pins_open(struct mb_ebpf_pins *pins, uint32_t index, uint32_t group, const char *name,
		      struct mb_error *error)
{
	struct stat namespace;
	int status = find_mount(name, error);

	*pins = MB_EBPF_PINS_NONE;
	if (status)
		return status;
	if (stat("/proc/thread-self/ns/net", &namespace))
		return mb_fail_errno(error, errno, "%s: --pin: the network namespace", name);
	snprintf(pins->path, sizeof(pins->path), MB_EBPF_PINS "/%lu-%u", (unsigned long)namespace.st_ino, index);
	if (mkdir(MB_EBPF_PINS, 0755) && errno != EEXIST)
		return no_folder(name, MB_EBPF_PINS, errno, error);
	status = open_once(pins);
	for (int i = 0; i < TRIES && (status == -EAGAIN || status == -EBUSY); i++) {
		poll(NULL, 0, BETWEEN_MS);
		status = open_once(pins);
	}
	if (status == -EBUSY)
		return mb_fail(error, EBUSY,
			       "%s: another recorder counts with --pin: end it first, or record without --pin", name);
	if (!status)
		status = give(pins, group);
	return status ? no_folder(name, pins->path, -status, error) : 0;
}

static void path_of(const struct mb_ebpf_pins *pins, const char *file, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s/%s", pins->path, file);
}

int mb_ebpf_pins_put(const struct mb_ebpf_pins *pins, const char *file, int fd)
{
	char path[PATH_MAX];

	path_of(pins, file, path);
	return bpf_obj_pin(fd, path) ? -errno : 0;
}

int mb_ebpf_pins_get(const struct mb_ebpf_pins *pins, const char *file)
{
	char path[PATH_MAX];
	int fd;

	path_of(pins, file, path);
	fd = bpf_obj_get(path);
	return fd < 0 ? -errno : fd;
}

/* Remove FILE; a link is detached first. Without its file, a link would be removed only after the kernel's next grace
 * period, and would until then occupy a hook that takes a single program. Returns whether FILE was removed. */
static bool take_away(const struct mb_ebpf_pins *pins, const char *file)
{
	mb_auto_close int fd = mb_ebpf_pins_get(pins, file);

	if (fd >= 0)
		bpf_link_detach(fd); /* fails if it is not a link */
	return !unlinkat(pins->folder, file, 0);
}

int mb_ebpf_pins_clear(const struct mb_ebpf_pins *pins)
{
	const int fd = openat(pins->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *folder = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	int files = 0;

	while (folder && (entry = readdir(folder)))
		files += *entry->d_name != '.' && take_away(pins, entry->d_name);
	if (folder)
		closedir(folder);
	else if (fd >= 0)
		close(fd);
	return files;
}

void mb_ebpf_pins_remove(struct mb_ebpf_pins *pins)
{
	if (pins->folder < 0)
		return;
	mb_ebpf_pins_clear(pins);
	mb_ebpf_pins_close(pins);
}

#else

#include "backend/ebpf/kernel.h"

int mb_ebpf_pins_open(struct mb_ebpf_pins *pins, uint32_t index, uint32_t group, const char *name,
		      struct mb_error *error)
{
	(void)pins, (void)index, (void)group;
	return mb_ebpf_check(name, error); /* which reports what is missing */
}

int mb_ebpf_pins_clear(const struct mb_ebpf_pins *pins)
{
	(void)pins;
	return 0;
}

void mb_ebpf_pins_remove(struct mb_ebpf_pins *pins)
{
	mb_ebpf_pins_close(pins);
}

#endif

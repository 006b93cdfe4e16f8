/* SPDX-License-Identifier: Apache-2.0 */
#include "keep/packet_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "clock.h"
#include "format/pcapng_write.h"

#define NAME_LENGTH 64
#define LOOK_NS 1000000000 /* between two checks of the free space on the disk */
#define MODE 0600          /* only the owner may read what was sent to whom */

static void name_of(const struct mb_packet_file *file, char name[NAME_LENGTH])
{
	snprintf(name, NAME_LENGTH, "%010" PRIu64 "-%019" PRId64 ".pcapng", file->number, file->first_ns);
}

static bool parse_name(const char *text, struct mb_packet_file *file)
{
	char name[NAME_LENGTH];

	if (sscanf(text, "%20" SCNu64 "-%20" SCNd64 ".pcapng", &file->number, &file->first_ns) != 2)
		return false;
	name_of(file, name);
	return !strcmp(name, text);
}

static bool is_unfinished(const char *text)
{
	const char *ending = strrchr(text, '.');

	return text[0] == '.' && ending > text && !strcmp(ending, ".new");
}

static int add_file(struct mb_packet_files *files, const struct mb_packet_file *file)
{
	if (files->count == files->room) {
		size_t room = files->room ? 2 * files->room : 2 * MB_PACKET_FILES;
		void *list = realloc(files->list, room * sizeof(*files->list));

		if (!list)
			return -ENOMEM;
		files->list = list;
		files->room = room;
	}
	files->list[files->count++] = *file;
	files->total_bytes += file->bytes;
	return 0;
}

static int by_number(const void *one, const void *other)
{
	const struct mb_packet_file *a = one, *b = other;

	return (a->number > b->number) - (a->number < b->number);
}

/* List the files of earlier rings, and remove unfinished ones. */
static int scan(struct mb_packet_files *files)
{
	int fd = openat(files->options.folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *folder = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	int code = folder ? 0 : -errno;

	while (folder && !code && (entry = readdir(folder))) {
		struct mb_packet_file file;
		struct stat status;

		if (is_unfinished(entry->d_name))
			unlinkat(files->options.folder, entry->d_name, 0);
		if (!parse_name(entry->d_name, &file) ||
		    fstatat(files->options.folder, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) ||
		    !S_ISREG(status.st_mode))
			continue;
		file.bytes = (uint64_t)status.st_size;
		code = add_file(files, &file);
	}
	if (folder)
		closedir(folder);
	if (files->count)
		qsort(files->list, files->count, sizeof(*files->list), by_number);
	files->next_number = files->count ? files->list[files->count - 1].number + 1 : 1;
	return code;
}

int mb_packet_files_open(struct mb_packet_files *files, const struct mb_packet_files_options *options,
			 const struct mb_interface *interface, struct mb_error *error)
{
	int code;

	*files = (struct mb_packet_files){ .options = *options, .interface = *interface, .file = -1 };
	files->file_bytes = options->most_bytes / MB_PACKET_FILES;
	files->looked_ns = INT64_MIN / 2;
	snprintf(files->session, sizeof(files->session), "%" PRId64, mb_clock_ns(CLOCK_REALTIME));
	files->options.folder = fcntl(options->folder, F_DUPFD_CLOEXEC, 0);
	code = files->options.folder < 0 ? -errno : scan(files);
	return code ? mb_fail_errno(error, -code, "the folder for packets") : 0;
}

static void close_file(struct mb_packet_files *files)
{
	if (files->file >= 0)
		close(files->file);
	files->file = -1;
}

void mb_packet_files_close(struct mb_packet_files *files)
{
	close_file(files);
	if (files->options.folder >= 0)
		close(files->options.folder);
	free(files->list);
	files->list = NULL;
}

/* Remove the oldest file that is not open. Returns false if there is none, or if it cannot be removed. */
static bool give_up_oldest(struct mb_packet_files *files)
{
	char name[NAME_LENGTH];

	if (files->count <= (files->file >= 0))
		return false;
	name_of(&files->list[0], name);
	if (unlinkat(files->options.folder, name, 0) && errno != ENOENT)
		return false;
	files->total_bytes -= files->list[0].bytes;
	memmove(files->list, files->list + 1, --files->count * sizeof(*files->list));
	return true;
}

static bool has_room(const struct mb_packet_files *files, uint64_t least_bytes)
{
	struct statvfs disk;

	return fstatvfs(files->options.folder, &disk) || (uint64_t)disk.f_bavail * disk.f_frsize >= least_bytes;
}

/* Remove files, the oldest first and the open one last, until LEAST_BYTES of the disk are free. Returns false if that
 * is not enough. */
static bool make_room(struct mb_packet_files *files, uint64_t least_bytes)
{
	while (!has_room(files, least_bytes)) {
		if (give_up_oldest(files))
			continue;
		if (files->file < 0)
			return false;
		close_file(files);
	}
	return true;
}

/* Check the free space on the disk from time to time: if it is short, the ring becomes smaller. */
static int look_at_disk(struct mb_packet_files *files, struct mb_error *error)
{
	const int64_t now = mb_clock_ns(CLOCK_MONOTONIC);
	const uint64_t reserve = files->options.reserve_bytes;

	if (now - files->looked_ns >= LOOK_NS) {
		files->looked_ns = now;
		files->is_short = !make_room(files, files->is_short ? reserve + reserve / 4 : reserve);
	}
	return files->is_short ? mb_fail(error, ENOSPC, "the disk has too little room") : 0;
}

static int write_whole(int file, const uint8_t *bytes, size_t length, off_t at)
{
	while (length) {
		ssize_t done = pwrite(file, bytes, length, at);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return done ? -errno : -EIO;
		bytes += done;
		at += done;
		length -= (size_t)done;
	}
	return 0;
}

static size_t make_header(const struct mb_packet_files *files, uint8_t *bytes)
{
	char comment[64];
	const struct mb_text application = { "mburst", 6 };
	const struct mb_text session = { comment,
					 (size_t)snprintf(comment, sizeof(comment), "mburst ring %s", files->session) };
	uint8_t *at = mb_pcapng_put_section(bytes, &application, &session, 1);

	return (size_t)(mb_pcapng_put_interface(at, &files->interface) - bytes);
}

/* Begin a file, and give it its name once it has its header. Returns 0 or a negative errno. */
static int begin_file(struct mb_packet_files *files, int64_t first_ns)
{
	struct mb_packet_file file = { .number = files->next_number, .first_ns = first_ns > 0 ? first_ns : 0 };
	uint8_t header[1024];
	char draft[NAME_LENGTH], name[NAME_LENGTH];
	int code;

	file.bytes = make_header(files, header);
	snprintf(draft, sizeof(draft), ".%010" PRIu64 ".new", file.number);
	name_of(&file, name);
	files->file = openat(files->options.folder, draft, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, MODE);
	if (files->file < 0)
		return -errno;
	code = write_whole(files->file, header, file.bytes, 0);
	if (!code && renameat(files->options.folder, draft, files->options.folder, name))
		code = -errno;
	if (!code)
		code = add_file(files, &file);
	if (code) {
		unlinkat(files->options.folder, draft, 0);
		close_file(files);
		return code;
	}
	files->next_number++;
	return 0;
}

int mb_packet_files_prepare(struct mb_packet_files *files, size_t length, int64_t first_ns, bool *is_new,
			    struct mb_error *error)
{
	int code = look_at_disk(files, error);

	*is_new = false;
	if (code)
		return code;
	if (files->file >= 0 && files->list[files->count - 1].bytes + length > files->file_bytes)
		close_file(files);
	if (files->file >= 0)
		return 0;
	while (files->total_bytes + files->file_bytes > files->options.most_bytes)
		if (!give_up_oldest(files))
			return mb_fail(error, EBUSY, "an old file cannot be removed");
	code = begin_file(files, first_ns);
	*is_new = !code;
	return code ? mb_fail_errno(error, -code, "a new file") : 0;
}

int mb_packet_files_write(struct mb_packet_files *files, const void *bytes, size_t length, struct mb_error *error)
{
	struct mb_packet_file *file = &files->list[files->count - 1];
	int code = write_whole(files->file, bytes, length, (off_t)file->bytes);

	if (code) {
		/* Readers treat a partial block at the end of a file as its end. */
		if (ftruncate(files->file, (off_t)file->bytes))
			close_file(files);
		if (code == -ENOSPC || code == -EDQUOT)
			give_up_oldest(files);
		return mb_fail_errno(error, -code, "the newest file");
	}
	file->bytes += length;
	files->total_bytes += length;
	return 0;
}

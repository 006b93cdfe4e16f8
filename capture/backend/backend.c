/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/backend.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/device.h"

const struct mb_backend_ops *const mb_backends[] = {
	&mb_backend_file, &mb_backend_ebpf, &mb_backend_afpacket, &mb_backend_libpcap, &mb_backend_pfring, NULL,
};

bool mb_backend_is_auto(const struct mb_backend_options *options)
{
	return !options->backend || !strcmp(options->backend, "auto");
}

static int open_with(const struct mb_backend_ops *ops, struct mb_backend *backend,
		     const struct mb_backend_options *options, struct mb_error *error)
{
	int status;

	backend->ops = ops;
	backend->state = calloc(1, ops->state_size);
	if (!backend->state)
		return mb_fail_errno(error, ENOMEM, "%s", options->target);
	status = ops->open(backend, options, error);
	if (status)
		mb_backend_close(backend);
	return status;
}

/* Whether TARGET, which does not exist, is too long for the name of an interface, and does not look like a file's. */
static bool is_long_name(const char *target)
{
	return strlen(target) >= IFNAMSIZ && !strpbrk(target, "/.:");
}

static int missing(const char *target, struct mb_error *error)
{
	if (is_long_name(target))
		return mb_fail(
			error, ENOENT,
			"%s: no such file, and no interface by a name of at most %d bytes: " MB_DEVICE_SHORT_NAME,
			target, IFNAMSIZ - 1);
	return mb_fail(error, ENOENT, "%s: no such file or interface: `ip link` lists the interfaces", target);
}

/* Open the first backend that accepts the target; if that one gives way, the next. */
static int open_any(struct mb_backend *backend, const struct mb_backend_options *options, struct mb_error *error)
{
	struct mb_error passed_over = { "" };
	int status = missing(options->target, error);

	for (const struct mb_backend_ops *const *ops = mb_backends; *ops; ops++) {
		if (!(*ops)->accepts(options->target))
			continue;
		status = open_with(*ops, backend, options, (*ops)->gives_way ? &passed_over : error);
		if (!status || !(*ops)->gives_way)
			break;
	}
	backend->passed_over = passed_over;
	return status;
}

int mb_backend_open(struct mb_backend *backend, const struct mb_backend_options *options, struct mb_error *error)
{
	memset(backend, 0, sizeof(*backend));
	if (mb_backend_is_auto(options))
		return open_any(backend, options, error);
	for (const struct mb_backend_ops *const *ops = mb_backends; *ops; ops++)
		if (!strcmp(options->backend, (*ops)->name))
			return open_with(*ops, backend, options, error);
	return mb_fail(error, EINVAL, "%s: no such backend", options->backend);
}

void mb_backend_close(struct mb_backend *backend)
{
	if (!backend->state)
		return;
	backend->ops->close(backend);
	free(backend->state);
	backend->state = NULL;
}

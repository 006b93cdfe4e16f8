/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/backend.h"

#include <errno.h>
#include <string.h>

const struct mb_source_ops *const mb_sources[] = {
	&mb_source_file,
	&mb_source_afpacket,
	&mb_source_pcap,
	&mb_source_pfring,
	NULL,
};

static bool is_auto(const char *backend)
{
	return !backend || !strcmp(backend, "auto");
}

int mb_source_open(struct mb_source *source, const struct mb_source_options *options,
		   struct mb_error *error)
{
	memset(source, 0, sizeof(*source));
	for (const struct mb_source_ops *const *ops = mb_sources; *ops; ops++) {
		if (is_auto(options->backend) ? !(*ops)->accepts(options->target)
					      : strcmp(options->backend, (*ops)->name))
			continue;
		source->ops = *ops;
		return (*ops)->open(source, options, error);
	}
	if (is_auto(options->backend))
		return mb_fail(error, ENOENT, "%s: no such file or interface", options->target);
	return mb_fail(error, EINVAL, "%s: no such backend", options->backend);
}

void mb_source_close(struct mb_source *source)
{
	if (source->state)
		source->ops->close(source);
	source->state = NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/ebpf/options.h"

#include <errno.h>

#define NARROWEST_NS 1000
#define WIDEST_NS 4000000000

/* The first given option that only rings support, or NULL. */
static const char *ring_option(const struct mb_backend_options *options)
{
	if (options->threads > 1)
		return "--threads";
	if (options->ring_bytes)
		return "--ring";
	return options->snaplen ? "--snaplen" : NULL;
}

/* Refuse the options; `auto` then uses packet sockets and reports REASON. */
static int refuse(const struct mb_backend_options *options, const char *reason, struct mb_error *error)
{
	return mb_fail(error, EOPNOTSUPP, "%s: --backend ebpf %s%s", options->target, reason,
		       mb_backend_is_auto(options) ? "" : ": use --backend afpacket");
}

int mb_ebpf_refuse_options(const struct mb_backend_options *options, struct mb_error *error)
{
	const int64_t wide = options->bin_ns > options->source_bin_ns ? options->bin_ns : options->source_bin_ns;
	const int64_t narrow = options->bin_ns > options->source_bin_ns ? options->source_bin_ns : options->bin_ns;

	if (options->filter)
		return refuse(options, "has no --filter, it counts every frame", error);
	if (options->stamps == MB_STAMPS_HW)
		return refuse(options, "has no hardware stamps, it counts by the kernel's clock", error);
	if (options->keeps)
		return refuse(options, "has no --keep-packets, it has no packets to keep", error);
	if (options->merges)
		return refuse(options, "yields no frames, by which several captures are merged", error);
	if (mb_backend_is_auto(options) && ring_option(options))
		return mb_fail(error, EOPNOTSUPP, "%s: %s is for rings of packet sockets", options->target,
			       ring_option(options));
	if (narrow < NARROWEST_NS || wide > WIDEST_NS)
		return mb_fail(error, EINVAL, "%s: --backend ebpf has bins of 1 µs to 4 s", options->target);
	if (wide % narrow)
		return mb_fail(
			error, EINVAL,
			"%s: --backend ebpf: of the widths of bins and of bins of senders, one must be a multiple "
			"of the other",
			options->target);
	return 0;
}

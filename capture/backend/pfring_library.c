/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/pfring_library.h"

#include <dlfcn.h>
#include <errno.h>
#include <pcap/pcap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void mb_pfring_unload(struct pfring_api *api)
{
	if (api->library)
		dlclose(api->library);
	api->library = NULL;
}

/* The vendor's library calls libpcap without naming it as a dependency (`ldd -r` shows that): it relies on the
 * program's libpcap. The libraries of a Python module are private to it until they are opened again, globally. */
static void share_libpcap(void)
{
	const char *(*function)(void) = pcap_lib_version;
	void *address, *library = NULL;
	Dl_info found;

	memcpy(&address, &function, sizeof(address));
	if (dladdr(address, &found))
		library = dlopen(found.dli_fname, RTLD_LAZY | RTLD_GLOBAL | RTLD_NOLOAD);
	if (library)
		dlclose(library); /* it stays loaded: this program needs it */
}

bool mb_pfring_has_module(void)
{
	return !access("/sys/module/pf_ring", F_OK) || !access("/proc/net/pf_ring", F_OK);
}

/* Binds lazily, because functions that its card modules need do not exist without the card. REASON: why no library
 * could be loaded. The message about a library that exists, but not its dependencies, begins with the name of a
 * dependency; it takes precedence over messages about libraries that do not exist. */
static void *open_library(char *reason, size_t length)
{
	const char *named = secure_getenv("MBURST_PFRING_LIB");
	/* the soname of release 8, that of release 7, and the name from a development package */
	const char *const names[] = { "libpfring.so.8", "libpfring.so.1", "libpfring.so", NULL };
	const char *const only[] = { named, NULL };
	void *library = NULL;

	share_libpcap();
	for (const char *const *name = named && *named ? only : names; !library && *name; name++) {
		library = dlopen(*name, RTLD_LAZY | RTLD_LOCAL);
		if (!library) {
			const char *said = dlerror();

			if (!*reason || strncmp(said, *name, strlen(*name)))
				snprintf(reason, length, "%s", said);
		}
	}
	return library;
}

int mb_pfring_load(struct pfring_api *api, struct mb_error *error)
{
	char tried[256] = "";
	const struct {
		void *function;
		const char *name;
	} symbols[] = {
		{ &api->open, "pfring_open" },
		{ &api->set_application_name, "pfring_set_application_name" },
		{ &api->set_direction, "pfring_set_direction" },
		{ &api->set_socket_mode, "pfring_set_socket_mode" },
		{ &api->set_cluster, "pfring_set_cluster" },
		{ &api->set_bpf_filter, "pfring_set_bpf_filter" },
		{ &api->enable_ring, "pfring_enable_ring" },
		{ &api->recv, "pfring_recv" },
		{ &api->stats, "pfring_stats" },
		{ &api->close, "pfring_close" },
	};

	api->library = open_library(tried, sizeof(tried));
	if (!api->library)
		return mb_fail(error, ENOENT,
			       "PF_RING's library is not installed (%s): install the pfring package "
			       "of ntop, or name the library in MBURST_PFRING_LIB",
			       tried);
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		void *function = dlsym(api->library, symbols[i].name);

		if (!function) {
			mb_pfring_unload(api);
			return mb_fail(error, ENOSYS, "PF_RING's library has no %s: it needs version 7.3 or newer",
				       symbols[i].name);
		}
		memcpy(symbols[i].function, &function, sizeof(function));
	}
	return 0;
}

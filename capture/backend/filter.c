/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/filter.h"

#include <errno.h>
#include <inttypes.h>
#include <pcap/pcap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "format/pcap_header.h"

struct program {
	uint32_t linktype;
	bool swapped;
	struct bpf_program code;
};

struct mb_filter {
	char *expression;
	struct program **of_interface; /* owned by `programs` */
	size_t interfaces;
	struct program **programs;
	size_t count;
};

struct mb_filter *mb_filter_create(const char *expression)
{
	struct mb_filter *filter = calloc(1, sizeof(*filter));

	if (filter)
		filter->expression = strdup(expression);
	if (filter && !filter->expression) {
		free(filter);
		return NULL;
	}
	return filter;
}

void mb_filter_destroy(struct mb_filter *filter)
{
	if (!filter)
		return;
	for (size_t i = 0; i < filter->count; i++) {
		pcap_freecode(&filter->programs[i]->code);
		free(filter->programs[i]);
	}
	free(filter->programs);
	free(filter->of_interface);
	free(filter->expression);
	free(filter);
}

/* A libpcap handle for a link type. libpcap's file reader maps LINKTYPE_ values to the DLT_ values for which it
 * compiles, and handles byte order; pcap_open_dead() leaves both to the caller. */
static pcap_t *open_handle(uint32_t linktype, bool swapped, char *reason)
{
	uint32_t header[6] = { MB_PCAP_MAGIC, 0, 0, 0, 256 << 10, linktype };
	uint16_t version[2] = { 2, 4 };
	FILE *file;
	pcap_t *handle;

	for (size_t i = 0; i < 6; i++)
		header[i] = mb_load32((uint8_t *)&header[i], swapped);
	for (size_t i = 0; i < 2; i++)
		version[i] = mb_load16((uint8_t *)&version[i], swapped);
	memcpy(&header[1], version, sizeof(version));
	file = fmemopen(header, sizeof(header), "r");
	if (!file) {
		snprintf(reason, PCAP_ERRBUF_SIZE, "%s", strerror(errno));
		return NULL;
	}
	handle = pcap_fopen_offline(file, reason);
	if (!handle)
		fclose(file);
	return handle;
}

/* "Ethernet", or "link type 147" if libpcap has no name. */
static void name_linktype(char *name, size_t length, pcap_t *handle, uint32_t linktype)
{
	const char *known = pcap_datalink_val_to_description(pcap_datalink(handle));

	if (known)
		snprintf(name, length, "%s", known);
	else
		snprintf(name, length, "link type %" PRIu32, linktype);
}

static int compile(const struct mb_filter *filter, struct program *program, struct mb_error *error)
{
	char reason[PCAP_ERRBUF_SIZE] = "";
	pcap_t *handle = open_handle(program->linktype, program->swapped, reason);
	int result = 0;

	if (!handle)
		return mb_fail(error, EINVAL, "filter '%s': %s", filter->expression, reason);
	if (pcap_compile(handle, &program->code, filter->expression, 1, PCAP_NETMASK_UNKNOWN)) {
		char name[128];

		name_linktype(name, sizeof(name), handle, program->linktype);
		result = mb_fail(error, EINVAL, "filter '%s' cannot be compiled for %s: %s", filter->expression, name,
				 pcap_geterr(handle));
	}
	pcap_close(handle);
	return result;
}

static int add_program(struct mb_filter *filter, uint32_t linktype, bool swapped, struct mb_error *error)
{
	void *programs = realloc(filter->programs, (filter->count + 1) * sizeof(*filter->programs));
	struct program *program;
	int result;

	if (!programs)
		return mb_fail(error, ENOMEM, "filter: out of memory");
	filter->programs = programs;
	program = calloc(1, sizeof(*program));
	if (!program)
		return mb_fail(error, ENOMEM, "filter: out of memory");
	program->linktype = linktype;
	program->swapped = swapped;
	result = compile(filter, program, error);
	if (result < 0)
		free(program);
	else
		filter->programs[filter->count++] = program;
	return result;
}

static struct program *find_program(const struct mb_filter *filter, uint32_t linktype, bool swapped)
{
	for (size_t i = 0; i < filter->count; i++)
		if (filter->programs[i]->linktype == linktype && filter->programs[i]->swapped == swapped)
			return filter->programs[i];
	return NULL;
}

int mb_filter_prepare(struct mb_filter *filter, const struct mb_interface *interfaces, size_t count, bool swapped,
		      struct mb_error *error)
{
	if (count > filter->interfaces) {
		void *list = realloc(filter->of_interface, count * sizeof(*filter->of_interface));

		if (!list)
			return mb_fail(error, ENOMEM, "filter: out of memory");
		filter->of_interface = list;
	}
	while (filter->interfaces < count) {
		uint32_t linktype = interfaces[filter->interfaces].linktype;
		struct program *program = find_program(filter, linktype, swapped);

		if (!program) {
			int result = add_program(filter, linktype, swapped, error);

			if (result < 0)
				return result;
			continue;
		}
		filter->of_interface[filter->interfaces++] = program;
	}
	return 0;
}

uint32_t mb_filter_apply(const struct mb_filter *filter, struct mb_batch *batch)
{
	uint32_t kept = 0, done = 0;

	for (; done < batch->count; done++) {
		const struct mb_frame *frame = &batch->frames[done];
		struct pcap_pkthdr header = { .caplen = frame->caplen, .len = frame->len };

		if (frame->interface >= filter->interfaces)
			break;
		if (pcap_offline_filter(&filter->of_interface[frame->interface]->code, &header, frame->data))
			batch->frames[kept++] = *frame;
	}
	batch->count = kept;
	return done - kept;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "format/interfaces.h"
#include "linktype.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

int mb_interfaces_add(struct mb_interfaces *interfaces, const struct mb_interface *interface)
{
	if (interfaces->count > UINT16_MAX)
		return -E2BIG;
	if (interfaces->count == interfaces->room) {
		size_t room = interfaces->room ? 2 * interfaces->room : 4;
		void *list = realloc(interfaces->list, room * sizeof(*interfaces->list));

		if (!list)
			return -ENOMEM;
		interfaces->list = list;
		interfaces->room = room;
	}
	interfaces->list[interfaces->count] = *interface;
	return (int)interfaces->count++;
}

void mb_interfaces_deinit(struct mb_interfaces *interfaces)
{
	free(interfaces->list);
	mb_interface_index_deinit(&interfaces->numbers);
	*interfaces = (struct mb_interfaces){ 0 };
}

int mb_interfaces_number(struct mb_interfaces *interfaces, struct mb_interface_index *tally, const char *name,
			 const struct mb_interface *interface)
{
	uint32_t *seen, *number;
	int index;

	if (!name)
		return mb_interfaces_add(interfaces, interface);
	seen = mb_interface_index_at(tally, name, interface, 0);
	number = seen ? mb_interface_index_at(&interfaces->numbers, name, interface, *seen) : NULL;
	if (!number)
		return -ENOMEM;
	(*seen)++;
	if (*number)
		return (int)*number - 1;
	index = mb_interfaces_add(interfaces, interface);
	if (index >= 0)
		*number = (uint32_t)index + 1;
	return index;
}

/* Length of the well-formed UTF-8 character at TEXT (RFC 3629), or 0. */
static size_t utf8_length(const unsigned char *text, size_t left)
{
	static const struct {
		unsigned char first, last, low, high;
	} leads[] = { { 0xc2, 0xdf, 0x80, 0xbf }, { 0xe0, 0xe0, 0xa0, 0xbf }, { 0xe1, 0xec, 0x80, 0xbf },
		      { 0xed, 0xed, 0x80, 0x9f }, { 0xee, 0xef, 0x80, 0xbf }, { 0xf0, 0xf0, 0x90, 0xbf },
		      { 0xf1, 0xf3, 0x80, 0xbf }, { 0xf4, 0xf4, 0x80, 0x8f } };

	if (text[0] < 0x80)
		return text[0] >= 0x20 && text[0] != 0x7f;
	for (size_t i = 0; i < sizeof(leads) / sizeof(leads[0]); i++) {
		size_t length = text[0] >= 0xf0 ? 4 : text[0] >= 0xe0 ? 3 : 2;

		if (text[0] < leads[i].first || text[0] > leads[i].last)
			continue;
		if (left < length || text[1] < leads[i].low || text[1] > leads[i].high)
			return 0;
		for (size_t at = 2; at < length; at++)
			if ((text[at] & 0xc0) != 0x80)
				return 0;
		return length;
	}
	return 0;
}

void mb_interface_set_name(struct mb_interface *interface, const char *text, size_t length)
{
	size_t at = 0, put = 0;

	length = strnlen(text, length);
	while (at < length) {
		size_t take = utf8_length((const unsigned char *)text + at, length - at);

		if (put + (take ? take : 1) >= MB_INTERFACE_NAME)
			break;
		if (take) {
			memcpy(interface->name + put, text + at, take);
			put += take;
			at += take;
		} else {
			interface->name[put++] = '?';
			at++;
		}
	}
	interface->name[put] = '\0';
}

/* LENGTH of NAME without ".EXTENSION" and the number that rotation may have added. */
static size_t without_extension(const char *name, size_t length, const char *extension)
{
	size_t tail = strlen(extension), end = length;

	while (end && name[end - 1] >= '0' && name[end - 1] <= '9')
		end--;
	if (end < tail + 2 || name[end - tail - 1] != '.' || strncasecmp(name + end - tail, extension, tail))
		return length;
	return end - tail - 1;
}

void mb_interface_set_stem(struct mb_interface *interface, const char *path)
{
	static const char *const extensions[] = { "gz", "zst", "xz", "pcap", "cap", "dmp", "dump", "lcap" };
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	size_t length = strlen(name);

	for (size_t i = 0; i < sizeof(extensions) / sizeof(extensions[0]); i++)
		length = without_extension(name, length, extensions[i]);
	mb_interface_set_name(interface, name, length);
}

uint32_t mb_linktype_max_caplen(uint32_t linktype)
{
	switch (linktype) {
	case MB_LINKTYPE_DBUS:
	case MB_LINKTYPE_USBPCAP:
		return 128 << 20;
	case MB_LINKTYPE_EBHSCR:
		return 32 << 20;
	default:
		return 256 << 10;
	}
}

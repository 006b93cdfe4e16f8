/* SPDX-License-Identifier: Apache-2.0 */
#include "format/pcapng_write.h"

#define UNKNOWN_LENGTH UINT64_MAX
#define NANOSECONDS 9

size_t mb_pcapng_comments_room(const struct mb_text *comments, size_t count)
{
	size_t bytes = 0;

	for (size_t i = 0; i < count; i++)
		bytes += 4 + mb_pcapng_padded(comments[i].length);
	return bytes;
}

uint8_t *mb_pcapng_put_comments(uint8_t *at, const struct mb_text *comments, size_t count)
{
	for (size_t i = 0; i < count; i++)
		at = mb_pcapng_put_option(at, MB_PCAPNG_COMMENT, comments[i].text, comments[i].length);
	return at;
}

size_t mb_pcapng_section_room(const struct mb_text *application, const struct mb_text *comments, size_t count)
{
	return 28 + 8 + mb_pcapng_padded(application->length) + mb_pcapng_comments_room(comments, count);
}

uint8_t *mb_pcapng_put_section(uint8_t *at, const struct mb_text *application, const struct mb_text *comments,
			       size_t count)
{
	const uint16_t version[2] = { 1, 0 };
	const uint64_t length = UNKNOWN_LENGTH;
	uint8_t *begun = at;

	at = mb_pcapng_begin(at, MB_PCAPNG_SECTION_HEADER);
	at = mb_pcapng_put32(at, MB_PCAPNG_BYTE_ORDER_MAGIC);
	at = mb_pcapng_put_bytes(at, version, sizeof(version));
	at = mb_pcapng_put_bytes(at, &length, sizeof(length));
	at = mb_pcapng_put_comments(at, comments, count);
	at = mb_pcapng_put_option(at, MB_PCAPNG_SHB_USERAPPL, application->text, application->length);
	at = mb_pcapng_put32(at, MB_PCAPNG_END_OF_OPTIONS);
	return mb_pcapng_end(begun, at);
}

uint8_t *mb_pcapng_put_interface(uint8_t *at, const struct mb_interface *interface)
{
	const uint16_t link[2] = { (uint16_t)interface->linktype, 0 };
	const uint8_t resolution = NANOSECONDS, fcs_len = (uint8_t)interface->fcs_len;
	uint8_t *begun = at;

	at = mb_pcapng_begin(at, MB_PCAPNG_INTERFACE_DESCRIPTION);
	at = mb_pcapng_put_bytes(at, link, sizeof(link));
	at = mb_pcapng_put32(at, interface->snaplen);
	if (interface->name[0])
		at = mb_pcapng_put_option(at, MB_PCAPNG_IF_NAME, interface->name, strlen(interface->name));
	if (interface->link_bps)
		at = mb_pcapng_put_option(at, MB_PCAPNG_IF_SPEED, &interface->link_bps, sizeof(interface->link_bps));
	at = mb_pcapng_put_option(at, MB_PCAPNG_IF_TSRESOL, &resolution, sizeof(resolution));
	if (fcs_len)
		at = mb_pcapng_put_option(at, MB_PCAPNG_IF_FCSLEN, &fcs_len, sizeof(fcs_len));
	at = mb_pcapng_put32(at, MB_PCAPNG_END_OF_OPTIONS);
	return mb_pcapng_end(begun, at);
}

size_t mb_pcapng_statistics_room(const struct mb_text *comments, size_t count)
{
	return MB_PCAPNG_STATISTICS_ROOM + mb_pcapng_comments_room(comments, count);
}

uint8_t *mb_pcapng_put_statistics(uint8_t *at, int64_t ts_ns, uint64_t received, uint64_t dropped,
				  const struct mb_text *comments, size_t count)
{
	uint8_t *begun = at;

	at = mb_pcapng_begin(at, MB_PCAPNG_INTERFACE_STATISTICS);
	at = mb_pcapng_put32(at, 0);
	at = mb_pcapng_put_stamp(at, ts_ns);
	at = mb_pcapng_put_comments(at, comments, count);
	at = mb_pcapng_put_option(at, MB_PCAPNG_ISB_IFRECV, &received, sizeof(received));
	at = mb_pcapng_put_option(at, MB_PCAPNG_ISB_IFDROP, &dropped, sizeof(dropped));
	at = mb_pcapng_put32(at, MB_PCAPNG_END_OF_OPTIONS);
	return mb_pcapng_end(begun, at);
}

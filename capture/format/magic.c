/* SPDX-License-Identifier: Apache-2.0 */
#include "format/magic.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define CONVERT ": convert it to pcapng with Wireshark's editcap"

struct kind {
	const char *magic;
	size_t length;
	const char *description;
};

#define KIND(bytes, text) { bytes, sizeof(bytes) - 1, text }

static const struct kind kinds[] = {
	KIND("snoop\0\0\0", "a snoop capture" CONVERT),
	KIND("RTSS", "a Network Monitor capture" CONVERT),
	KIND("GMBU", "a Network Monitor capture" CONVERT),
	KIND("XCP\0", "a Sniffer (NetXRay) capture" CONVERT),
	KIND("TRSNIFF data", "a Sniffer capture" CONVERT),
	KIND("\x7fpkt", "an Omnipeek capture" CONVERT),
	KIND("\xa1\xb2\x34\xcd", "an undocumented pcap variant"),
	KIND("\xcd\x34\xb2\xa1", "an undocumented pcap variant"),
	KIND("BZh", "bzip2 data: pipe it: bzip2 -dc FILE | mburst … -"),
	KIND("\x04\x22\x4d\x18", "lz4 data: pipe it: lz4 -dc FILE | mburst … -"),
	KIND("PK\x03\x04", "a zip archive: unpack it first"),
	KIND("7z\xbc\xaf\x27\x1c", "a 7z archive: unpack it first"),
	KIND("\x7f"
	     "ELF",
	     "a program"),
	KIND("PAR1", "a Parquet file"),
	KIND("ARROW1", "an Arrow file"),
	KIND("SQLite format 3", "an SQLite database"),
};

static bool is_text(const uint8_t *head, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if ((head[i] < 0x20 && !strchr("\t\n\r\f", head[i])) || head[i] == 0x7f || !head[i])
			return false;
	return true;
}

/* A pcapng file in which a text-mode transfer removed or added carriage returns. */
static bool is_mangled_pcapng(const uint8_t *head, size_t length)
{
	return length >= 4 && head[0] == '\n' && (head[1] == '\n' || head[1] == '\r');
}

void mb_magic_describe(const uint8_t *head, size_t length, char text[MB_MAGIC_TEXT])
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (length >= kinds[i].length && !memcmp(head, kinds[i].magic, kinds[i].length)) {
			snprintf(text, MB_MAGIC_TEXT, "%s", kinds[i].description);
			return;
		}
	if (length > 16)
		length = 16;
	if (is_mangled_pcapng(head, length)) {
		snprintf(text, MB_MAGIC_TEXT,
			 "a pcapng file damaged by a transfer in text mode: fetch it again in "
			 "binary mode");
	} else if (is_text(head, length)) {
		snprintf(text, MB_MAGIC_TEXT,
			 "text: `mburst import` takes probes and queue windows, `mburst names` takes names");
	} else {
		size_t at = (size_t)snprintf(text, MB_MAGIC_TEXT, "unknown data that begins with");

		for (size_t i = 0; i < length && i < 8; i++)
			at += (size_t)snprintf(text + at, MB_MAGIC_TEXT - at, " %02x", head[i]);
	}
}

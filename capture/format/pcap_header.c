/* SPDX-License-Identifier: Apache-2.0 */
#include "format/pcap_header.h"

#include <errno.h>
#include <inttypes.h>

#include "bytes.h"
#include "format/interfaces.h"

#define FILE_HEADER 24
#define RECORDS_TO_JUDGE 3

struct magic {
	uint32_t value;
	uint32_t file_header; /* bytes */
	uint32_t fraction_ns;
	uint32_t record_header;
};

static const struct magic magics[] = {
	{ MB_PCAP_MAGIC, FILE_HEADER, 1000, MB_PCAP_RECORD_HEADER },
	{ 0xa1b23c4d, FILE_HEADER, 1, MB_PCAP_RECORD_HEADER },
	{ 0xa1b2cd34, FILE_HEADER, 1000, 24 },       /* Kuznetzov */
	{ 0x1c0001ac, FILE_HEADER + 4, 1, MB_PCAP_RECORD_HEADER },    /* Ixia hardware */
	{ 0x1c0001ab, FILE_HEADER + 4, 1000, MB_PCAP_RECORD_HEADER }, /* Ixia software */
};

static const struct magic *find_magic(const uint8_t bytes[4], bool *swapped)
{
	for (size_t i = 0; i < sizeof(magics) / sizeof(magics[0]); i++) {
		*swapped = mb_load32(bytes, true) == magics[i].value;
		if (*swapped || mb_load32(bytes, false) == magics[i].value)
			return &magics[i];
	}
	return NULL;
}

bool mb_pcap_header_matches(const uint8_t magic[4])
{
	bool swapped;

	return find_magic(magic, &swapped) != NULL;
}

static bool is_known_version(uint32_t version)
{
	uint32_t major = version >> 16, minor = version & 0xffff;

	return (major == 2 && minor <= 4) || (major == 543 && minor == 0);
}

static uint32_t load_version(const uint8_t *header, bool swapped)
{
	return (uint32_t)mb_load16(header + 4, swapped) << 16 | mb_load16(header + 6, swapped);
}

bool mb_pcap_header_begins(const uint8_t at[8])
{
	bool swapped;

	return find_magic(at, &swapped) && is_known_version(load_version(at, swapped));
}

bool mb_pcap_header_is_at(const uint8_t at[MB_PCAP_RECORD_HEADER])
{
	return mb_pcap_header_begins(at) && !mb_load32(at + 12, false);
}

/* --- which record header --- */

static bool is_linux_protocol(uint16_t protocol)
{
	return protocol >= 0x600 || protocol <= 0x17 || protocol == 0x60 || protocol == 0x200 || protocol == 0x400;
}

/* Nokia's extra word, as observed so far: 0xXfbfYZ0W. */
static bool is_nokia_word(uint32_t word)
{
	uint32_t x = word >> 28, y = word >> 12 & 0xf, z = word >> 8 & 0xf, w = word & 0xf;

	return (word & 0x0fff00f0) == 0x0fbf0000 && (x == 0x9 || x == 0xb) && (y == 0xb || y == 0xd) &&
	       (z == 0x6 || z == 0x9) && (w == 1 || w == 2);
}

/* The number of reasons why the record at AT cannot have a record header of HEADER bytes. */
static unsigned oddities(const uint8_t *at, uint32_t header, bool swapped, uint32_t snaplen)
{
	uint32_t caplen = mb_load32(at + 8, swapped), len = mb_load32(at + 12, swapped);
	unsigned odd = 0;

	odd += mb_load32(at + 4, swapped) >= 1000000;
	odd += snaplen && caplen > snaplen;
	odd += len > 128 << 20;
	odd += caplen > len;
	if (header == 20)
		odd += !is_nokia_word(mb_load32(at + 16, __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__));
	if (header >= 24) {
		odd += mb_load32(at + 16, swapped) > 10000; /* interface index */
		odd += !is_linux_protocol(mb_load16(at + 20, swapped));
		odd += at[22] > 4; /* packet type */
	}
	return odd;
}

/* The same for the first records of the file; [at, end) are the bytes behind its header. */
static unsigned count_odd(const uint8_t *at, const uint8_t *end, uint32_t header, const struct mb_pcap_header *file)
{
	unsigned odd = 0;

	for (int i = 0; i < RECORDS_TO_JUDGE && at < end; i++) {
		uint32_t caplen;

		if ((size_t)(end - at) < header)
			return odd + 1;
		odd += oddities(at, header, file->variant.swapped, file->snaplen);
		caplen = mb_load32(at + 8, file->variant.swapped);
		if (caplen > mb_linktype_max_caplen(file->linktype))
			return odd + 1;
		if ((size_t)(end - at) - header < caplen)
			return odd + 1;
		at += header + caplen;
	}
	return odd;
}

static void guess_record_header(const struct mb_input *input, uint32_t file_header, struct mb_pcap_header *header)
{
	static const uint32_t plain[] = { MB_PCAP_RECORD_HEADER, 24, 20 }, modified[] = { 24, 28 };
	bool is_modified = header->variant.header == 24;
	const uint32_t *sizes = is_modified ? modified : plain;
	unsigned least = UINT32_MAX;

	for (int i = 0; i < (is_modified ? 2 : 3); i++) {
		unsigned odd = count_odd(input->at + file_header, input->end, sizes[i], header);

		if (odd < least) {
			least = odd;
			header->variant.header = sizes[i];
		}
	}
}

/* --- the file header --- */

/* AIX writes interface types in place of link types; types other than those of a LAN do not come from AIX. */
static bool is_aix(uint32_t magic, uint32_t version, uint32_t network, uint32_t *linktype)
{
	static const struct {
		uint32_t type, linktype;
	} types[] = { { 6, 1 }, { 9, 6 }, { 15, 10 }, { 24, 0 } }; /* Ethernet, token ring, FDDI, loopback */

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (magic == magics[0].value && version == 0x20002 && network == types[i].type) {
			*linktype = types[i].linktype;
			return true;
		}
	return false;
}

static int check_version(const struct mb_input *input, uint32_t version, struct mb_error *error)
{
	if (is_known_version(version))
		return 0;
	return mb_fail(error, EBADMSG,
		       "%s: byte 4%s: pcap version %" PRIu32 ".%" PRIu32 ", but only 2.0 to 2.4 and 543.0 are known",
		       input->name, mb_input_place(input), version >> 16, version & 0xffff);
}

static enum mb_pcap_order order_of(uint32_t version)
{
	if (version == 0x20004)
		return MB_PCAP_CAPLEN_FIRST;
	return version == 0x20003 ? MB_PCAP_EITHER : MB_PCAP_LEN_FIRST;
}

int mb_pcap_header_read(struct mb_input *input, struct mb_pcap_header *header, struct mb_error *error)
{
	const struct magic *magic;
	const uint8_t *at;
	uint32_t version, network;
	bool swapped;
	int supply = mb_input_need(input, 4, error);

	if (supply != MB_SUPPLY_READY)
		return supply;
	magic = find_magic(input->at, &swapped);
	supply = mb_input_need(input, magic->file_header, error);
	if (supply == MB_SUPPLY_SHORT)
		return mb_fail(error, EBADMSG, "%s: byte 0%s: cut off in the file header: %zu of %" PRIu32 " bytes",
			       input->name, mb_input_place(input), (size_t)(input->end - input->at),
			       magic->file_header);
	if (supply != MB_SUPPLY_READY)
		return supply;
	at = input->at;
	version = load_version(at, swapped);
	network = mb_load32(at + 20, swapped);
	if (check_version(input, version, error) < 0)
		return -EBADMSG;
	*header = (struct mb_pcap_header){
		.variant = { .header = magic->record_header,
			     .fraction_ns = magic->fraction_ns,
			     .order = order_of(version),
			     .swapped = swapped },
		.linktype = network & 0xffff,
		.snaplen = mb_load32(at + 16, swapped),
		.fcs_len = network & 0x04000000 ? (network >> 28) * 2 : 0,
	};
	if (is_aix(magic->value, version, network, &header->linktype)) {
		header->variant.fraction_ns = 1;
		header->variant.padding = header->linktype == 10 ? 3 : 0;
	} else if (version == 0x20004 && magic->fraction_ns != 1 && magic->file_header == FILE_HEADER) {
		guess_record_header(input, magic->file_header, header);
	}
	input->at += magic->file_header;
	return MB_SUPPLY_READY;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * pcap files: https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcap/ and the variants that
 * pcap_header.h distinguishes.
 */
#include "format/reader.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "compiler.h"
#include "format/appended.h"
#include "format/pcap_header.h"
#include "format/pcapng_codes.h"

struct pcap {
	struct mb_pcap_variant variant;
	uint32_t max_caplen;
};

struct record {
	uint32_t seconds, fraction, caplen, len;
};

static mb_inline struct record load_record(const uint8_t *at, const struct mb_pcap_variant variant)
{
	struct record record = {
		.seconds = mb_load32(at, variant.swapped),
		.fraction = mb_load32(at + 4, variant.swapped),
		.caplen = mb_load32(at + 8, variant.swapped),
		.len = mb_load32(at + 12, variant.swapped),
	};

	if (variant.order == MB_PCAP_LEN_FIRST || (variant.order == MB_PCAP_EITHER && record.caplen > record.len)) {
		uint32_t caplen = record.len;

		record.len = record.caplen;
		record.caplen = caplen;
	}
	return record;
}

static mb_inline void put_frame(struct mb_frame *frame, const uint8_t *at, const struct record record,
				const struct mb_pcap_variant variant)
{
	*frame = (struct mb_frame){
		.ts_ns = (int64_t)record.seconds * 1000000000 + (int64_t)record.fraction * variant.fraction_ns,
		.data = at + variant.header + variant.padding,
		.caplen = record.caplen - variant.padding,
		.len = record.len - variant.padding,
	};
}

/* The loop over complete, sane records in the window. Anything else ends it and is left to next_record(); so does a
 * record of no bytes, which may be the end of a file that shrank under its mapping, and one of a packet of no bytes,
 * or of the second in 1975 that is a section of pcapng, which may be the header of another file. Returns the number of frames in BATCH. */
static uint32_t scan(const struct pcap *pcap, struct mb_input *input, struct mb_batch *batch)
{
	const struct mb_pcap_variant variant = pcap->variant;
	const uint32_t fractions = 1000000000 / variant.fraction_ns;
	const uint32_t max_caplen = pcap->max_caplen;
	const uint8_t *at = input->at;
	size_t left = (size_t)(input->end - at);
	const uint8_t *end = at + (left < MB_BATCH_SPAN ? left : MB_BATCH_SPAN);
	struct mb_frame *frame = batch->frames + batch->count;
	uint64_t caplen = UINT64_MAX; /* of no record */
	size_t size = 0;

	while (frame < batch->frames + MB_BATCH_FRAMES && (size_t)(end - at) >= variant.header) {
		struct record record = load_record(at, variant);
		const uint8_t *next;

		if (record.caplen != caplen) {
			if (record.caplen - 1 >= max_caplen || record.caplen < variant.padding)
				break;
			caplen = record.caplen;
			size = variant.header + record.caplen;
			MB_OPAQUE(size);
		}
		next = at + size;
		if (record.fraction >= fractions || record.len <= variant.padding || next > end ||
		    record.seconds == MB_PCAPNG_SECTION_HEADER)
			break;
		__builtin_prefetch(at + MB_PREFETCH);
		put_frame(frame++, at, record, variant);
		at = next;
	}
	input->at = at;
	batch->count = (uint32_t)(frame - batch->frames);
	return batch->count;
}

/* An incomplete record at the end, left by a writer that was stopped, is not a failure. */
static int end_of_records(struct mb_reader *reader, size_t wanted, struct mb_error *error)
{
	struct mb_input *input = &reader->input;
	size_t left = (size_t)(input->end - input->at);
	int result = mb_input_check(input, error);

	if (result < 0)
		return result;
	if (left)
		snprintf(reader->notice, sizeof(reader->notice),
			 "%s: cut off in the record at byte %" PRIu64 "%s: %zu of its %zu bytes are there", input->name,
			 mb_input_offset(input, input->at), mb_input_place(input), left, wanted);
	return MB_BACKEND_END;
}

static bool is_sane(const struct record *record, const struct mb_pcap_variant *variant, uint32_t max_caplen)
{
	return record->fraction < 1000000000 / variant->fraction_ns && record->caplen <= max_caplen &&
	       record->caplen >= variant->padding && record->len >= variant->padding;
}

static int bad_record(const struct mb_input *input, const struct mb_pcap_variant *variant, uint32_t max_caplen,
		      const struct record *record, struct mb_error *error)
{
	uint64_t offset = mb_input_offset(input, input->at);
	const char *place = mb_input_place(input);

	if (mb_input_check(input, error) < 0)
		return -EIO;
	if (record->fraction >= 1000000000 / variant->fraction_ns)
		return mb_fail(error, EBADMSG, "%s: byte %" PRIu64 "%s: damaged record: %" PRIu32 " %s in a second",
			       input->name, offset, place, record->fraction, variant->fraction_ns == 1 ? "ns" : "us");
	if (record->caplen > max_caplen)
		return mb_fail(error, EBADMSG,
			       "%s: byte %" PRIu64 "%s: damaged record: %" PRIu32
			       " captured bytes, more than the %" PRIu32 " that a frame may have",
			       input->name, offset, place, record->caplen, max_caplen);
	return mb_fail(error, EBADMSG,
		       "%s: byte %" PRIu64 "%s: damaged record: %" PRIu32 " bytes, less than its padding of %u",
		       input->name, offset, place, record->caplen, variant->padding);
}

/* Check what the scan could not take as a record. Returns 0 or a negative errno. */
static int check_record(const struct mb_input *input, const struct pcap *pcap, const struct record *record,
			struct mb_error *error)
{
	const bool is_bad = !is_sane(record, &pcap->variant, pcap->max_caplen);

	if ((is_bad || !record->len || record->seconds == MB_PCAPNG_SECTION_HEADER) && mb_appended_is_at(input))
		return mb_appended_refuse(input, error);
	return is_bad ? bad_record(input, &pcap->variant, pcap->max_caplen, record, error) : 0;
}

/* Take the one record that the scan could not, once it is complete. Returns 1, or the result of read(). */
static int next_record(struct mb_reader *reader, struct mb_batch *batch, struct mb_error *error)
{
	const struct pcap *pcap = reader->state;
	const struct mb_pcap_variant *variant = &pcap->variant;
	struct mb_input *input = &reader->input;
	struct record record = { 0 };
	size_t size = variant->header;
	int supply = mb_input_need(input, size, error);

	if (supply == MB_SUPPLY_READY) {
		int result;

		record = load_record(input->at, *variant);
		result = check_record(input, pcap, &record, error);
		if (result < 0)
			return result;
		size += record.caplen;
		supply = mb_input_need(input, size, error);
	}
	if (supply == MB_SUPPLY_SHORT)
		return end_of_records(reader, size, error);
	if (supply != MB_SUPPLY_READY)
		return supply == MB_SUPPLY_LATE ? 0 : supply < 0 ? supply : MB_BACKEND_END;
	if (!record.caplen && mb_input_check(input, error) < 0)
		return -EIO;
	put_frame(&batch->frames[batch->count++], input->at, record, *variant);
	input->at += size;
	return 1;
}

static int pcap_read(struct mb_reader *reader, struct mb_batch *batch, struct mb_error *error)
{
	const struct pcap *pcap = reader->state;

	batch->count = 0;
	mb_input_release(&reader->input);
	if (!scan(pcap, &reader->input, batch)) {
		int result = next_record(reader, batch, error);

		if (result != 1)
			return result;
		scan(pcap, &reader->input, batch);
	}
	return (int)batch->count;
}

/* Whether a view can point at the records directly. */
static bool is_plain(const struct mb_pcap_variant *variant)
{
	return variant->header == MB_PCAP_RECORD_HEADER && variant->order == MB_PCAP_CAPLEN_FIRST &&
	       !variant->padding && !variant->swapped;
}

static bool pcap_look(struct mb_reader *reader, struct mb_frame_view *view)
{
	const struct pcap *pcap = reader->state;
	const struct mb_input *input = &reader->input;
	size_t left = (size_t)(input->end - input->at);

	*view = (struct mb_frame_view){
		.at = input->at,
		.end = input->at + (left < MB_VIEW_SPAN ? left : MB_VIEW_SPAN),
		.layout = pcap->variant.fraction_ns == 1 ? MB_LAYOUT_RECORDS_NS : MB_LAYOUT_RECORDS_US,
		.max_caplen = pcap->max_caplen,
	};
	return is_plain(&pcap->variant) && mb_view_has(view, view->layout, view->at);
}

static int pcap_open(struct mb_reader *reader, struct mb_error *error)
{
	struct mb_interface interface = { 0 };
	struct mb_pcap_header header;
	struct pcap *pcap;
	int supply = mb_pcap_header_read(&reader->input, &header, error);

	if (supply != MB_SUPPLY_READY)
		return supply;
	interface.linktype = header.linktype;
	interface.snaplen = header.snaplen;
	interface.fcs_len = header.fcs_len;
	interface.quality = header.variant.fraction_ns == 1 ? 0 : MB_QUALITY_FILE_US;
	mb_interface_set_stem(&interface, reader->input.is_standard ? "stdin" : reader->input.name);
	pcap = malloc(sizeof(*pcap));
	if (!pcap || mb_interfaces_add(&reader->interfaces, &interface) < 0) {
		free(pcap);
		return mb_fail(error, ENOMEM, "%s: out of memory", reader->input.name);
	}
	reader->swapped = header.variant.swapped;
	pcap->variant = header.variant;
	pcap->max_caplen = mb_linktype_max_caplen(header.linktype);
	reader->state = pcap;
	return MB_SUPPLY_READY;
}

/* The format has no field for losses. */
static void pcap_stats(const struct mb_reader *reader, struct mb_backend_stats *stats)
{
	(void)reader;
	(void)stats;
}

static void pcap_close(struct mb_reader *reader)
{
	free(reader->state);
}

const struct mb_format mb_format_pcap = {
	.name = "pcap",
	.matches = mb_pcap_header_matches,
	.open = pcap_open,
	.read = pcap_read,
	.look = pcap_look,
	.stats = pcap_stats,
	.close = pcap_close,
};

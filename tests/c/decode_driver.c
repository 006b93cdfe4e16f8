/* SPDX-License-Identifier: Apache-2.0
 *
 * The decoder behind a pipe, for tests/capture/decode_tool.py: requests on standard input,
 * answers on standard output, little-endian, until the end of input. Every frame is copied to a
 * heap block of exactly its captured length, so that AddressSanitizer reports the first byte read
 * beyond it.
 *
 *   'D'  struct batch, then for each frame struct frame_head and its bytes
 *        → for each frame struct mb_packet, struct extras
 *   'T'  i64 two widths of bins, then the same, at most MB_BATCH_FRAMES frames
 *        → u32 count of trains, then for each struct train_head, its subtotals, and the struct mb_packet of its leader
 *   'N'  'U'  the same, with the frames as records of a pcap file, of ns or us: captured, and without
 *        direction or segment size
 *   'F'  struct mb_address → u32 length, text
 *   'P'  u32 length, text  → u32 found, struct mb_address
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "decode/decode.h"
#include "measure/trains.h"

struct batch {
	uint32_t count, linktype, fcs_len, inner, mtu;
};

struct frame_head {
	int64_t ts_ns;
	uint32_t caplen, len;
	uint16_t gso_size;
	uint8_t direction, padding[5];
};

struct train_head {
	uint32_t first, count, tcp_end, n_subtotals;
};

struct extras {
	uint64_t sender, receiver;
	struct mb_address destination;
	uint32_t has_macs, has_destination;
};

static void get(void *to, size_t size)
{
	if (size && fread(to, size, 1, stdin) != 1)
		exit(3);
}

static void put(const void *from, size_t size)
{
	if (size && fwrite(from, size, 1, stdout) != 1)
		exit(4);
}

static void *allocate(size_t size)
{
	void *block = malloc(size);

	if (!block && size)
		exit(5);
	return block;
}

static void get_frame(struct mb_frame *frame)
{
	struct frame_head leader;
	uint8_t *data;

	get(&leader, sizeof(leader));
	data = allocate(leader.caplen);
	get(data, leader.caplen);
	*frame = (struct mb_frame){
		.ts_ns = leader.ts_ns,
		.data = data,
		.caplen = leader.caplen,
		.len = leader.len,
		.gso_size = leader.gso_size,
		.direction = leader.direction,
	};
}

static void put_extras(const struct mb_frame *frame, const struct mb_interface *interface,
		       const struct mb_decode_options *options)
{
	struct extras extras;

	memset(&extras, 0, sizeof(extras));
	extras.has_macs = mb_decode_macs(frame, interface, &extras.sender, &extras.receiver);
	extras.has_destination = mb_decode_destination(frame, interface, options, &extras.destination);
	put(&extras, sizeof(extras));
}

/* A batch of frames in the format of the requests. */
struct frames {
	uint32_t count;
	struct mb_interface interface;
	struct mb_decode_options options;
	struct mb_frame *frames;
};

static struct frames get_frames(void)
{
	struct batch batch;
	struct frames got = { 0 };

	get(&batch, sizeof(batch));
	got.count = batch.count;
	got.interface.linktype = batch.linktype;
	got.interface.fcs_len = batch.fcs_len;
	got.options = (struct mb_decode_options){ .inner = batch.inner, .mtu = batch.mtu };
	got.frames = allocate(batch.count * sizeof(*got.frames));
	for (uint32_t i = 0; i < batch.count; i++)
		get_frame(&got.frames[i]);
	return got;
}

static void drop_frames(struct frames *frames)
{
	for (uint32_t i = 0; i < frames->count; i++)
		free((void *)frames->frames[i].data);
	free(frames->frames);
}

static void decode(void)
{
	struct frames got = get_frames();
	struct mb_packet *packets = allocate(got.count * sizeof(*packets));

	memset(packets, 0xa5, got.count * sizeof(*packets)); /* makes unwritten bytes visible */
	mb_decode(got.frames, got.count, &got.interface, &got.options, packets);
	for (uint32_t i = 0; i < got.count; i++) {
		put(&packets[i], sizeof(packets[i]));
		put_extras(&got.frames[i], &got.interface, &got.options);
	}
	free(packets);
	drop_frames(&got);
}

static void put_train(const struct mb_train *train, const struct mb_packet *packet, uint32_t first)
{
	bool is_one = train->count == 1;
	struct train_head leader = {
		first,
		train->count,
		is_one ? 0 : train->tcp_end,
		is_one ? 0 : train->n_subtotals,
	};

	put(&leader, sizeof(leader));
	if (!is_one)
		put(train->subtotals, train->n_subtotals * sizeof(*train->subtotals));
	put(packet, sizeof(*packet));
}

/* Divides VIEW, which must be consumed to its end, into trains. */
static void divide(struct mb_frame_view *view, const struct frames *got, int64_t bin_ns, int64_t source_bin_ns)
{
	struct mb_trains *trains = allocate(sizeof(*trains));
	uint32_t first = 0;

	mb_trains_init(trains, bin_ns, source_bin_ns);
	mb_trains_decode(trains, view, &got->interface, &got->options);
	if (trains->frames != got->count || view->at != view->end)
		exit(6);
	put(&trains->count, sizeof(trains->count));
	for (uint32_t i = 0; i < trains->count; i++) {
		put_train(&trains->trains[i], &trains->leaders[i], first);
		first += trains->trains[i].count;
	}
	free(trains);
}

static void divide_frames(void)
{
	int64_t widths[2];
	struct frames got;
	struct mb_frame_view view;

	get(widths, sizeof(widths));
	got = get_frames();
	view = mb_view_of(got.frames, got.count);
	divide(&view, &got, widths[0], widths[1]);
	drop_frames(&got);
}

static void divide_records(enum mb_layout layout)
{
	const uint32_t unit = layout == MB_LAYOUT_RECORDS_US ? 1000 : 1;
	int64_t widths[2];
	struct frames got;
	uint8_t *records;
	size_t size = 0;

	get(widths, sizeof(widths));
	got = get_frames();
	for (uint32_t i = 0; i < got.count; i++)
		size += MB_PCAP_RECORD_HEADER + got.frames[i].caplen;
	records = allocate(size);
	size = 0;
	for (uint32_t i = 0; i < got.count; i++) {
		const struct mb_frame *frame = &got.frames[i];
		uint32_t header[4] = {
			(uint32_t)(frame->ts_ns / 1000000000),
			(uint32_t)(frame->ts_ns % 1000000000) / unit,
			frame->caplen,
			frame->len,
		};

		memcpy(records + size, header, sizeof(header));
		memcpy(records + size + sizeof(header), frame->data, frame->caplen);
		size += sizeof(header) + frame->caplen;
	}
	divide(&(struct mb_frame_view){ records, records + size, layout, UINT32_MAX }, &got, widths[0], widths[1]);
	free(records);
	drop_frames(&got);
}

static void format(void)
{
	struct mb_address address;
	char text[MB_ADDRESS_TEXT];
	uint32_t length;

	get(&address, sizeof(address));
	length = (uint32_t)mb_address_format(&address, text);
	put(&length, sizeof(length));
	put(text, length);
}

static void parse(void)
{
	struct mb_address address = { 0 };
	uint32_t length, found;
	char *text;

	get(&length, sizeof(length));
	text = allocate(length + 1);
	get(text, length);
	text[length] = '\0';
	found = mb_address_parse(text, &address);
	free(text);
	put(&found, sizeof(found));
	put(&address, sizeof(address));
}

int main(void)
{
	for (int command; (command = getchar()) != EOF; fflush(stdout)) {
		switch (command) {
		case 'D':
			decode();
			break;
		case 'T':
			divide_frames();
			break;
		case 'N':
			divide_records(MB_LAYOUT_RECORDS_NS);
			break;
		case 'U':
			divide_records(MB_LAYOUT_RECORDS_US);
			break;
		case 'F':
			format();
			break;
		case 'P':
			parse();
			break;
		default:
			return 2;
		}
	}
	return 0;
}

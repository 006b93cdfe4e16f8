/* SPDX-License-Identifier: Apache-2.0
 *
 * The decoder behind a pipe, for tests/capture/decode_tool.py: requests on standard input,
 * answers on standard output, little-endian, until the end of input. Every frame is copied to a
 * heap block of exactly its captured length, so that AddressSanitizer sees the first byte that
 * is read too many.
 *
 *   'D'  struct batch, then for each frame struct frame_head and its bytes
 *        → for each frame struct mb_packet, struct extras
 *   'T'  the same, at most MB_BATCH_FRAMES frames
 *        → u32 count of trains, then for each struct train_head and the struct mb_packet of its head
 *   'F'  struct mb_address → u32 length, text
 *   'P'  u32 length, text  → u32 found, struct mb_address
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../capture/decode.h"
#include "../../capture/trains.h"

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
	uint32_t first, count, tcp_end, unused;
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
	struct frame_head head;
	uint8_t *data;

	get(&head, sizeof(head));
	data = allocate(head.caplen);
	get(data, head.caplen);
	*frame = (struct mb_frame){
		.ts_ns = head.ts_ns,
		.data = data,
		.caplen = head.caplen,
		.len = head.len,
		.gso_size = head.gso_size,
		.direction = head.direction,
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

/* A batch of frames as the requests send it. */
struct frames {
	uint32_t count;
	struct mb_interface interface;
	struct mb_decode_options options;
	struct mb_frame *frames;
};

static struct frames get_frames(void)
{
	struct batch batch;
	struct frames got = {0};

	get(&batch, sizeof(batch));
	got.count = batch.count;
	got.interface.linktype = batch.linktype;
	got.interface.fcs_len = batch.fcs_len;
	got.options = (struct mb_decode_options){.inner = batch.inner, .mtu = batch.mtu};
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

	memset(packets, 0xa5, got.count * sizeof(*packets)); /* what is not written shows */
	mb_decode(got.frames, got.count, &got.interface, &got.options, packets);
	for (uint32_t i = 0; i < got.count; i++) {
		put(&packets[i], sizeof(packets[i]));
		put_extras(&got.frames[i], &got.interface, &got.options);
	}
	free(packets);
	drop_frames(&got);
}

static void divide(void)
{
	struct frames got = get_frames();
	struct mb_trains *trains = allocate(sizeof(*trains));

	mb_trains_init(trains);
	if (mb_trains_decode(trains, got.frames, got.count, &got.interface, &got.options) != got.count)
		exit(6);
	put(&trains->count, sizeof(trains->count));
	for (uint32_t i = 0; i < trains->count; i++) {
		const struct mb_train *train = &trains->trains[i];
		struct train_head head = {
			(uint32_t)(train->frames - got.frames), train->count, train->tcp_end, 0,
		};

		put(&head, sizeof(head));
		put(&trains->heads[i], sizeof(trains->heads[i]));
	}
	free(trains);
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
	struct mb_address address = {0};
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
			divide();
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

/* SPDX-License-Identifier: Apache-2.0
 *
 * The decoder behind a pipe, for tests/capture/decode_tool.py: requests on standard input,
 * answers on standard output, little-endian, until the end of input. Every frame is copied to a
 * heap block of exactly its captured length, so that AddressSanitizer sees the first byte that
 * is read too many.
 *
 *   'D'  struct batch, then for each frame struct frame_head and its bytes
 *        → for each frame struct mb_packet, struct extras
 *   'F'  struct mb_address → u32 length, text
 *   'P'  u32 length, text  → u32 found, struct mb_address
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../capture/decode.h"

struct batch {
	uint32_t count, linktype, fcs_len, inner, mtu;
};

struct frame_head {
	int64_t ts_ns;
	uint32_t caplen, len;
	uint16_t gso_size;
	uint8_t direction, padding[5];
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

static void decode(void)
{
	struct batch batch;
	struct mb_interface interface = {0};
	struct mb_decode_options options;
	struct mb_frame *frames;
	struct mb_packet *packets;

	get(&batch, sizeof(batch));
	interface.linktype = batch.linktype;
	interface.fcs_len = batch.fcs_len;
	options = (struct mb_decode_options){.inner = batch.inner, .mtu = batch.mtu};
	frames = allocate(batch.count * sizeof(*frames));
	packets = allocate(batch.count * sizeof(*packets));
	memset(packets, 0xa5, batch.count * sizeof(*packets)); /* what is not written shows */
	for (uint32_t i = 0; i < batch.count; i++)
		get_frame(&frames[i]);
	mb_decode(frames, batch.count, &interface, &options, packets);
	for (uint32_t i = 0; i < batch.count; i++) {
		put(&packets[i], sizeof(packets[i]));
		put_extras(&frames[i], &interface, &options);
		free((void *)frames[i].data);
	}
	free(frames);
	free(packets);
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

/* SPDX-License-Identifier: Apache-2.0 */
#include "format/pcapng.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "bytes.h"

#define MIN_INTERFACE_DESCRIPTION 20
#define MIN_STATISTICS 24

/* An interface that a later section describes again is still the same interface. */
static int list_interface(struct mb_reader *reader, const struct mb_interface *described, struct mb_error *error)
{
	struct mb_pcapng *pcapng = reader->state;
	int index = mb_interfaces_number(&reader->interfaces, &pcapng->tally,
					 described->name[0] ? described->name : NULL, described);

	if (index == -E2BIG)
		return mb_pcapng_damaged(reader, error, "more than 65,536 interfaces");
	if (index < 0)
		return mb_fail(error, -index, "%s: out of memory", reader->input.name);
	return index;
}

static int make_room(struct mb_reader *reader, struct mb_error *error)
{
	struct mb_pcapng *pcapng = reader->state;
	size_t room = pcapng->room ? 2 * pcapng->room : 4;
	void *interfaces;

	if (pcapng->count < pcapng->room)
		return 0;
	interfaces = realloc(pcapng->interfaces, room * sizeof(*pcapng->interfaces));
	if (!interfaces)
		return mb_fail(error, ENOMEM, "%s: out of memory", reader->input.name);
	pcapng->interfaces = interfaces;
	pcapng->room = room;
	return 0;
}

int mb_pcapng_take_interface(struct mb_reader *reader, const struct mb_pcapng_block *block, struct mb_error *error)
{
	struct mb_pcapng *pcapng = reader->state;
	struct mb_pcapng_interface interface;
	struct mb_interface described;
	int result;

	if (block->length < MIN_INTERFACE_DESCRIPTION)
		return mb_pcapng_damaged(reader, error, "interface description of %" PRIu32 " bytes", block->length);
	if (!mb_pcapng_interface_parse(block->body, block->end, reader->swapped, &interface, &described))
		return mb_pcapng_damaged(reader, error, "an option of the interface description runs over its end");
	result = make_room(reader, error);
	if (result < 0)
		return result;
	interface.index = list_interface(reader, &described, error);
	if (interface.index < 0)
		return interface.index;
	if (described.fcs_len < MB_PCAPNG_FCS_LENGTHS)
		interface.index_by_fcs[described.fcs_len] = interface.index;
	if (interface.max_caplen > pcapng->max_caplen)
		pcapng->max_caplen = interface.max_caplen;
	pcapng->interfaces[pcapng->count++] = interface;
	return MB_PCAPNG_GO_ON;
}

int mb_pcapng_take_statistics(struct mb_reader *reader, const struct mb_pcapng_block *block, struct mb_error *error)
{
	struct mb_pcapng *pcapng = reader->state;
	uint32_t id;

	if (block->length < MIN_STATISTICS)
		return mb_pcapng_damaged(reader, error, "interface statistics of %" PRIu32 " bytes", block->length);
	id = mb_load32(block->body, reader->swapped);
	if (id < pcapng->count &&
	    !mb_pcapng_interface_statistics(&pcapng->interfaces[id], block->body + 4, block->end, reader->swapped))
		return mb_pcapng_damaged(reader, error, "an option of the interface statistics runs over its end");
	return MB_PCAPNG_GO_ON;
}

/* `fcs_len` applies to every frame of a listed interface, so packets that state another one belong to another interface
 * of the same name. */
int mb_pcapng_index_for_fcs(struct mb_reader *reader, struct mb_pcapng_interface *interface, uint32_t fcs_len,
			    struct mb_error *error)
{
	int index = fcs_len ? interface->index_by_fcs[fcs_len] : interface->index;

	if (index < 0) {
		struct mb_interface described = reader->interfaces.list[interface->index];

		described.fcs_len = fcs_len;
		index = list_interface(reader, &described, error);
		if (index >= 0)
			interface->index_by_fcs[fcs_len] = index;
	}
	return index;
}

struct mb_pcapng_loss mb_pcapng_lost(const struct mb_pcapng *pcapng)
{
	struct mb_pcapng_loss lost = pcapng->lost;

	for (size_t i = 0; i < pcapng->count; i++)
		mb_pcapng_loss_add(&lost, mb_pcapng_interface_loss(&pcapng->interfaces[i]));
	return lost;
}

void mb_pcapng_end_section(struct mb_pcapng *pcapng)
{
	pcapng->lost = mb_pcapng_lost(pcapng);
	pcapng->count = 0;
	mb_interface_index_clear(&pcapng->tally);
	pcapng->max_caplen = 0;
}

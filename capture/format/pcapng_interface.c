/* SPDX-License-Identifier: Apache-2.0 */
#include "format/pcapng_interface.h"

#include <string.h>

#include "backend/backend.h"
#include "bytes.h"
#include "format/interfaces.h"
#include "format/pcapng_codes.h"

#define NS_PER_S 1000000000
#define BINARY 128 /* flag in if_tsresol */
#define DEFAULT_RESOLUTION 6

int mb_pcapng_next_option(const uint8_t **at, const uint8_t *end, bool swapped, struct mb_pcapng_option *option)
{
	size_t padded;

	if (end - *at < 4)
		return 0;
	option->code = mb_load16(*at, swapped);
	option->length = mb_load16(*at + 2, swapped);
	option->value = *at + 4;
	if (option->code == MB_PCAPNG_END_OF_OPTIONS)
		return 0;
	if (option->length > end - option->value)
		return -1;
	padded = mb_pcapng_padded(option->length);
	*at = padded > (size_t)(end - option->value) ? end : option->value + padded;
	return 1;
}

/* --- clock --- */

static uint64_t power_of_ten(unsigned exponent)
{
	uint64_t power = 1;

	while (exponent--)
		power *= 10;
	return power;
}

void mb_pcapng_clock_init(struct mb_pcapng_clock *clock, uint8_t resolution, int64_t offset_s)
{
	*clock = (struct mb_pcapng_clock){ .resolution = resolution, .offset_s = offset_s };
	if (resolution > 9 || __builtin_mul_overflow(offset_s, NS_PER_S, &clock->offset_ns))
		return; /* limit 0: every stamp takes the slow path */
	clock->multiply = power_of_ten(9 - resolution);
	clock->limit = (uint64_t)(clock->offset_ns > 0 ? INT64_MAX - clock->offset_ns : INT64_MAX) / clock->multiply;
}

bool mb_pcapng_clock_ns(const struct mb_pcapng_clock *clock, uint64_t raw, int64_t *ns)
{
	unsigned exponent = clock->resolution & (BINARY - 1u);
	__int128 wide;

	if (raw < clock->limit) {
		*ns = (int64_t)(raw * clock->multiply) + clock->offset_ns;
		return true;
	}
	if (clock->resolution & BINARY)
		wide = (__int128)raw * NS_PER_S >> exponent;
	else if (exponent <= 9)
		wide = (__int128)raw * (__int128)power_of_ten(9 - exponent);
	else
		wide = exponent - 9 > 19 ? 0 : raw / power_of_ten(exponent - 9);
	wide += (__int128)clock->offset_s * NS_PER_S;
	*ns = (int64_t)wide;
	return wide >= INT64_MIN && wide <= INT64_MAX;
}

bool mb_pcapng_clock_is_coarse(const struct mb_pcapng_clock *clock)
{
	/* 2^-19 s is 1.9 us, 2^-20 s is 0.95 us */
	return clock->resolution & BINARY ? clock->resolution <= BINARY + 19 : clock->resolution <= 6;
}

/* --- losses --- */

void mb_pcapng_loss_add(struct mb_pcapng_loss *loss, const struct mb_pcapng_loss *more)
{
	if (!more->packets)
		return;
	if (!loss->packets || more->first_ns < loss->first_ns)
		loss->first_ns = more->first_ns;
	if (!loss->packets || more->last_ns > loss->last_ns)
		loss->last_ns = more->last_ns;
	loss->packets = mb_add_saturating(loss->packets, more->packets);
	loss->adrift |= more->adrift;
}

void mb_pcapng_interface_lost(struct mb_pcapng_interface *interface, uint64_t count, int64_t ts_ns)
{
	struct mb_pcapng_loss loss = {
		.packets = count, .first_ns = interface->last_ns, .last_ns = ts_ns, .adrift = !interface->has_last
	};

	/* Stamps may run backwards. */
	if (loss.first_ns > loss.last_ns) {
		loss.first_ns = ts_ns;
		loss.last_ns = interface->last_ns;
	}
	mb_pcapng_loss_add(&interface->counted, &loss);
}

const struct mb_pcapng_loss *mb_pcapng_interface_loss(const struct mb_pcapng_interface *interface)
{
	return interface->reported.packets > interface->counted.packets ? &interface->reported : &interface->counted;
}

bool mb_pcapng_interface_statistics(struct mb_pcapng_interface *interface, const uint8_t *at, const uint8_t *end,
				    bool swapped)
{
	const struct mb_pcapng_clock *clock = &interface->clock;
	struct mb_pcapng_loss loss = { 0 };
	struct mb_pcapng_option option;
	uint64_t drops = 0;
	bool has_start = false, has_drops = false;
	bool has_end = mb_pcapng_clock_ns(clock, mb_pcapng_load_stamp(at, swapped), &loss.last_ns);
	int more;

	at += 8;
	while ((more = mb_pcapng_next_option(&at, end, swapped, &option)) > 0) {
		if (option.length != 8)
			continue;
		if (option.code == MB_PCAPNG_ISB_STARTTIME)
			has_start =
				mb_pcapng_clock_ns(clock, mb_pcapng_load_stamp(option.value, swapped), &loss.first_ns);
		else if (option.code == MB_PCAPNG_ISB_ENDTIME)
			has_end = mb_pcapng_clock_ns(clock, mb_pcapng_load_stamp(option.value, swapped), &loss.last_ns);
		if (option.code != MB_PCAPNG_ISB_IFDROP && option.code != MB_PCAPNG_ISB_OSDROP)
			continue;
		drops = mb_add_saturating(drops, mb_load64(option.value, swapped));
		has_drops = true;
	}
	if (!has_drops)
		return more == 0;
	if (interface->has_statistic) {
		loss.first_ns = interface->statistic_ns;
		has_start = true;
	}
	/* A smaller count than before: the counter was reset. */
	loss.packets = drops < interface->statistic ? drops : drops - interface->statistic;
	loss.adrift = !has_start || !has_end || loss.first_ns > loss.last_ns;
	mb_pcapng_loss_add(&interface->reported, &loss);
	interface->statistic = drops;
	interface->statistic_ns = loss.last_ns;
	interface->has_statistic = has_end;
	return more == 0;
}

/* --- interface description --- */

/* The specification has the length in bits but gives 4 as an example; writers use either unit. */
static uint32_t fcs_bytes(uint8_t value)
{
	return value <= 8 ? value : value / 8u;
}

bool mb_pcapng_interface_parse(const uint8_t *at, const uint8_t *end, bool swapped,
			       struct mb_pcapng_interface *interface, struct mb_interface *described)
{
	uint8_t resolution = DEFAULT_RESOLUTION;
	uint64_t speed = 0, txspeed = 0, rxspeed = 0;
	int64_t offset_s = 0;
	struct mb_pcapng_option option;
	int more;

	*interface = (struct mb_pcapng_interface){ .snaplen = mb_load32(at + 4, swapped) };
	*described = (struct mb_interface){ .linktype = mb_load16(at, swapped), .snaplen = interface->snaplen };
	at += 8;
	while ((more = mb_pcapng_next_option(&at, end, swapped, &option)) > 0) {
		if (option.code == MB_PCAPNG_IF_NAME)
			mb_interface_set_name(described, (const char *)option.value, option.length);
		else if (option.code == MB_PCAPNG_IF_TSRESOL && option.length == 1)
			resolution = option.value[0];
		else if (option.code == MB_PCAPNG_IF_FCSLEN && option.length == 1)
			described->fcs_len = fcs_bytes(option.value[0]);
		else if (option.code == MB_PCAPNG_IF_TSOFFSET && option.length == 8)
			offset_s = (int64_t)mb_load64(option.value, swapped);
		else if (option.code == MB_PCAPNG_IF_SPEED && option.length == 8)
			speed = mb_load64(option.value, swapped);
		else if (option.code == MB_PCAPNG_IF_TXSPEED && option.length == 8)
			txspeed = mb_load64(option.value, swapped);
		else if (option.code == MB_PCAPNG_IF_RXSPEED && option.length == 8)
			rxspeed = mb_load64(option.value, swapped);
	}
	mb_pcapng_clock_init(&interface->clock, resolution, offset_s);
	interface->max_caplen = mb_linktype_max_caplen(described->linktype);
	described->link_bps = speed ? speed : rxspeed ? rxspeed : txspeed;
	described->quality = mb_pcapng_clock_is_coarse(&interface->clock) ? MB_QUALITY_FILE_US : 0;
	memset(interface->index_by_fcs, -1, sizeof(interface->index_by_fcs));
	return more == 0;
}

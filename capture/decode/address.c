/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "decode/decode.h"

static void put_be(uint8_t *bytes, uint64_t value, int count)
{
	while (count--) {
		bytes[count] = (uint8_t)value;
		value >>= 8;
	}
}

static uint64_t get_be(const uint8_t *bytes, int count)
{
	uint64_t value = 0;

	for (int i = 0; i < count; i++)
		value = value << 8 | bytes[i];
	return value;
}

static char *put_decimal(char *text, unsigned octet)
{
	if (octet >= 100)
		*text++ = (char)('0' + octet / 100);
	if (octet >= 10)
		*text++ = (char)('0' + octet / 10 % 10);
	*text++ = (char)('0' + octet % 10);
	return text;
}

/* inet_ntop() takes 1,900 instructions for this, which is noticeable with many senders. */
static int format_ipv4(uint32_t address, char text[MB_ADDRESS_TEXT])
{
	char *end = text;

	for (int shift = 24; shift >= 0; shift -= 8) {
		end = put_decimal(end, address >> shift & 0xff);
		*end++ = shift ? '.' : '\0';
	}
	return (int)(end - text) - 1;
}

int mb_address_format(const struct mb_address *address, char text[MB_ADDRESS_TEXT])
{
	uint8_t bytes[16];

	if (address->family == MB_FAMILY_IPV4)
		return format_ipv4((uint32_t)address->lo, text);
	put_be(bytes, address->hi, 8);
	put_be(bytes + 8, address->lo, 8);
	text[0] = '\0';
	switch (address->family) {
	case MB_FAMILY_IPV6:
		inet_ntop(AF_INET6, bytes, text, MB_ADDRESS_TEXT);
		break;
	case MB_FAMILY_MAC:
		snprintf(text, MB_ADDRESS_TEXT, "%02x:%02x:%02x:%02x:%02x:%02x", bytes[10], bytes[11], bytes[12],
			 bytes[13], bytes[14], bytes[15]);
		break;
	}
	return (int)strlen(text);
}

static int hex_digit(char digit)
{
	if (digit >= '0' && digit <= '9')
		return digit - '0';
	digit |= 0x20;
	return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

/* Six pairs of digits with ':' or '-' between them. */
static bool parse_mac(const char *text, uint64_t *mac)
{
	enum { LENGTH = sizeof("aa:bb:cc:dd:ee:ff") - 1 };

	if (strlen(text) != LENGTH || (text[2] != ':' && text[2] != '-'))
		return false;
	*mac = 0;
	for (int i = 0; i < LENGTH; i++) {
		int digit = hex_digit(text[i]);

		if (i % 3 == 2 ? text[i] != text[2] : digit < 0)
			return false;
		if (i % 3 != 2)
			*mac = *mac << 4 | (uint64_t)digit;
	}
	return true;
}

bool mb_address_parse(const char *text, struct mb_address *address)
{
	uint8_t bytes[16];
	uint64_t mac;

	if (inet_pton(AF_INET, text, bytes) == 1)
		*address = (struct mb_address){ .lo = MB_IPV4_MAPPED | get_be(bytes, 4), .family = MB_FAMILY_IPV4 };
	else if (inet_pton(AF_INET6, text, bytes) == 1)
		*address = (struct mb_address){ get_be(bytes, 8), get_be(bytes + 8, 8), MB_FAMILY_IPV6 };
	else if (parse_mac(text, &mac))
		*address = (struct mb_address){ .lo = mac, .family = MB_FAMILY_MAC };
	else
		return false;
	return true;
}

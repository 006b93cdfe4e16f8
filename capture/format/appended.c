/* SPDX-License-Identifier: Apache-2.0 */
#include "format/appended.h"

#include <errno.h>
#include <inttypes.h>

#include "bytes.h"
#include "format/pcap_header.h"
#include "format/pcapng_codes.h"

static bool is_section(const uint8_t *at)
{
	return mb_load32(at, false) == MB_PCAPNG_SECTION_HEADER &&
	       (mb_load32(at + 8, false) == MB_PCAPNG_BYTE_ORDER_MAGIC ||
		mb_load32(at + 8, true) == MB_PCAPNG_BYTE_ORDER_MAGIC);
}

bool mb_appended_is_at(const struct mb_input *input)
{
	return input->end - input->at >= MB_PCAP_RECORD_HEADER &&
	       (mb_pcap_header_is_at(input->at) || is_section(input->at));
}

int mb_appended_refuse(const struct mb_input *input, struct mb_error *error)
{
	const uint64_t offset = mb_input_offset(input, input->at);

	return mb_fail(error, EBADMSG,
		       "%s: byte %" PRIu64 "%s: another %s file begins here: record it apart (`tail -c +%" PRIu64
		       "` has it), or join both: `mergecap` joins captures",
		       input->name, offset, mb_input_place(input), is_section(input->at) ? "pcapng" : "pcap",
		       offset + 1);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "linktype.h"

#include <pcap/dlt.h>

uint32_t mb_linktype_of_dlt(int dlt)
{
	return dlt == DLT_RAW ? MB_LINKTYPE_RAW : (uint32_t)dlt;
}

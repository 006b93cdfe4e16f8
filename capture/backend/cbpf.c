/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/cbpf.h"

#include <errno.h>
#include <linux/if_packet.h>
#include <pcap/pcap.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

#include "cleanup.h"
#include "linktype.h"

_Static_assert(sizeof(struct bpf_insn) == sizeof(struct sock_filter), "libpcap's instructions are the kernel's");

const struct mb_cbpf mb_cbpf_nothing = { .code = { BPF_STMT(BPF_RET | BPF_K, 0) }, .length = 1 };

static void pcap_closep(pcap_t **handle)
{
	if (*handle)
		pcap_close(*handle);
}

static void freecodep(struct bpf_program *program)
{
	pcap_freecode(program);
}

int mb_cbpf_compile_for(struct mb_cbpf *program, pcap_t *handle, const char *device, const char *filter,
			struct mb_error *error)
{
	mb_cleanup(freecodep) struct bpf_program compiled = { 0 };

	if (!filter || !*filter) {
		program->code[0] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, UINT32_MAX);
		program->length = 1;
		return 0;
	}
	if (pcap_compile(handle, &compiled, filter, 1, PCAP_NETMASK_UNKNOWN))
		return mb_fail(error, EINVAL, "filter '%s': %s", filter, pcap_geterr(handle));
	if (compiled.bf_len > BPF_MAXINSNS)
		return mb_fail(error, E2BIG, "%s: the filter has %u instructions, the kernel takes %u: shorten it",
			       device, compiled.bf_len, BPF_MAXINSNS);
	memcpy(program->code, compiled.bf_insns, compiled.bf_len * sizeof(program->code[0]));
	program->length = compiled.bf_len;
	return 0;
}

int mb_cbpf_compile(struct mb_cbpf *program, const char *device, uint32_t linktype, const char *filter,
		    struct mb_error *error)
{
	char reason[PCAP_ERRBUF_SIZE] = "";
	mb_cleanup(pcap_closep) pcap_t *handle = NULL;

	if (!filter || !*filter)
		return mb_cbpf_compile_for(program, NULL, device, filter, error);
	handle = pcap_create(device, reason);
	if (!handle)
		return mb_fail(error, ENODEV, "%s: %s", device, reason);
	pcap_set_snaplen(handle, 64);
	pcap_set_buffer_size(handle, 1 << 16);
	if (pcap_activate(handle) < 0)
		return mb_fail(error, EIO, "%s: filter: %s", device, pcap_geterr(handle));
	if (mb_linktype_of_dlt(pcap_datalink(handle)) != linktype)
		return mb_fail(error, EOPNOTSUPP, "%s: no filter for its frames in this backend: use --backend libpcap",
			       device);
	return mb_cbpf_compile_for(program, handle, device, filter, error);
}

int mb_cbpf_restrict(struct mb_cbpf *program, enum mb_direction direction, struct mb_error *error)
{
	/* Accepted frames jump over the `ret 0`. */
	bool out = direction == MB_DIRECTION_OUT;
	const struct sock_filter prelude[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(SKF_AD_OFF + SKF_AD_PKTTYPE)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PACKET_OUTGOING, out ? 1 : 0, out ? 0 : 1),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	const uint32_t added = sizeof(prelude) / sizeof(prelude[0]);

	if (direction == MB_DIRECTION_UNKNOWN)
		return 0;
	if (program->length + added > BPF_MAXINSNS)
		return mb_fail(error, E2BIG, "the filter has %u instructions, the kernel takes %u: shorten it",
			       program->length + added, BPF_MAXINSNS);
	memmove(program->code + added, program->code, program->length * sizeof(program->code[0]));
	memcpy(program->code, prelude, sizeof(prelude));
	program->length += added;
	return 0;
}

void mb_cbpf_truncate(struct mb_cbpf *program, uint32_t snaplen)
{
	for (uint32_t i = 0; i < program->length; i++) {
		struct sock_filter *instruction = &program->code[i];

		if (instruction->code == (BPF_RET | BPF_K) && instruction->k)
			instruction->k = snaplen;
	}
}

int mb_cbpf_attach(const struct mb_cbpf *program, int fd, const char *name, struct mb_error *error)
{
	struct sock_fprog argument = {
		.len = (unsigned short)program->length,
		.filter = (struct sock_filter *)program->code,
	};

	if (!setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &argument, sizeof(argument)))
		return 0;
	if (errno == ENOMEM)
		return mb_fail(error, ENOMEM,
			       "%s: the filter's %u instructions exceed the kernel's "
			       "net.core.optmem_max: shorten it, or raise that by sysctl",
			       name, program->length);
	return mb_fail_errno(error, errno, "%s: SO_ATTACH_FILTER", name);
}

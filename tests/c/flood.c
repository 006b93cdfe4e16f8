/* SPDX-License-Identifier: Apache-2.0
 *
 * Sends frames with sequence numbers as fast as a kernel makes them, at a third of the cost of send.c:
 *   flood IFACE COUNT RATE SIZE
 * Arguments, frames and output are those of send.c. An XDP program that the kernel runs on "live frames"
 * (BPF_PROG_TEST_RUN, Linux 5.18; kernel's Documentation/bpf/bpf_prog_run.rst) numbers each and sends it out.
 * The far end of a veth accepts such frames if its GRO is on, and receives them on the sending CPU. Two CPUs send,
 * therefore: a half each, with separate ranges of numbers. If the far end has a receive queue for each CPU
 * (ethtool -L), the halves only meet in the capture. RATE is kept from one CHUNK to the next.
 * Exit code 3: this kernel does not support it.
 */
#include <errno.h>
#include <linux/bpf.h>
#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SENDERS 2
#define CHUNK 100000 /* frames a call, which costs two grace periods of RCU: some 20 ms, and one sender at a time */
#define BATCH 64 /* frames that cross a veth at once: its queue holds 256 */
#define MAGIC_OFFSET 20
#define SEQUENCE_OFFSET 28
#define CANNOT 3

#define INSTRUCTION(c, d, s, o, i) { .code = (c), .dst_reg = (d), .src_reg = (s), .off = (o), .imm = (i) }
#define LOAD_WORD(to, from, offset) INSTRUCTION(BPF_LDX | BPF_MEM | BPF_W, to, from, offset, 0)
#define MOVE(to, from) INSTRUCTION(BPF_ALU64 | BPF_MOV | BPF_X, to, from, 0, 0)
#define MOVE_NUMBER(to, number) INSTRUCTION(BPF_ALU64 | BPF_MOV | BPF_K, to, 0, 0, number)
#define ADD_NUMBER(to, number) INSTRUCTION(BPF_ALU64 | BPF_ADD | BPF_K, to, 0, 0, number)
#define CALL(function) INSTRUCTION(BPF_JMP | BPF_CALL, 0, 0, 0, function)

static int bpf(int command, union bpf_attr *attributes)
{
	return (int)syscall(SYS_bpf, command, attributes, sizeof(*attributes));
}

static int cannot(const char *what)
{
	perror(what);
	exit(CANNOT);
}

static int make_counter(uint64_t first)
{
	const uint32_t key = 0;
	union bpf_attr attributes = {
		.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 8, .max_entries = 1
	};
	int fd = bpf(BPF_MAP_CREATE, &attributes);

	attributes = (union bpf_attr){ .map_fd = (uint32_t)fd, .key = (uintptr_t)&key, .value = (uintptr_t)&first };
	return fd < 0 || bpf(BPF_MAP_UPDATE_ELEM, &attributes) ? cannot("a BPF map") : fd;
}

/* r0 = counter++; frame[SEQUENCE_OFFSET] = r0; return redirect(interface) */
static int load_program(int counter, int interface)
{
	const struct bpf_insn program[] = {
		LOAD_WORD(6, 1, offsetof(struct xdp_md, data)),
		LOAD_WORD(7, 1, offsetof(struct xdp_md, data_end)),
		INSTRUCTION(BPF_ST | BPF_MEM | BPF_W, 10, 0, -4, 0),
		MOVE(2, 10),
		ADD_NUMBER(2, -4),
		INSTRUCTION(BPF_LD | BPF_DW | BPF_IMM, 1, BPF_PSEUDO_MAP_FD, 0, counter),
		INSTRUCTION(0, 0, 0, 0, 0),
		CALL(BPF_FUNC_map_lookup_elem),
		INSTRUCTION(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 9, 0),
		MOVE(8, 6),
		ADD_NUMBER(8, SEQUENCE_OFFSET + 8),
		INSTRUCTION(BPF_JMP | BPF_JGT | BPF_X, 8, 7, 6, 0),
		MOVE_NUMBER(2, 1),
		INSTRUCTION(BPF_STX | BPF_ATOMIC | BPF_DW, 0, 2, 0, BPF_ADD | BPF_FETCH),
		INSTRUCTION(BPF_STX | BPF_MEM | BPF_DW, 6, 2, SEQUENCE_OFFSET, 0),
		MOVE_NUMBER(1, interface),
		MOVE_NUMBER(2, 0),
		CALL(BPF_FUNC_redirect),
		INSTRUCTION(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
	};
	union bpf_attr attributes = { .prog_type = BPF_PROG_TYPE_XDP,
				      .insns = (uintptr_t)program,
				      .insn_cnt = sizeof(program) / sizeof(program[0]),
				      .license = (uintptr_t)"GPL" };
	int fd = bpf(BPF_PROG_LOAD, &attributes);

	return fd < 0 ? cannot("an XDP program") : fd;
}

static uint8_t frame[2048] = "\xff\xff\xff\xff\xff\xff\x02\x00\x00\x00\x00\x01\x88\xb5";

struct sender {
	pthread_t thread;
	int cpu, program;
	uint64_t count;
	size_t size;
	double rate, start; /* frames a second, 0: as fast as it can; CLOCK_MONOTONIC */
};

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void sleep_until(double when)
{
	const time_t seconds = (time_t)when;
	const struct timespec time = { .tv_sec = seconds, .tv_nsec = (long)((when - (double)seconds) * 1e9) };

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
}

static void send_chunk(const struct sender *sender, uint32_t count)
{
	union bpf_attr attributes = { .test = { .prog_fd = (uint32_t)sender->program,
						.data_in = (uintptr_t)frame,
						.data_size_in = (uint32_t)sender->size,
						.repeat = count,
						.flags = BPF_F_TEST_XDP_LIVE_FRAMES,
						.batch_size = BATCH } };

	if (bpf(BPF_PROG_TEST_RUN, &attributes))
		cannot("BPF_PROG_TEST_RUN");
}

static void *send_all(void *argument)
{
	const struct sender *sender = argument;
	cpu_set_t cpu;

	CPU_ZERO(&cpu);
	CPU_SET(sender->cpu, &cpu);
	pthread_setaffinity_np(pthread_self(), sizeof(cpu), &cpu);
	for (uint64_t done = 0; done < sender->count; done += CHUNK) {
		const uint64_t left = sender->count - done;

		if (sender->rate > 0)
			sleep_until(sender->start + (double)done / sender->rate);
		send_chunk(sender, left < CHUNK ? (uint32_t)left : CHUNK);
	}
	return NULL;
}

/* Finds the first CPUs that the process may use, SENDERS at most, and returns their number. */
static uint32_t choose_cpus(struct sender *senders)
{
	cpu_set_t allowed;
	uint32_t count = 0;

	sched_getaffinity(0, sizeof(allowed), &allowed);
	for (int cpu = 0; cpu < CPU_SETSIZE && count < SENDERS; cpu++) {
		if (CPU_ISSET(cpu, &allowed))
			senders[count++].cpu = cpu;
	}
	return count;
}

int main(int argc, char **argv)
{
	static struct sender senders[SENDERS];
	const uint32_t n = choose_cpus(senders);

	if (argc < 5)
		return 2;
	const uint64_t count = strtoull(argv[2], NULL, 0);
	const double rate = strtod(argv[3], NULL), start = now();
	const size_t size = strtoull(argv[4], NULL, 0);

	memcpy(frame + MAGIC_OFFSET, "mbst", 4);
	for (uint32_t i = 0; i < n; i++) {
		const uint64_t first = count * i / n;

		senders[i].program = load_program(make_counter(first), (int)if_nametoindex(argv[1]));
		senders[i].count = count * (i + 1) / n - first;
		senders[i].size = size;
		senders[i].rate = rate / n;
		senders[i].start = start;
		pthread_create(&senders[i].thread, NULL, send_all, &senders[i]);
	}
	for (uint32_t i = 0; i < n; i++)
		pthread_join(senders[i].thread, NULL);
	printf("{\"sent\": %llu, \"bytes\": %llu, \"seconds\": %.6f}\n", (unsigned long long)count,
	       (unsigned long long)(count * size), now() - start);
	return 0;
}

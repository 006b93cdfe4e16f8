/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * The memory that the program in the kernel (count.bpf.h) writes and user space (ebpf.c) reads, and never stops. Each
 * processor has a cursor for each direction, and parts of the rings of its own, so that nothing needs a lock; all share the
 * sequence numbers of flows.
 *
 * Numbers of bins are (CLOCK_MONOTONIC + phase) / width, where the phase makes bins begin at multiples of their width in
 * system time. They only grow, whatever happens to system time.
 */
#ifndef MB_EBPF_LAYOUT_H
#define MB_EBPF_LAYOUT_H

#include <linux/types.h>

#define MB_EBPF_SIDES 2 /* of an interface: arriving, leaving */
#define MB_EBPF_SEQUENCES (1u << 16)

/* Set before the program is loaded. */
struct mb_ebpf_constants {
	__u64 bin_ns, source_bin_ns;
	__u64 seed, factor; /* secret: of the fingerprints of flows */
	__u32 slots_mask, others_mask, flows_mask, places_mask; /* entries of a cursor in each ring, less 1 */
	__u32 merged_mask; /* likewise; 0: merged frames are not noted one by one */
	__u32 inner;       /* senders are those of the innermost IP header */
};

/* What a pinned program counts, and which program it is: a reader goes on only where all of it is as it wants it. */
struct mb_ebpf_settings {
	__u64 program;               /* hash of its object file; 0: it is not pinned as a whole */
	__u64 bin_ns, source_bin_ns;
	__u32 entries[6], n_cursors; /* as in struct mb_ebpf_kernel */
	__u32 index;                 /* of the interface */
	__u32 sides;                 /* bit i: side i */
	__u32 hook;                  /* enum mb_hook */
	__u32 inner;                 /* as in struct mb_ebpf_constants */
};

/* How far user space has read, for a reader that goes on after another one. */
struct mb_ebpf_progress {
	__u64 until_ns;     /* bins that end by it were yielded, in the kernel's time */
	__u64 phase;        /* of the variables, then: the others hold for this one alone */
	__s64 offset_ns, base_ns, step_base_ns; /* as in struct ebpf and struct mb_ebpf_reader */
	__u64 step_at_ns;   /* 0: the clock was not set */
};

/* Set at any time, by user space. A reader that is killed leaves one of both copies of its progress whole. */
struct mb_ebpf_variables {
	__u64 phase; /* it only grows */
	__u64 zero;
	struct mb_ebpf_settings settings;
	struct mb_ebpf_progress progress[2];
	__u64 current; /* which of both holds */
};

/* A bin of one cursor. It lies at NUMBER modulo the size of the cursor's ring. */
struct mb_ebpf_slot {
	__u64 number;     /* 0 while it is being begun */
	__u32 back;       /* NUMBER less that of the bin of this cursor before it; at most UINT32_MAX */
	__u32 retransmits;
	__u64 before;     /* packets in all bins of this cursor before it: a gap in this is a counted loss */
	__u64 bytes, wire_bytes;
	__u32 packets, ce_packets;
	__u32 merged, cnp_packets;
	__u32 first, last; /* stamps, in ns from the start of the bin */
};

/* Packets of one flow within one bin of sources. A flow may have several entries in a bin. */
struct mb_ebpf_flow {
	__u64 number;     /* of the bin */
	__u64 flow;       /* fingerprint, never 0; of what is not IP: the sender's */
	__u64 hi, lo;     /* address of the sender, as in struct mb_address */
	__u64 bytes;
	__u32 packets;
	__u32 first, last;
	__u32 ports;      /* as in struct mb_packet */
	__u32 family;     /* enum mb_family */
	__u32 cnp_packets;
};

/* A merged frame, which is counted in bin NUMBER, too. */
struct mb_ebpf_merged {
	__u64 number;
	__u32 offset; /* its stamp, in ns from the start of the bin */
	__u32 bytes, wire_bytes;
	__u32 unused;
};

/* Where a processor is. */
struct mb_ebpf_cursor {
	__u64 bin, source_bin, other; /* numbers of the newest of each ring; 0: none yet */
	__u64 before;                 /* packets in bins before `bin` */
	__u64 others_before;
	__u64 logged;                 /* entries of flows since the start */
	__u64 merged_logged;          /* likewise, of merged frames */
	__u64 unspread;               /* merged frames that found no room */
	__u64 taken; /* of `logged`, user space has read: what lies behind them may be written over */
	__u64 read[2], others_read[2]; /* packets of each ring that belong to progress[i]: read, or lost */
	__u64 merged_taken;
	__u64 padding[2];
};

/* Flows of TCP that share a hash, the newer first, as in measure/sequences.h. Each is one word, which processors read and
 * write at once: part of the flow's fingerprint, never 0, and the sequence number behind all seen. */
struct mb_ebpf_sequences {
	__u64 ways[2];
};

/* Where the newest entry of a flow of this hash is. */
struct mb_ebpf_index {
	__u32 bin; /* its bin's number, cut off */
	__u32 at; /* its position, cut off */
};

#endif

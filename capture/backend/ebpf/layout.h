/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * The memory that the program in the kernel (count.bpf.h) writes and user space (ebpf.c) reads without ever stopping
 * it. Each processor has a cursor for each direction, and its own parts of the rings, so that nothing needs a lock; all
 * share the sequence numbers of flows.
 *
 * Numbers of bins are (CLOCK_MONOTONIC + phase) / width. The phase makes bins begin at multiples of their width in
 * system time. The numbers only grow, whatever happens to system time.
 */
#ifndef MB_EBPF_LAYOUT_H
#define MB_EBPF_LAYOUT_H

#include <linux/types.h>

#define MB_EBPF_SIDES 2 /* of an interface: arriving, leaving */
#define MB_EBPF_SEQUENCES (1u << 16)
#define MB_EBPF_ORDER 1 /* before the programs that were attached earlier */

/* Set before the program is loaded. */
struct mb_ebpf_constants {
	__u64 bin_ns, source_bin_ns;
	__u64 seed, factor; /* secret: seed of the fingerprints of flows */
	__u32 slots_mask, others_mask, flows_mask, places_mask; /* entries of a cursor in each ring, minus 1 */
	__u32 merged_mask; /* the same; 0: merged frames are not recorded one by one */
	__u32 inner;       /* the sender is the source of the innermost IP header */
};

/* What a pinned program counts, and which program it is: a reader continues only if all of this is as the reader
 * requires. */
struct mb_ebpf_settings {
	__u64 program;               /* hash of its object file; 0: it is not completely pinned */
	__u64 bin_ns, source_bin_ns;
	__u32 entries[6], n_cursors; /* as in struct mb_ebpf_kernel */
	__u32 index;                 /* of the interface */
	__u32 sides;                 /* bit i: side i */
	__u32 hook;                  /* enum mb_hook */
	__u32 inner;                 /* as in struct mb_ebpf_constants */
	__u32 order;                 /* MB_EBPF_ORDER; 0 of an earlier mburst: behind others */
};

/* How far user space has read, for a reader that continues after another one. */
struct mb_ebpf_progress {
	__u64 until_ns;     /* bins that end by this were yielded, in the kernel's time */
	__u64 phase;        /* the phase at that time: the variable may have changed since */
	__s64 offset_ns, base_ns, step_base_ns; /* as in struct ebpf and struct mb_ebpf_reader */
	__u64 step_at_ns;   /* 0: the clock was not set */
};

/* User space may set these at any time. A reader that is killed leaves one of the two copies of its progress intact. */
struct mb_ebpf_variables {
	__u64 phase; /* only grows */
	__u64 zero;
	struct mb_ebpf_settings settings;
	struct mb_ebpf_progress progress[2];
	__u64 current; /* the copy that is valid */
};

/* A bin of one cursor, stored at NUMBER modulo the size of the cursor's ring. */
struct mb_ebpf_slot {
	__u64 number;     /* 0 while it is being begun */
	__u32 back;       /* NUMBER minus the number of the cursor's previous bin; at most UINT32_MAX */
	__u32 retransmits;
	__u64 before;     /* packets in all earlier bins of this cursor: a gap in this is a counted loss */
	__u64 bytes, wire_bytes;
	__u32 packets, ce_packets;
	__u32 merged, cnp_packets;
	__u32 first, last; /* stamps, in ns from the start of the bin */
};

/* Packets of one flow within one bin of sources. A flow may have several entries in a bin. */
struct mb_ebpf_flow {
	__u64 number;     /* of the bin */
	__u64 flow;       /* fingerprint, never 0; of the sender if the frame is not IP */
	__u64 hi, lo;     /* address of the sender, as in struct mb_address */
	__u64 bytes;
	__u32 packets;
	__u32 first, last;
	__u32 ports;      /* as in struct mb_packet */
	__u32 family;     /* enum mb_family */
	__u32 cnp_packets;
};

/* A merged frame; bin NUMBER counts it, too. */
struct mb_ebpf_merged {
	__u64 number;
	__u32 offset; /* its stamp, in ns from the start of the bin */
	__u32 bytes, wire_bytes;
	__u32 unused;
};

/* The position of a processor. */
struct mb_ebpf_cursor {
	__u64 bin, source_bin, other; /* numbers of the newest bin of each ring; 0: none yet */
	__u64 before;                 /* packets in bins before `bin` */
	__u64 others_before;
	__u64 logged;                 /* entries of flows since the start */
	__u64 merged_logged;          /* the same, of merged frames */
	__u64 unspread;               /* merged frames that found no room */
	__u64 taken; /* number of `logged` entries that user space has read, which may be overwritten */
	__u64 read[2], others_read[2]; /* packets of each ring at the time of progress[i]: read, or lost */
	__u64 merged_taken;
	__u64 padding[2];
};

/* TCP flows that share a hash, the newer first, as in measure/sequences.h. Each is one word, which processors read and
 * write atomically: part of the flow's fingerprint, never 0, and the sequence number that follows all seen. */
struct mb_ebpf_sequences {
	__u64 ways[2];
};

/* The position of the newest entry of a flow with this hash. */
struct mb_ebpf_index {
	__u32 bin; /* number of its bin, truncated */
	__u32 at; /* its position, truncated */
};

#endif

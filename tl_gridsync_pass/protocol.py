"""The barrier protocols as PTX text: the single source of what runs on the device.

``device.py`` emits these texts, and whatever reasons about the barrier (tests, model checker, proofs)
reads them from here. Only the leader of a block runs them, except for ``FIRST_GENERATION``. Around them
stands a block barrier (``bar.sync``) on either side: the first orders every write of the block before the
leader's release, the second orders the leader's acquire before every later read of the block. Release
and acquire at gpu scope are cumulative (PTX ISA, "Memory Consistency Model", causality order), so no
other thread needs a fence of its own.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

# Everything else that a text takes or gives is 32 bits wide.
ADDRESSES = frozenset({"workspace", "word", "first_word", "table", "stripes", "counter", "generation_word"})


@dataclass(frozen=True)
class Ptx:
    """One inline PTX statement.

    Attributes
    ----------
    text : str
        The PTX. ``$0`` is the output where there is one; the inputs follow in their order.
    inputs : tuple[str, ...]
        Names of the registers it reads. Those in ``ADDRESSES`` are 64 bits wide, the others 32.
    output : str or None
        Name of the register it writes.
    pure : bool
        It only computes, so the compiler may hoist it, merge it or leave it out.
    """

    text: str
    inputs: tuple[str, ...] = ()
    output: str | None = None
    pure: bool = False


@dataclass(frozen=True)
class Protocol:
    """One way to run the barrier, as the statements of a block's leader.

    A kernel starts with ``entry``; a barrier is ``setup``, ``arrive``, ``pace``, ``wait``, ``turn`` in this
    order. Registers pass from one statement to the next by name, and those of ``entry`` live as long as the
    kernel; ``generation`` is the only one of them that a barrier changes.

    Attributes
    ----------
    name : str
        What it is called in reports.
    entry : tuple[Ptx, ...]
        Run once by every thread, at the start of the kernel.
    setup : tuple[Ptx, ...]
        Pure statements that compute addresses.
    arrive : Ptx
        Publishes the block's writes and reports its arrival.
    pace : Ptx or None
        Lets time pass before the first poll; orders nothing and may be left out.
    wait : Ptx
        Returns once every block has arrived, with their writes visible to the leader.
    bounded_wait : Ptx
        The same with a limit of ``milliseconds``. ``now`` is the last value read of what it polls; where it
        still shows the old generation, the limit ran out.
    turn : Ptx or None
        The generation that the next barrier starts with, where ``arrive`` does not read it.
    """

    name: str
    entry: tuple[Ptx, ...]
    setup: tuple[Ptx, ...]
    arrive: Ptx
    pace: Ptx | None
    wait: Ptx
    bounded_wait: Ptx
    turn: Ptx | None


# The workspace that the driver gives every cooperative launch in flight; null where the launch is not
# cooperative. This is the ABI that CUDA's cooperative groups compile into every binary
# (cooperative_groups/details/driver_abi.h of the CUDA toolkit).
WORKSPACE = Ptx(
    output="workspace",
    pure=True,
    text="""
{
    .reg .b32 %hi, %lo;
    mov.u32 %hi, %envreg1;
    mov.u32 %lo, %envreg2;
    mov.b64 $0, {%lo, %hi};
}
""",
)

# The barrier word is the 32 bits at offset 4 of the workspace. The leader is thread (0,0,0), hence lane
# 0, so the lane adds nothing; it is there because ptxas, seeing an address that may differ from lane to
# lane, emits a plain atomic where it would otherwise vote, count and shuffle across the warp first.
WORD = Ptx(
    output="word",
    inputs=("workspace",),
    pure=True,
    text="""
{
    .reg .b32 %lane;
    .reg .b64 %offset;
    mov.u32 %lane, %laneid;
    add.u32 %lane, %lane, 4;
    cvt.u64.u32 %offset, %lane;
    add.u64 $0, $1, %offset;
}
""",
)

# Bits 0 to 30 of the barrier word count arrivals and bit 31 is the generation. Block (0,0,0) adds
# 2^31 - (blocks - 1) and every other block adds 1, so the sum over a round is 2^31: the round's last
# arrival, whichever it is, flips bit 31 and leaves the count at zero. There is nothing to reset, and the
# word is written by atomic additions alone. Computed once, at the start of the kernel: reading the block's
# index takes longer than the whole rest of an arrival, and the compiler would repeat it at every barrier.
ADDEND = Ptx(
    output="addend",
    inputs=("blocks",),
    text="""
{
    .reg .b32 %x, %y, %z;
    .reg .pred %first;
    mov.u32 %x, %ctaid.x;
    mov.u32 %y, %ctaid.y;
    mov.u32 %z, %ctaid.z;
    or.b32 %x, %x, %y;
    or.b32 %x, %x, %z;
    setp.eq.u32 %first, %x, 0;
    sub.u32 %x, 0x80000001, $1;
    selp.b32 $0, %x, 1, %first;
}
""",
)

# Where the generation of a launch is read from; null where the launch is not cooperative.
FIRST_WORD = Ptx(
    output="first_word",
    inputs=("workspace",),
    pure=True,
    text="""
{
    .reg .pred %none;
    setp.eq.u64 %none, $1, 0;
    add.u64 $0, $1, 4;
    @%none mov.u64 $0, 0;
}
""",
)

# The generation that a launch starts with, read once, at the start of the kernel: no round can end
# before this block has arrived at it. Every later generation follows from it, so that no barrier has to
# read the word before it adds to it. Runs in every thread; only the leader of a cooperative launch loads.
FIRST_GENERATION = Ptx(
    output="generation",
    inputs=("first_word",),
    text="""
{
    .reg .b32 %x, %y, %z;
    .reg .pred %reads;
    mov.u32 %x, %tid.x;
    mov.u32 %y, %tid.y;
    mov.u32 %z, %tid.z;
    or.b32 %x, %x, %y;
    or.b32 %x, %x, %z;
    setp.ne.u64 %reads, $1, 0;
    setp.eq.and.u32 %reads, %x, 0, %reads;
    mov.u32 $0, 0;
    // Relaxed: only the value matters, and this block's own later additions are ordered after it by
    // coherence, being to the same word.
    @%reads ld.relaxed.gpu.global.u32 $0, [$1];
}
""",
)

# Not read back from the word: it is known.
NEXT_GENERATION = Ptx(
    output="generation",
    inputs=("generation",),
    pure=True,
    text="""
    xor.b32 $0, $1, 0x80000000;
""",
)

ARRIVE = Ptx(
    inputs=("word", "addend"),
    text="""
{
    // Release, at gpu scope because the readers are other blocks: publishes every write that the bar.sync
    // before this ordered ahead of the leader. A fence and a relaxed addition make a release pattern.
    fence.release.gpu;
    // A read-modify-write, so that all arrivals of a round stand in one observation chain, and whoever
    // sees the last one synchronizes with each of them. Without a result, so that polling need not wait
    // for one.
    red.relaxed.gpu.global.add.u32 [$0], $1;
}
""",
)

# As ARRIVE, but with the number of blocks that have still to arrive. The word after the own addition has
# counted k arrivals: its low bits are k while block (0,0,0) is missing and 2^31 - (blocks - k) afterwards.
ARRIVE_RANKED = Ptx(
    output="remaining",
    inputs=("word", "addend", "blocks"),
    text="""
{
    .reg .b32 %count;
    .reg .pred %early;
    // Release and read-modify-write: as in ARRIVE.
    fence.release.gpu;
    atom.relaxed.gpu.global.add.u32 %count, [$1], $2;
    add.u32 %count, %count, $2;
    and.b32 %count, %count, 0x7fffffff;
    setp.lt.u32 %early, %count, $3;
    sub.u32 $0, 0x80000000, %count;
    @%early sub.u32 $0, $3, %count;
    setp.eq.u32 %early, %count, 0;
    @%early mov.u32 $0, 0;
}
""",
)

# Polls that queue in front of arrivals at the word delay them. A fixed pause lets the arrivals land.
PACE = Ptx(
    inputs=("cycles",),
    text="""
{
    .reg .b32 %start, %now;
    .reg .pred %more;
    mov.u32 %start, %clock;
AGAIN:
    mov.u32 %now, %clock;
    sub.u32 %now, %now, %start;
    setp.lt.u32 %more, %now, $0;
    @%more bra AGAIN;
}
""",
)

# The L2 cache adds to one word about once in 1.4 cycles of the multiprocessor clock (measured on an H200
# with 2112 blocks), so the last arrival is at least that long away for each block still missing, and a
# poll that comes earlier only stands in its way.
PACE_RANKED = Ptx(
    inputs=("remaining",),
    text="""
{
    .reg .b32 %start, %now, %cycles;
    .reg .pred %more;
    mul.lo.u32 %cycles, $0, 22;
    shr.u32 %cycles, %cycles, 4;
    // A poll is on its way for some 300 cycles, so it may leave as much earlier.
    setp.lt.u32 %more, %cycles, 340;
    @%more bra DONE;
    sub.u32 %cycles, %cycles, 300;
    mov.u32 %start, %clock;
AGAIN:
    mov.u32 %now, %clock;
    sub.u32 %now, %now, %start;
    setp.lt.u32 %more, %now, %cycles;
    @%more bra AGAIN;
DONE:
}
""",
)

WAIT = Ptx(
    inputs=("word", "generation"),
    text="""
{
    .reg .b32 %now;
    .reg .pred %same;
POLL:
    // Relaxed: a poll orders nothing, so a failed one costs no cache invalidation.
    ld.relaxed.gpu.global.u32 %now, [$0];
    xor.b32 %now, %now, $1;
    setp.ge.s32 %same, %now, 0;
    @%same bra POLL;
    // Acquire: pairs with the release of every arrival of the round. It reads the flipped generation or
    // a later arrival of the next round, which extends the same observation chain; the generation cannot
    // flip back before this block arrives again.
    ld.acquire.gpu.global.u32 %now, [$0];
}
""",
)

BOUNDED_WAIT = Ptx(
    output="now",
    inputs=("word", "generation", "milliseconds"),
    text="""
{
    .reg .b32 %flipped;
    .reg .b64 %start, %elapsed, %limit;
    .reg .pred %p;
    mul.wide.u32 %limit, $3, 1000000;
    mov.u64 %start, %globaltimer;
POLL:
    // Relaxed, then acquire: as in WAIT.
    ld.relaxed.gpu.global.u32 $0, [$1];
    xor.b32 %flipped, $0, $2;
    setp.lt.s32 %p, %flipped, 0;
    @%p bra OPEN;
    mov.u64 %elapsed, %globaltimer;
    sub.u64 %elapsed, %elapsed, %start;
    setp.lt.u64 %p, %elapsed, %limit;
    @%p bra POLL;
    bra DONE;
OPEN:
    ld.acquire.gpu.global.u32 $0, [$1];
DONE:
}
""",
)

# Four words instead of one, for grids that keep a single word busy for longer than anything else takes.
# The driver has no more words to give, so they are the module's own: a table of 128 slots, of which a
# launch uses the one that the address of its workspace owns. No two launches in flight have the same
# workspace, and an address that has taken a slot keeps it, so that all blocks of a launch find the same
# slot and no two launches in flight share one. After a launch the counts in its slot are zero, as every
# round has ended. A table without room gives null, to all blocks alike; they use the driver's word then.
#
# Layout of the table, in bytes: word i of slot s at 4096 * (s / 32) + 32 * (s % 32) + 1024 * i; the owner of
# slot s, 64 bits, at 16384 + 8 * s. The words of a slot are that far apart because two words in one slice of
# the L2 cache are as slow as one word. Of words 128 bytes apart half are in one slice, of words 4096, 8192 and
# 12288 apart some, and of words 1024, 2048 and 3072 apart within 4096 bytes none was (H200, see
# benchmarks/l2_slices.py).
STRIPES = 4
STRIPE_BYTES = 1024
STRIPE_TABLE_BYTES = 4 * 4096 + 128 * 8
CLAIM_STRIPES = Ptx(
    output="stripes",
    inputs=("workspace", "table"),
    text="""
{
    .reg .b32 %x, %y, %z, %slot, %left;
    .reg .b64 %owner, %entry, %offset, %page;
    .reg .pred %p;
    mov.u64 $0, 0;
    mov.u32 %x, %tid.x;
    mov.u32 %y, %tid.y;
    mov.u32 %z, %tid.z;
    or.b32 %x, %x, %y;
    or.b32 %x, %x, %z;
    setp.ne.u32 %p, %x, 0;
    @%p bra NONE;
    setp.eq.u64 %p, $1, 0;
    @%p bra NONE;
    // Workspaces lie 64 bytes apart, so this spreads them over the table.
    shr.u64 %offset, $1, 6;
    cvt.u32.u64 %slot, %offset;
    mov.u32 %left, 128;
PROBE:
    and.b32 %slot, %slot, 127;
    mul.wide.u32 %offset, %slot, 8;
    add.u64 %entry, $2, %offset;
    // Relaxed, here and in the exchange: an owner never changes, and nothing but the slot follows from it.
    ld.relaxed.gpu.global.u64 %owner, [%entry+16384];
    setp.eq.u64 %p, %owner, 0;
    @%p atom.relaxed.gpu.global.cas.b64 %owner, [%entry+16384], 0, $1;
    setp.eq.u64 %p, %owner, 0;
    @%p bra FOUND;
    setp.eq.u64 %p, %owner, $1;
    @%p bra FOUND;
    add.u32 %slot, %slot, 1;
    sub.u32 %left, %left, 1;
    setp.ne.u32 %p, %left, 0;
    @%p bra PROBE;
    bra NONE;
FOUND:
    // 32 * s + 3072 * (s / 32) is where word 0 stands.
    mul.wide.u32 %offset, %slot, 32;
    shr.u32 %x, %slot, 5;
    mul.wide.u32 %page, %x, 3072;
    add.u64 %offset, %offset, %page;
    add.u64 $0, $2, %offset;
NONE:
}
""",
)

# The own stripe's word, and no other: a stripe flips once its own blocks have arrived, so another one's may
# already show the next generation while this block has yet to start.
FIRST_STRIPED_WORD = Ptx(
    output="first_word",
    inputs=("workspace", "stripes", "stripe_offset"),
    pure=True,
    text="""
{
    .reg .b64 %own;
    .reg .pred %none;
    add.u64 $0, $1, 4;
    setp.eq.u64 %none, $1, 0;
    @%none mov.u64 $0, 0;
    cvt.u64.u32 %own, $3;
    add.u64 %own, %own, $2;
    setp.ne.u64 %none, $2, 0;
    @%none mov.u64 $0, %own;
}
""",
)

BLOCK_INDEX = Ptx(
    output="block_index",
    pure=True,
    text="""
{
    .reg .b32 %x, %y, %z, %nx, %ny;
    mov.u32 %x, %ctaid.x;
    mov.u32 %y, %ctaid.y;
    mov.u32 %z, %ctaid.z;
    mov.u32 %nx, %nctaid.x;
    mov.u32 %ny, %nctaid.y;
    mul.lo.u32 %z, %z, %ny;
    add.u32 %y, %y, %z;
    mul.lo.u32 %y, %y, %nx;
    add.u32 $0, %x, %y;
}
""",
)

# Blocks go to the stripes in turn. Each stripe counts as the driver's word does, with its own first block
# and its own number of blocks, but its generation has two bits, 30 and 31, and bits 0 to 29 count. One bit
# is not enough: once all stripes have flipped, the blocks of one of them may arrive at the next barrier and
# flip it again while a block of another stripe has yet to poll it, and that block would then read the
# generation that it waits to end. Further ahead than that no stripe gets, since the barrier after the next
# one needs that block, too; so of four generations a waiting block can meet three.
STRIPE_OFFSET = Ptx(
    output="stripe_offset",
    inputs=("block_index",),
    text="""
{
    .reg .b32 %stripe;
    and.b32 %stripe, $1, 3;
    shl.b32 $0, %stripe, 10;
}
""",
)

STRIPE_SIZE = Ptx(
    output="stripe_blocks",
    inputs=("stripe_offset", "blocks"),
    text="""
{
    .reg .b32 %size;
    shr.u32 %size, $1, 10;
    sub.u32 %size, 3, %size;
    add.u32 %size, %size, $2;
    shr.u32 $0, %size, 2;
}
""",
)

STRIPE_ADDEND = Ptx(
    output="stripe_addend",
    inputs=("block_index", "stripe_blocks"),
    text="""
{
    .reg .b32 %addend;
    .reg .pred %first;
    setp.lt.u32 %first, $1, 4;
    sub.u32 %addend, 0x40000001, $2;
    selp.b32 $0, %addend, 1, %first;
}
""",
)

# The own stripe's word; the lane for the same reason as in WORD.
STRIPE_WORD = Ptx(
    output="word",
    inputs=("stripes", "stripe_offset"),
    pure=True,
    text="""
{
    .reg .b32 %lane;
    .reg .b64 %offset;
    mov.u32 %lane, %laneid;
    add.u32 %lane, %lane, $2;
    cvt.u64.u32 %offset, %lane;
    add.u64 $0, $1, %offset;
}
""",
)

# As ARRIVE_RANKED, on the own stripe. The other stripes fill at the same rate, so the blocks missing in
# the own one tell how long the wait is.
ARRIVE_STRIPED = Ptx(
    output="remaining",
    inputs=("word", "stripe_addend", "stripe_blocks"),
    text="""
{
    .reg .b32 %count;
    .reg .pred %early;
    // Release and read-modify-write: as in ARRIVE.
    fence.release.gpu;
    atom.relaxed.gpu.global.add.u32 %count, [$1], $2;
    add.u32 %count, %count, $2;
    and.b32 %count, %count, 0x3fffffff;
    setp.lt.u32 %early, %count, $3;
    sub.u32 $0, 0x40000000, %count;
    @%early sub.u32 $0, $3, %count;
    setp.eq.u32 %early, %count, 0;
    @%early mov.u32 $0, 0;
}
""",
)

PACE_STRIPED = Ptx(
    inputs=("remaining",),
    text="""
{
    .reg .b32 %start, %now, %cycles;
    .reg .pred %more;
    mul.lo.u32 %cycles, $0, 28;
    shr.u32 %cycles, %cycles, 4;
    setp.lt.u32 %more, %cycles, 40;
    @%more bra DONE;
    mov.u32 %start, %clock;
AGAIN:
    mov.u32 %now, %clock;
    sub.u32 %now, %now, %start;
    setp.lt.u32 %more, %now, %cycles;
    @%more bra AGAIN;
DONE:
}
""",
)

WAIT_STRIPED = Ptx(
    inputs=("stripes", "generation"),
    text="""
{
    .reg .b32 %a, %b, %c, %d;
    .reg .pred %same;
POLL:
    // Relaxed: as in WAIT. A stripe may be one generation ahead already, or two; not three, see STRIPE_OFFSET.
    ld.relaxed.gpu.global.u32 %a, [$0];
    ld.relaxed.gpu.global.u32 %b, [$0+1024];
    ld.relaxed.gpu.global.u32 %c, [$0+2048];
    ld.relaxed.gpu.global.u32 %d, [$0+3072];
    xor.b32 %a, %a, $1;
    xor.b32 %b, %b, $1;
    xor.b32 %c, %c, $1;
    xor.b32 %d, %d, $1;
    // The least of four is below 2^30 where one of them has both generation bits as they were.
    min.u32 %a, %a, %b;
    min.u32 %c, %c, %d;
    min.u32 %a, %a, %c;
    setp.lt.u32 %same, %a, 0x40000000;
    @%same bra POLL;
    // Acquire: after relaxed reads of the round's last arrival at each of the four words, or of a later one,
    // one fence makes four acquire patterns, each of which pairs with the releases of all arrivals at its word.
    fence.acquire.gpu;
}
""",
)

BOUNDED_WAIT_STRIPED = Ptx(
    output="now",
    inputs=("stripes", "generation", "milliseconds"),
    text="""
{
    .reg .b32 %b, %c, %d;
    .reg .b64 %start, %elapsed, %limit;
    .reg .pred %p;
    mul.wide.u32 %limit, $3, 1000000;
    mov.u64 %start, %globaltimer;
POLL:
    // Relaxed, then acquire: as in WAIT_STRIPED.
    ld.relaxed.gpu.global.u32 $0, [$1];
    ld.relaxed.gpu.global.u32 %b, [$1+1024];
    ld.relaxed.gpu.global.u32 %c, [$1+2048];
    ld.relaxed.gpu.global.u32 %d, [$1+3072];
    xor.b32 $0, $0, $2;
    xor.b32 %b, %b, $2;
    xor.b32 %c, %c, $2;
    xor.b32 %d, %d, $2;
    min.u32 $0, $0, %b;
    min.u32 %c, %c, %d;
    min.u32 $0, $0, %c;
    setp.ge.u32 %p, $0, 0x40000000;
    // As with one word: bit 31 of what is given back differs from the generation's where the barrier is open.
    selp.b32 $0, 0x80000000, 0, %p;
    xor.b32 $0, $0, $2;
    @%p bra OPEN;
    mov.u64 %elapsed, %globaltimer;
    sub.u64 %elapsed, %elapsed, %start;
    setp.lt.u64 %p, %elapsed, %limit;
    @%p bra POLL;
    bra DONE;
OPEN:
    fence.acquire.gpu;
DONE:
}
""",
)

# The generation of a striped barrier counts in steps of bit 30.
NEXT_GENERATION_STRIPED = Ptx(
    output="generation",
    inputs=("generation",),
    pure=True,
    text="""
    add.u32 $0, $1, 0x40000000;
""",
)

_ENTRY = (WORKSPACE, FIRST_WORD, FIRST_GENERATION, ADDEND)
_STRIPED_ENTRY = (
    WORKSPACE,
    CLAIM_STRIPES,
    BLOCK_INDEX,
    STRIPE_OFFSET,
    FIRST_STRIPED_WORD,
    FIRST_GENERATION,
    STRIPE_SIZE,
    STRIPE_ADDEND,
    ADDEND,
)
_SETUP = (WORKSPACE, WORD)
# Arrivals without a result and a short fixed pause: the fastest up to a few blocks per multiprocessor.
LAUNCH = Protocol("launch", _ENTRY, _SETUP, ARRIVE, PACE, WAIT, BOUNDED_WAIT, NEXT_GENERATION)
# With more blocks the word is busy for longer than anything else takes, and knowing how many are missing
# is worth the round trip.
LAUNCH_RANKED = Protocol("launch, ranked", _ENTRY, _SETUP, ARRIVE_RANKED, PACE_RANKED, WAIT, BOUNDED_WAIT, NEXT_GENERATION)
# With many blocks one word is not enough.
LAUNCH_STRIPED = Protocol(
    "launch, striped",
    _STRIPED_ENTRY,
    (STRIPE_WORD,),
    ARRIVE_STRIPED,
    PACE_STRIPED,
    WAIT_STRIPED,
    BOUNDED_WAIT_STRIPED,
    NEXT_GENERATION_STRIPED,
)

# Above these many blocks the one after the other is the fastest (measured on an H200, see benchmarks/).
RANKED_ABOVE = 340
STRIPED_ABOVE = 700


def for_grid(blocks: int) -> Protocol:
    """The launch protocol for a grid of ``blocks`` blocks."""
    if blocks > STRIPED_ABOVE:
        return LAUNCH_STRIPED
    return LAUNCH_RANKED if blocks > RANKED_ABOVE else LAUNCH


def pause_cycles(blocks: int) -> int:
    """How long PACE lasts, in cycles of the multiprocessor clock (fitted on an H200, see benchmarks/pacing.py)."""
    return 0 if blocks <= 4 else min(pause_cycles_above_four(blocks), 360)


def pause_cycles_above_four(blocks):
    """The same for more than four blocks; ``blocks`` may be a number or a value of the kernel.

    A little longer than the fastest: a poll that comes too early costs a whole round trip to the L2 cache.
    """
    return blocks + 150


# A counter and a generation. The round's last arrival resets the counter and advances the generation;
# everyone waits for the generation to differ from the one captured before arriving.
MODULE = Protocol(
    name="module",
    entry=(),
    setup=(),
    arrive=Ptx(
        output="generation",
        inputs=("counter", "generation_word", "blocks"),
        text="""
{
    .reg .b32 %arrived, %next;
    .reg .pred %last;
    // Relaxed: the release below orders this read before the arrival, and until this block has arrived
    // nobody advances the generation.
    ld.relaxed.gpu.global.u32 $0, [$2];
    // Release, for the same reason as in the launch protocol. Acquire as well: the last arrival must
    // synchronize with all the others, because its store of the generation is what speaks for them.
    atom.acq_rel.gpu.global.add.u32 %arrived, [$1], 1;
    add.u32 %arrived, %arrived, 1;
    setp.eq.u32 %last, %arrived, $3;
    // Relaxed: the release below orders the reset before the generation, and nobody arrives at the next
    // round before seeing the new generation.
    @%last st.relaxed.gpu.global.u32 [$1], 0;
    add.u32 %next, $0, 1;
    // Release: hands on, by cumulativity, what every arrival of the round released.
    @%last st.release.gpu.global.u32 [$2], %next;
}
""",
    ),
    pace=None,
    wait=Ptx(
        inputs=("generation_word", "generation"),
        text="""
{
    .reg .b32 %now;
    .reg .pred %same;
POLL:
    // Relaxed: as in the launch protocol.
    ld.relaxed.gpu.global.u32 %now, [$0];
    setp.eq.u32 %same, %now, $1;
    @%same bra POLL;
    // Acquire: pairs with the release of the generation.
    ld.acquire.gpu.global.u32 %now, [$0];
}
""",
    ),
    bounded_wait=Ptx(
        output="now",
        inputs=("generation_word", "generation", "milliseconds"),
        text="""
{
    .reg .b64 %start, %elapsed, %limit;
    .reg .pred %p;
    mul.wide.u32 %limit, $3, 1000000;
    mov.u64 %start, %globaltimer;
POLL:
    // Relaxed, then acquire: as in the wait above.
    ld.relaxed.gpu.global.u32 $0, [$1];
    setp.ne.u32 %p, $0, $2;
    @%p bra OPEN;
    mov.u64 %elapsed, %globaltimer;
    sub.u64 %elapsed, %elapsed, %start;
    setp.lt.u64 %p, %elapsed, %limit;
    @%p bra POLL;
    bra DONE;
OPEN:
    ld.acquire.gpu.global.u32 $0, [$1];
DONE:
}
""",
    ),
    turn=None,
)

PROTOCOLS = {protocol.name: protocol for protocol in (LAUNCH, LAUNCH_RANKED, LAUNCH_STRIPED, MODULE)}

# Around the barrier of a kernel that copies in bulk (TMA), by every thread of the block. Bulk copies go
# through the async proxy, which the barrier's own release and acquire do not order.

# Before the block barrier: a thread's bulk stores are complete, and their writes visible to it. TileLang
# itself waits until shared memory may be written again, which can be earlier (PTX ISA, cp.async.bulk.wait_group).
BULK_STORES_COMPLETE = Ptx(text="cp.async.bulk.wait_group 0;")
# After it: bulk loads that follow read what ordinary stores wrote before the barrier (PTX ISA, "Proxies": a
# proxy fence has to stand on the path from the one to the other).
BULK_LOADS_FOLLOW = Ptx(text="fence.proxy.async.global;")

# One-sided fences came with compute capability 9.0; before, one that does both takes their place.
_ONE_SIDED_FENCES = ("fence.release.gpu", "fence.acquire.gpu")


def for_compute_capability(ptx: str, major: int) -> str:
    """``ptx`` in the instructions that a GPU of compute capability ``major`` has."""
    if major < 9:
        for fence in _ONE_SIDED_FENCES:
            ptx = ptx.replace(fence, "fence.acq_rel.gpu")
    return ptx


def digest() -> str:
    """A hash of every PTX text, as hex."""
    texts = [BULK_STORES_COMPLETE.text, BULK_LOADS_FOLLOW.text]
    for p in PROTOCOLS.values():
        texts += [s.text for s in (*p.entry, *p.setup, p.arrive, p.pace, p.wait, p.bounded_wait, p.turn) if s is not None]
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()

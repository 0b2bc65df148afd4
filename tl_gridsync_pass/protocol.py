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
ADDRESSES = frozenset({"workspace", "word", "counter", "generation_word"})


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

    A barrier is ``setup``, ``arrive``, ``pace``, ``wait``, ``turn`` in this order. Registers pass from one
    statement to the next by name; ``generation`` also passes from one barrier of a launch to the next.

    Attributes
    ----------
    name : str
        What it is called in reports.
    setup : tuple[Ptx, ...]
        Pure statements that compute addresses and constants.
    arrive : Ptx
        Publishes the block's writes and reports its arrival.
    pace : Ptx or None
        Lets time pass before the first poll; orders nothing and may be left out.
    wait : Ptx
        Returns once every block has arrived, with their writes visible to the leader.
    turn : Ptx or None
        The generation that the next barrier starts with, where ``arrive`` does not read it.
    """

    name: str
    setup: tuple[Ptx, ...]
    arrive: Ptx
    pace: Ptx | None
    wait: Ptx
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
# word is written by atomic additions alone.
ADDEND = Ptx(
    output="addend",
    inputs=("blocks",),
    pure=True,
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

# The generation that a launch starts with, read once, at the start of the kernel: no round can end
# before this block has arrived at it. Every later generation follows from it, so that no barrier has to
# read the word before it adds to it. Runs in every thread; only the leader of a cooperative launch loads.
FIRST_GENERATION = Ptx(
    output="generation",
    inputs=("workspace",),
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
    @%reads ld.relaxed.gpu.global.u32 $0, [$1+4];
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
# with 2112 blocks), so the last arrival is at least that long away for each block still missing. A poll
# is on its way for some 300 cycles, so it may leave as much earlier. Never longer than the wait must be.
PACE_RANKED = Ptx(
    inputs=("remaining",),
    text="""
{
    .reg .b32 %start, %now, %cycles;
    .reg .pred %more;
    mul.lo.u32 %cycles, $0, 22;
    shr.u32 %cycles, %cycles, 4;
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

# Arrivals without a result and a short fixed pause: the fastest up to a few blocks per multiprocessor.
LAUNCH = Protocol("launch", (WORKSPACE, WORD, ADDEND), ARRIVE, PACE, WAIT, NEXT_GENERATION)
# With many blocks the word is busy for longer than anything else takes, and knowing how many are missing
# is worth the round trip.
LAUNCH_RANKED = Protocol("launch, ranked", (WORKSPACE, WORD, ADDEND), ARRIVE_RANKED, PACE_RANKED, WAIT, NEXT_GENERATION)

# Above this many blocks LAUNCH_RANKED is the faster one (measured on an H200, see benchmarks/).
RANKED_ABOVE = 340


def pause_cycles(blocks: int) -> int:
    """How long PACE lasts, in cycles of the multiprocessor clock (fitted on an H200, see benchmarks/)."""
    return 0 if blocks <= 4 else pause_cycles_above_four(blocks)


def pause_cycles_above_four(blocks):
    """The same for more than four blocks; ``blocks`` may be a number or a value of the kernel."""
    return blocks + 80


# A counter and a generation. The round's last arrival resets the counter and advances the generation;
# everyone waits for the generation to differ from the one captured before arriving.
MODULE = Protocol(
    name="module",
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
    turn=None,
)

PROTOCOLS = {protocol.name: protocol for protocol in (LAUNCH, LAUNCH_RANKED, MODULE)}

# What the compute capabilities before 9.0 have in place of fence.release: it also acquires.
_OLDER_RELEASE_FENCE = ("fence.release.gpu", "fence.acq_rel.gpu")


def for_compute_capability(ptx: str, major: int) -> str:
    """``ptx`` in the instructions that a GPU of compute capability ``major`` has."""
    return ptx if major >= 9 else ptx.replace(*_OLDER_RELEASE_FENCE)


def digest() -> str:
    """A hash of every PTX text, as hex."""
    texts = [FIRST_GENERATION.text]
    for p in PROTOCOLS.values():
        texts += [s.text for s in (*p.setup, p.arrive, p.pace, p.wait, p.turn) if s is not None]
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()

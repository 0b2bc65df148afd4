"""The barrier protocols as PTX text: the single source of what runs on the device.

``device.py`` emits these texts, and whatever reasons about the barrier (tests, model checker, proofs)
reads them from here. Only the leader of a block runs them. The code around them is a block barrier
(``bar.sync``) before and after: the first orders every write of the block before the leader's release,
the second orders the leader's acquire before every later read of the block. Release and acquire at gpu
scope are cumulative (PTX ISA, "Memory Consistency Model", causality order), so no other thread needs a
fence of its own.

In a text, ``$0``, ``$1``, ... are the operands in the order that the protocol names them.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

# The 32-bit word of the driver's cooperative-launch workspace that holds the grid barrier, in bytes from
# the start of the workspace. Source: cooperative_groups/details/driver_abi.h of the CUDA toolkit.
BARRIER_WORD_OFFSET = 4

# The workspace's address, null unless the launch is cooperative. Every cooperative launch in flight has
# its own, and its barrier word starts at zero (driver_abi.h; read on 8 streams at once on an H200).
WORKSPACE_ADDRESS = """
{
    .reg .b32 %hi, %lo;
    mov.b32 %hi, %envreg1;
    mov.b32 %lo, %envreg2;
    mov.b64 $0, {%lo, %hi};
}
"""


@dataclass(frozen=True)
class Protocol:
    """One way to run the barrier, for the leader of a block.

    Attributes
    ----------
    name : str
        The value of ``state`` that selects it.
    operands : tuple[str, ...]
        What the addresses are that both texts take, in order. All are 64-bit global addresses.
    arrive : str
        PTX. ``$0`` is the 32-bit token written for ``wait``; the operands follow.
    wait : str
        PTX. ``$0`` is the token that ``arrive`` wrote; the operands follow.
    """

    name: str
    operands: tuple[str, ...]
    arrive: str
    wait: str


# Bits 0 to 30 of the barrier word count arrivals and bit 31 is the generation. Block (0,0,0) adds
# 2^31 - (blocks - 1) and every other block adds 1, so the sum over a round is 2^31: the round's last
# arrival, whichever it is, flips bit 31 and leaves the count at zero. There is nothing to reset, and the
# word is written by atomic adds alone. The token is the word before the own addition: it holds the
# generation that the round began with, because the round cannot end before this block has arrived.
LAUNCH = Protocol(
    name="launch",
    operands=("barrier word",),
    arrive="""
{
    .reg .b32 %x, %y, %z, %blocks, %add;
    .reg .pred %first;

    mov.u32 %x, %nctaid.x;
    mov.u32 %y, %nctaid.y;
    mov.u32 %z, %nctaid.z;
    mul.lo.u32 %blocks, %x, %y;
    mul.lo.u32 %blocks, %blocks, %z;

    mov.u32 %x, %ctaid.x;
    mov.u32 %y, %ctaid.y;
    mov.u32 %z, %ctaid.z;
    or.b32 %x, %x, %y;
    or.b32 %x, %x, %z;
    setp.eq.u32 %first, %x, 0;
    sub.u32 %add, 0x80000001, %blocks;
    selp.b32 %add, %add, 1, %first;

    // Release: publishes every write that the bar.sync before this ordered ahead of the leader.
    // Gpu scope: the readers are other blocks. A read-modify-write: all arrivals of a round then stand
    // in one observation chain, so whoever sees the last one synchronizes with each of them.
    atom.add.release.gpu.global.u32 $0, [$1], %add;
}
""",
    wait="""
{
    .reg .b32 %word;
    .reg .pred %same;

POLL:
    // Relaxed: a poll orders nothing, so a failed one costs no cache invalidation.
    ld.relaxed.gpu.global.u32 %word, [$1];
    xor.b32 %word, %word, $0;
    setp.ge.s32 %same, %word, 0;
    @%same bra POLL;

    // Acquire: pairs with the release of every arrival of the round. It reads the flipped generation or
    // a later arrival of the next round, which extends the same observation chain; the generation cannot
    // flip back before this block arrives again.
    ld.acquire.gpu.global.u32 %word, [$1];
}
""",
)

# A counter and a generation. The round's last arrival resets the counter and advances the generation;
# everyone waits for the generation to differ from the one captured before arriving.
MODULE = Protocol(
    name="module",
    operands=("counter", "generation"),
    arrive="""
{
    .reg .b32 %x, %y, %z, %blocks, %arrived, %next;
    .reg .pred %last;

    mov.u32 %x, %nctaid.x;
    mov.u32 %y, %nctaid.y;
    mov.u32 %z, %nctaid.z;
    mul.lo.u32 %blocks, %x, %y;
    mul.lo.u32 %blocks, %blocks, %z;

    // Relaxed: the release below orders this read before the arrival, and until this block has arrived
    // nobody advances the generation.
    ld.relaxed.gpu.global.u32 $0, [$2];

    // Release, for the same reason as in the launch protocol. Acquire as well: the last arrival must
    // synchronize with all the others, because its store of the generation is what speaks for them.
    atom.add.acq_rel.gpu.global.u32 %arrived, [$1], 1;
    add.u32 %arrived, %arrived, 1;
    setp.eq.u32 %last, %arrived, %blocks;

    // Relaxed: the release below orders the reset before the generation, and nobody arrives at the next
    // round before seeing the new generation.
    @%last st.relaxed.gpu.global.u32 [$1], 0;
    add.u32 %next, $0, 1;
    // Release: hands on, by cumulativity, what every arrival of the round released.
    @%last st.release.gpu.global.u32 [$2], %next;
}
""",
    wait="""
{
    .reg .b32 %generation;
    .reg .pred %same;

POLL:
    // Relaxed: as in the launch protocol.
    ld.relaxed.gpu.global.u32 %generation, [$2];
    setp.eq.u32 %same, %generation, $0;
    @%same bra POLL;

    // Acquire: pairs with the release of the generation.
    ld.acquire.gpu.global.u32 %generation, [$2];
}
""",
)

PROTOCOLS = {protocol.name: protocol for protocol in (LAUNCH, MODULE)}


def digest() -> str:
    """A hash of every PTX text, as hex; part of the revision in the kernel cache's key."""
    texts = [WORKSPACE_ADDRESS] + [text for p in PROTOCOLS.values() for text in (p.name, p.arrive, p.wait)]
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()

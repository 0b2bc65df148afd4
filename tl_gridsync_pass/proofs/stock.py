"""The grid barriers that TileLang's CuTeDSL backend ships, written down from their behaviour.

They are here to be refuted. Every thread of a block runs these texts; the leader is picked inside, by
``threadIdx.x`` alone. Fences are kept where the shipped helpers have them.
"""

from __future__ import annotations

from ..protocol import Protocol, Ptx
from .harness import Harness, every_thread

# TileLang 0.1.12 to 0.1.15: a counter and a generation.
COUNTER_AND_GENERATION = Protocol(
    name="TileLang 0.1.12 to 0.1.15",
    entry=(),
    setup=(),
    arrive=Ptx(
        inputs=("counter", "generation_word"),
        text="""
{
    .reg .b32 %column, %x, %y, %blocks, %seen, %before, %now;
    .reg .pred %bystander, %last, %same;

    membar.gl;
    mov.u32 %column, %tid.x;
    setp.ne.u32 %bystander, %column, 0;
    @%bystander bra REJOIN;

    mov.u32 %x, %nctaid.x;
    mov.u32 %y, %nctaid.y;
    mul.lo.u32 %blocks, %x, %y;
    mov.u32 %x, %nctaid.z;
    mul.lo.u32 %blocks, %blocks, %x;

    ld.acquire.gpu.global.u32 %seen, [$1];
    atom.add.release.gpu.global.u32 %before, [$0], 1;
    add.u32 %before, %before, 1;
    setp.eq.u32 %last, %before, %blocks;
    @!%last bra SPIN;
    st.release.gpu.global.u32 [$0], 0;
    add.u32 %now, %seen, 1;
    st.release.gpu.global.u32 [$1], %now;
    bra REJOIN;
SPIN:
    ld.acquire.gpu.global.u32 %now, [$1];
    setp.eq.u32 %same, %now, %seen;
    @%same bra SPIN;
REJOIN:
    bar.sync 0;
    membar.gl;
}
""",
    ),
    pace=None,
    wait=Ptx(""),
    bounded_wait=Ptx(""),
    turn=None,
)

# TileLang 0.1.9 to 0.1.11: a counter alone, which every leader resets once it has seen it full.
COUNTER_ALONE = Protocol(
    name="TileLang 0.1.9 to 0.1.11",
    entry=(),
    setup=(),
    arrive=Ptx(
        inputs=("counter",),
        text="""
{
    .reg .b32 %column, %x, %y, %blocks, %count;
    .reg .pred %bystander, %short;

    mov.u32 %column, %tid.x;
    setp.ne.u32 %bystander, %column, 0;
    @%bystander bra OUT;

    mov.u32 %x, %nctaid.x;
    mov.u32 %y, %nctaid.y;
    mul.lo.u32 %blocks, %x, %y;
    mov.u32 %x, %nctaid.z;
    mul.lo.u32 %blocks, %blocks, %x;

    atom.add.release.gpu.global.u32 %count, [$0], 1;
SPIN:
    ld.acquire.gpu.global.u32 %count, [$0];
    setp.lt.s32 %short, %count, %blocks;
    @%short bra SPIN;
    st.release.gpu.global.u32 [$0], 0;
OUT:
}
""",
    ),
    pace=None,
    wait=Ptx(""),
    bounded_wait=Ptx(""),
    turn=None,
)


def harness(protocol: Protocol) -> Harness:
    """A stock barrier as TileLang calls it: a ``bar.sync``, the text in every thread, a ``bar.sync``."""
    return Harness(protocol, leader=every_thread)

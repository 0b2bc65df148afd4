"""The stock barrier's protocol with a three-axis leader, for comparison only.

Written from the behaviour of TileLang's helper: every thread fences before and after, the leader adds to
a counter and waits for a generation, the last arrival resets the one and advances the other.
"""

from __future__ import annotations

import cutlass.cute as cute
from cutlass._mlir.dialects import llvm
from cutlass.cutlass_dsl import dsl_user_op

from tl_gridsync_pass import device

_BARRIER = """
{
    .reg .b32 %x, %y, %z, %blocks, %before, %now;
    .reg .pred %p;
    membar.gl;
    mov.u32 %x, %tid.x;
    mov.u32 %y, %tid.y;
    mov.u32 %z, %tid.z;
    or.b32 %x, %x, %y;
    or.b32 %x, %x, %z;
    setp.ne.u32 %p, %x, 0;
    @%p bra JOIN;
    mov.u32 %x, %nctaid.x;
    mov.u32 %y, %nctaid.y;
    mov.u32 %z, %nctaid.z;
    mul.lo.u32 %blocks, %x, %y;
    mul.lo.u32 %blocks, %blocks, %z;
    ld.acquire.gpu.global.u32 %before, [$1];
    atom.release.gpu.global.add.u32 %now, [$0], 1;
    add.u32 %now, %now, 1;
    setp.ne.u32 %p, %now, %blocks;
    @%p bra POLL;
    st.release.gpu.global.u32 [$0], 0;
    add.u32 %now, %before, 1;
    st.release.gpu.global.u32 [$1], %now;
    bra JOIN;
POLL:
    ld.acquire.gpu.global.u32 %now, [$1];
    setp.eq.u32 %p, %now, %before;
    @%p bra POLL;
JOIN:
    bar.sync 0;
    membar.gl;
}
"""


@dsl_user_op
def _barrier(*, loc=None, ip=None) -> None:
    counter, generation = (device._module_variable(f"__upstream_shape_{name}") for name in ("counter", "generation"))
    llvm.inline_asm(
        None,
        [counter, generation],
        _BARRIER,
        "l,l,~{memory}",
        has_side_effects=True,
        is_align_stack=False,
        asm_dialect=llvm.AsmDialect.AD_ATT,
    )


def sync_grid() -> None:
    cute.arch.sync_threads()
    _barrier()
    cute.arch.sync_threads()

"""The barrier as CUDA C++, made from the very PTX statements of :mod:`tl_gridsync_pass.protocol`.

It is put in front of the source that TileLang's CUDA code generator prints, so that nvcc and NVRTC compile it
with the kernel and the kernel cache keeps it with the kernel. The lowered kernel calls two macros:
``tl_gridsync_begin()`` once, at the start, and ``tl_gridsync_arrive_and_wait(state, static_blocks)`` in the
leader. They are macros because the second goes on with the registers that the first one declared.

Grids of any size use one word here: the striped protocol, which is faster on grids of many blocks, needs a
table that only the CuTeDSL backend declares.
"""

from __future__ import annotations

from . import protocol
from .protocol import ADDRESSES, Protocol, Ptx

BEGIN = "tl_gridsync_begin"
ARRIVE_AND_WAIT = "tl_gridsync_arrive_and_wait"

_NOT_COOPERATIVE = (
    "tl_gridsync: this kernel uses T.sync_grid() but was not launched cooperatively, so its blocks "
    "need not be resident together. Launch it with cuLaunchCooperativeKernel.\\n"
)

_FRAME = """
#ifndef __CUDACC_RTC__
#include <cstdio>
#endif

namespace tl_gridsync {{

typedef unsigned int u32;
typedef unsigned long long u64;
{variables}
__device__ __forceinline__ u64 workspace_address() {{
  u64 workspace;
{workspace}
  return workspace;
}}

// The registers that live as long as the kernel.
struct Live {{
{fields}
}};

__device__ __forceinline__ Live begin() {{
  u32 blocks = gridDim.x * gridDim.y * gridDim.z;
  Live live;
{entry}
  return live;
}}

// Stops the grid where the launch is not cooperative: its blocks need not be resident together.
__device__ __forceinline__ void not_cooperative() {{
  if ((blockIdx.x | blockIdx.y | blockIdx.z) == 0)
    printf("{message}");
  // About a second, for the block that prints to get its line out.
  u64 start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do {{
    asm volatile("nanosleep.u32 1000000;");
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  }} while (now - start < 1000000000ull);
  asm volatile("trap;");
}}
{barriers}
__device__ __forceinline__ void arrive_and_wait(Live &live, u32 static_blocks) {{
  u64 workspace = workspace_address();
  if (workspace == 0) not_cooperative();
  u32 blocks = static_blocks > 0 ? static_blocks : gridDim.x * gridDim.y * gridDim.z;
{dispatch}
}}

#if __CUDA_ARCH__ >= 900
__device__ __forceinline__ void complete_bulk_stores() {{
{bulk_stores}
}}

__device__ __forceinline__ void order_bulk_loads() {{
{bulk_loads}
}}
#endif

}}  // namespace tl_gridsync

#define {begin}() tl_gridsync::Live tl_gridsync_live = tl_gridsync::begin()
#define {arrive_and_wait}(state, static_blocks) tl_gridsync::arrive_and_wait(tl_gridsync_live, static_blocks)

"""


def cuda_source(state: str) -> str:
    """The declarations that a kernel lowered for the CUDA code generator needs in front of it.

    Parameters
    ----------
    state : str
        ``"launch"`` or ``"module"``, see :class:`~tl_gridsync_pass.options.GridSyncOptions`.
    """
    if state == "module":
        variables = "\n__device__ u32 counter_of_module, generation_of_module;\n"
        barriers = _function("module_barrier", protocol.MODULE, given=("counter", "generation_word", "blocks"))
        words = ", ".join(f"__cvta_generic_to_global(&{name})" for name in ("counter_of_module", "generation_of_module"))
        dispatch = f"  module_barrier(live, {words}, blocks);"
        entry: tuple[Ptx, ...] = protocol.MODULE.entry
    else:
        variables = ""
        barriers = _function("launch_barrier", protocol.LAUNCH, given=("workspace", "blocks"))
        barriers += _function("launch_barrier_ranked", protocol.LAUNCH_RANKED, given=("workspace", "blocks"))
        dispatch = (
            f"  if (blocks > {protocol.RANKED_ABOVE})\n    launch_barrier_ranked(live, workspace, blocks);\n"
            "  else\n    launch_barrier(live, workspace, blocks);"
        )
        entry = protocol.LAUNCH.entry
    return _FRAME.format(
        variables=variables,
        workspace=_statement(protocol.WORKSPACE),
        fields="\n".join(f"  {_type(s.output)} {s.output};" for s in entry if s.output) or "  u32 unused;",
        entry="\n".join([*(_statement(s, declare=True) for s in entry), *(f"  live.{s.output} = {s.output};" for s in entry)]),
        message=_NOT_COOPERATIVE,
        barriers=barriers,
        dispatch=dispatch,
        bulk_stores=_statement(protocol.BULK_STORES_COMPLETE),
        bulk_loads=_statement(protocol.BULK_LOADS_FOLLOW),
        begin=BEGIN,
        arrive_and_wait=ARRIVE_AND_WAIT,
    )


class _Expression(str):
    """C++ text that adds and multiplies like a number, for the formulas that protocol.py gives in Python."""

    def __add__(self, other: object) -> _Expression:
        return _Expression(f"({self} + {other})")

    def __sub__(self, other: object) -> _Expression:
        return _Expression(f"({self} - {other})")

    def __mul__(self, other: object) -> _Expression:
        return _Expression(f"({self} * {other})")

    def __floordiv__(self, other: object) -> _Expression:
        return _Expression(f"({self} / {other})")

    __radd__ = __add__
    __rmul__ = __mul__


def _function(name: str, chosen: Protocol, given: tuple[str, ...]) -> str:
    """The C++ function of one protocol: setup, arrive, pace, wait, turn."""
    kept = [s.output for s in chosen.entry if s.output and s.output not in given]
    body = [f"  {_type(register)} {register} = live.{register};" for register in kept]
    known = {*given, *kept}
    body += [_statement(s, declare=True) for s in chosen.setup if s.output not in known]
    body.append(_statement(chosen.arrive, declare=chosen.arrive.output not in known))
    if chosen.pace is not None and "cycles" in chosen.pace.inputs:
        cycles = protocol.pause_cycles_above_four(_Expression("blocks"))
        body.append(f"  if (blocks > 4) {{\n  u32 cycles = {cycles};\n{_statement(chosen.pace)}\n  }}")
    elif chosen.pace is not None:
        body.append(_statement(chosen.pace))
    body.append(_statement(chosen.wait))
    if chosen.turn is not None:
        body.append(_statement(chosen.turn) + "\n  live.generation = generation;")
    parameters = ", ".join(f"{_type(register)} {register}" for register in given)
    return f"\n__device__ __forceinline__ void {name}(Live &live, {parameters}) {{\n" + "\n".join(body) + "\n}\n"


def _statement(ptx: Ptx, declare: bool = False) -> str:
    """``ptx`` as an asm statement on C++ variables of its registers' names."""
    newer, older = (protocol.for_compute_capability(ptx.text, major) for major in (9, 8))
    asm = _asm(ptx, newer)
    if older != newer:
        asm = f"#if __CUDA_ARCH__ >= 900\n{asm}\n#else\n{_asm(ptx, older)}\n#endif"
    if ptx.output is None:
        return asm
    declaration = f"  {_type(ptx.output)} {ptx.output};\n" if declare else ""
    # By way of a variable of its own, since the output may be an input as well.
    return f"{declaration}  {{\n  {_type(ptx.output)} output;\n{asm}\n  {ptx.output} = output;\n  }}"


def _asm(ptx: Ptx, text: str) -> str:
    first_input = 0 if ptx.output is None else 1
    count = first_input + len(ptx.inputs)
    text = text.replace("%", "%%")
    for i in range(count):
        text = text.replace(f"${i}", f"%{i}")
    lines = "\n".join(f'    "{line}\\n"' for line in text.strip().splitlines())
    output = "" if ptx.output is None else f'"=&{_letter(ptx.output)}"(output)'
    inputs = ", ".join(f'"{_letter(name)}"({name})' for name in ptx.inputs)
    clobber = "" if ptx.pure else ' : "memory"'
    return f"  asm {'' if ptx.pure else 'volatile'}(\n{lines}\n    : {output} : {inputs}{clobber});"


def _type(register: str) -> str:
    return "u64" if register in ADDRESSES else "u32"


def _letter(register: str) -> str:
    return "l" if register in ADDRESSES else "r"

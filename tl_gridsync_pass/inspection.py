"""Verdicts on compiled kernels: whether a grid barrier in a cubin is affected by the known faults, and why."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from . import sass
from .errors import GridSyncError
from .sass import GridBarrier

_AXES = ("x", "y", "z")

_SECTION = re.compile(r"^\s*\.section\s+(\S+?),")
_ATTRIBUTE = re.compile(r"//-+ nvinfo : (\w+)")
_WORD = re.compile(r"\.word\s+(0x[0-9a-f]+)$")


@dataclass(frozen=True)
class BarrierVerdict:
    """``affected`` is None where the code does not tell; ``reasons`` says what is wrong, and is empty where nothing is."""

    barrier: GridBarrier
    affected: bool | None
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class KernelVerdict:
    """One kernel of a cubin.

    Attributes
    ----------
    name : str
        Its symbol.
    block : tuple[int, int, int] | None
        The threads of a block along x, y and z that it was compiled for; None where the cubin does not fix them.
    barriers : tuple[BarrierVerdict, ...]
        Its grid barriers, in program order.
    """

    name: str
    block: tuple[int, int, int] | None
    barriers: tuple[BarrierVerdict, ...]

    @property
    def affected(self) -> bool | None:
        """True where any barrier is affected; None where none is but one does not tell."""
        verdicts = {verdict.affected for verdict in self.barriers}
        return True if True in verdicts else None if None in verdicts else False


def inspect_cubin(cubin: Path) -> tuple[KernelVerdict, ...]:
    """The verdict on every kernel of ``cubin``.

    Raises
    ------
    GridSyncError
        Where there is no nvdisasm, or it cannot read the file.
    """
    blocks = block_shapes(_disassembled_whole(cubin))
    return tuple(
        KernelVerdict(kernel.name, blocks.get(kernel.name), tuple(judge(barrier, blocks.get(kernel.name)) for barrier in kernel.barriers))
        for kernel in sass.kernels_in(cubin)
    )


def judge(barrier: GridBarrier, block: tuple[int, int, int] | None) -> BarrierVerdict:
    """The verdict on one barrier of a kernel whose blocks have the shape ``block``, None where it is not known."""
    test = " and ".join(f"tid.{axis}" for axis in barrier.leader_axes) or "nothing"
    wrong, unknown = [], []
    if block is not None:
        leaders = 1
        for axis, extent in zip(_AXES, block, strict=True):
            leaders *= 1 if axis in barrier.leader_axes else extent
        if leaders > 1:
            wrong.append(f"{leaders} threads of each block of {block} act as leader, since the leader test reads {test}: it opens early")
    elif set(barrier.leader_axes) != set(_AXES):
        unknown.append(f"the leader test reads {test}, and the cubin does not say whether the block has other axes")
    if barrier.counter == "module":
        wrong.append("arrivals are counted in a global variable of the module, which launches that overlap (streams, graph branches) share")
    elif barrier.counter == "other":
        unknown.append("where it counts arrivals cannot be told, so whether launches that overlap share it cannot either")
    return BarrierVerdict(barrier, True if wrong else None if unknown else False, (*wrong, *unknown))


def block_shapes(listing: str) -> dict[str, tuple[int, int, int]]:
    """The block shape that each kernel was compiled for (EIATTR_REQNTID), from a listing of all sections."""
    shapes: dict[str, tuple[int, int, int]] = {}
    words: list[int] = []
    section, attribute = "", ""
    for line in listing.splitlines():
        if found := _SECTION.match(line):
            section, attribute = found[1], ""
        elif found := _ATTRIBUTE.search(line):
            attribute, words = found[1], []
        elif attribute == "EIATTR_REQNTID" and (found := _WORD.search(line)):
            words.append(int(found[1], 16))
            if len(words) == 3:
                shapes[section.removeprefix(".nv.info.")] = (words[0], words[1], words[2])
    return shapes


def _disassembled_whole(cubin: Path) -> str:
    tool = sass.nvdisasm()
    done = subprocess.run([str(tool), str(cubin)], capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise GridSyncError(f"tl_gridsync: {tool} cannot read {cubin}: {done.stderr.strip() or f'exit status {done.returncode}'}")
    return done.stdout

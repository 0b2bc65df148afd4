"""What ``kernel.get_kernel_source()`` shows: a leader guard that a reader can check."""

from __future__ import annotations

import pytest
from kernels import LAYOUTS, handoff, layout_id, stages, two_kernels

IMPORT = "from tl_gridsync_pass import device as tl_gridsync\n"

GUARDS = {
    32: "if threadIdx.x == 0:",
    (32, 2): "if (threadIdx.x == 0) and (threadIdx.y == 0):",
    (32, 1, 2): "if (threadIdx.x == 0) and (threadIdx.z == 0):",
    (16, 2, 2): "if ((threadIdx.x == 0) and (threadIdx.y == 0)) and (threadIdx.z == 0):",
}


def lines_of(source: str) -> list[str]:
    return [line.strip() for line in source.splitlines()]


@pytest.mark.parametrize("state", ["launch", "module"])
@pytest.mark.parametrize("threads", LAYOUTS, ids=layout_id)
def test_the_barrier_is_guarded_by_the_axes_of_the_block(compiled, threads, state):
    source = compiled(handoff, threads, state=state).source
    lines = lines_of(source)
    at = lines.index(f'tl_gridsync.arrive_and_wait("{state}", 2)')
    assert lines[at - 2 : at] == ["tl.sync_threads()", GUARDS[threads]]
    assert lines[at + 1] == "tl.sync_threads()"
    assert source.count("arrive_and_wait") == 1
    assert "sync_grid()" not in source
    assert source.startswith(IMPORT) and source.count(IMPORT) == 1


def test_the_call_stands_inside_the_guard_and_the_block_barriers_outside(compiled):
    lines = compiled(handoff, (16, 2, 2)).source.splitlines()
    at = next(i for i, line in enumerate(lines) if "arrive_and_wait" in line)
    indents = [len(line) - len(line.lstrip()) for line in lines[at - 2 : at + 2]]
    assert indents[0] == indents[1] == indents[3] < indents[2]


def test_stock_source_is_tilelangs_own(compiled):
    source = compiled(handoff, (32, 2), state=None).source
    assert lines_of(source).count("tl.sync_grid()") == 1
    assert "tl_gridsync" not in source


def test_barriers_in_loops_are_all_rewritten(compiled):
    lines = lines_of(compiled(stages).source)
    assert lines.count('tl_gridsync.arrive_and_wait("launch", 4)') == 4
    assert lines.count("tl.sync_threads()") == 8
    assert "tl.sync_grid()" not in lines


def test_each_kernel_of_a_module_has_the_guard_of_its_own_block(compiled):
    first, second = compiled(two_kernels).source.split("@cute.kernel")[1:]
    assert [line for line in lines_of(first) if line.startswith("if ")] == [GUARDS[(32, 2)]]
    assert [line for line in lines_of(second) if line.startswith("if ")] == [GUARDS[(32, 1, 2)]] * 2

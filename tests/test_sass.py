"""The SASS reader, on listings written by hand: what it must find, and what it must not take for a barrier."""

from __future__ import annotations

import pytest

import tl_gridsync_pass as gs
from tl_gridsync_pass import sass

BARRIER = """
 S2R R0, SR_TID.X
 S2R R3, SR_TID.Y
 S2R R5, SR_TID.Z
 LOP3.LUT R2, R0, R3, RZ, 0xfc, !PT
 {test}
 BAR.SYNC.DEFER_BLOCKING 0x0
 {everyone}
 {branch}
 ULDC UR5, c[0x0][0x48]
 ULDC UR4, c[0x0][0x44]
 IMAD.U32 R16, RZ, RZ, UR5
 IMAD.U32 R17, RZ, RZ, UR4
 MEMBAR.ALL.GPU
 ATOMG.E.ADD.STRONG.GPU PT, R7, desc[UR36][R16.64+0x4], R9
.L_poll:
 LDG.E.STRONG.GPU R4, desc[UR36][R16.64+0x4]
 ISETP.NE.AND P2, PT, R4, R7, PT
 @!P2 BRA `(.L_poll)
 CCTL.IVALL
.L_out:
 BAR.SYNC.DEFER_BLOCKING 0x0
 {after}
 EXIT
"""
X_ALONE = "ISETP.NE.AND P0, PT, R0, RZ, PT"
X_AND_Y = "ISETP.NE.U32.AND P0, PT, R2, RZ, PT"
LEAVE = "@P0 BRA `(.L_out)"


def listing(*bodies: str) -> str:
    """nvdisasm's format for kernels with these instructions, one a line."""
    text = []
    for number, body in enumerate(bodies):
        text.append(f".text.kernel_{number}:")
        address = 0
        for line in filter(None, (line.strip() for line in body.splitlines())):
            if line.startswith(".L"):
                text.append(line)
            else:
                text.append(f"        /*{address:04x}*/                   {line} ;")
                address += 16
    return "\n".join(text)


def barrier(test=X_ALONE, branch=LEAVE, everyone="", after="") -> str:
    return BARRIER.format(test=test, branch=branch, everyone=everyone, after=after)


def only_barrier(body: str) -> sass.GridBarrier:
    (kernel,) = sass.parse(listing(body))
    (found,) = kernel.barriers
    return found


@pytest.mark.parametrize(
    ("test", "axes"),
    [
        (X_ALONE, ("x",)),
        (X_AND_Y, ("x", "y")),
        ("LOP3.LUT P0, RZ, R2, RZ, R5, 0xfa, !PT", ("x", "y", "z")),
        ("ISETP.NE.AND P0, PT, R5, RZ, PT", ("z",)),
        ("S2R R9, SR_LANEID\n ISETP.NE.AND P0, PT, R9, RZ, PT", ()),
        # Through a general register and back, as ptxas does across a call.
        ("ISETP.NE.AND P1, PT, R3, RZ, PT\n P2R R19, PR, RZ, 0x2\n ISETP.NE.AND P0, PT, R19, RZ, PT", ("y",)),
        # The second half of a 64-bit result hides what its register held before.
        ("S2R R11, SR_TID.Z\n LDC.64 R10, c[0x0][0x210]\n ISETP.NE.AND P0, PT, R11, RZ, PT", ()),
        # A result under a predicate adds to what was there, and brings the predicate's own sources.
        ("ISETP.NE.AND P1, PT, R3, RZ, PT\n MOV R8, R5\n @P1 MOV R8, R0\n ISETP.NE.AND P0, PT, R8, RZ, PT", ("x", "y", "z")),
    ],
)
def test_follows_the_leader_test_back_to_the_thread_indices(test, axes):
    assert only_barrier(barrier(test=test)).leader_axes == axes


def test_sees_a_leader_test_made_by_predication_alone():
    body = barrier(branch="").replace("ATOMG", "@!P0 ATOMG").replace("MEMBAR.ALL.GPU", "@!P0 MEMBAR.ALL.GPU")
    found = only_barrier(body)
    assert found.leader_axes == ("x",)
    assert found.leader_fences == ("MEMBAR.ALL.GPU",) and found.block_fences == ("CCTL.IVALL",)


def test_takes_a_definition_from_every_path():
    """One way round leaves x in the register, the other puts z there."""
    test = "ISETP.NE.AND P3, PT, R9, RZ, PT\n MOV R8, R0\n @P3 BRA `(.L_join)\n MOV R8, R5\n .L_join:\n ISETP.NE.AND P0, PT, R8, RZ, PT"
    assert only_barrier(barrier(test=test)).leader_axes == ("x", "z")


def test_tells_the_leaders_fences_from_everyones():
    found = only_barrier(barrier(everyone="MEMBAR.SC.GPU\n CCTL.IVALL", after="MEMBAR.SC.GPU\n CCTL.IVALL\n BAR.SYNC.DEFER_BLOCKING 0x0"))
    assert found.leader_fences == ("MEMBAR.ALL.GPU", "CCTL.IVALL")
    assert found.block_fences == ("MEMBAR.SC.GPU", "CCTL.IVALL", "MEMBAR.SC.GPU", "CCTL.IVALL")
    assert found.block_barriers == 3


def test_does_not_count_a_fence_of_the_kernel_after_the_barrier():
    found = only_barrier(barrier(after="LDG.E R4, desc[UR36][R2.64]\n MEMBAR.SC.GPU\n BAR.SYNC.DEFER_BLOCKING 0x0"))
    assert found.block_fences == () and found.block_barriers == 2


def test_names_the_words_that_are_counted_in():
    assert only_barrier(barrier()).counter == "workspace"
    module = barrier().replace("IMAD.U32 R16, RZ, RZ, UR5", "LDC.64 R16, c[0x4][0x10]").replace("IMAD.U32 R17, RZ, RZ, UR4", "NOP")
    assert only_barrier(module).counter == "module"
    assert only_barrier(module.replace("c[0x4][0x10]", "c[0x0][0x210]")).counter == "other"


def test_sees_a_test_of_the_workspaces_address():
    test = "ISETP.NE.U32.AND P3, PT, RZ, {}, PT\n ISETP.NE.U32.AND.EX P3, PT, RZ, {}, PT, P3\n " + X_ALONE
    branch = LEAVE + "\n @!P3 BRA `(.L_out)"
    assert only_barrier(barrier(test.format("c[0x0][0x48]", "c[0x0][0x44]"), branch)).checks_workspace
    assert not only_barrier(barrier(test.format("c[0x0][0x48]", "c[0x0][0x210]"), branch)).checks_workspace
    assert not only_barrier(barrier()).checks_workspace


def test_sees_a_trap_on_the_way_to_the_arrival():
    assert not only_barrier(barrier()).traps
    assert only_barrier(barrier(branch=LEAVE + "\n @P4 BRA `(.L_fine)\n BPT.TRAP 0x1\n .L_fine:")).traps


@pytest.mark.parametrize(
    "body",
    [
        "BAR.SYNC.DEFER_BLOCKING 0x0\n EXIT",
        barrier().replace("@!P2 BRA `(.L_poll)", "NOP"),
        barrier().replace("ATOMG.E.ADD.STRONG.GPU", "ATOMS.ADD"),
        barrier().replace("LDG.E.STRONG.GPU", "LDG.E"),
        barrier().replace(".L_poll:", "BAR.SYNC.DEFER_BLOCKING 0x0\n .L_poll:"),
    ],
    ids=["block barrier", "no poll loop", "shared-memory atomic", "weak load", "atomic and poll in different stretches"],
)
def test_other_code_is_no_grid_barrier(body):
    (kernel,) = sass.parse(listing(body))
    assert kernel.barriers == ()


def test_several_kernels_and_barriers_keep_their_order():
    twice = barrier().replace("EXIT", "") + barrier(test=X_AND_Y).replace(".L_", ".L_second_")
    first, second = sass.parse(listing(barrier(), twice))
    assert (first.name, second.name) == ("kernel_0", "kernel_1")
    assert [b.leader_axes for b in first.barriers] == [("x",)]
    assert [b.leader_axes for b in second.barriers] == [("x",), ("x", "y")]
    assert second.barriers[0].address < second.barriers[1].address


def test_no_disassembler_is_an_error_that_says_what_to_install(monkeypatch):
    monkeypatch.setattr(sass.metadata, "files", lambda name: None)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(gs.GridSyncError, match="pip install nvidia-cuda-nvdisasm"):
        sass.nvdisasm()


def test_the_disassembler_on_path_serves_where_the_package_is_missing(monkeypatch, tmp_path):
    def missing(name):
        raise sass.metadata.PackageNotFoundError(name)

    tool = tmp_path / "nvdisasm"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    monkeypatch.setattr(sass.metadata, "files", missing)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert sass.nvdisasm() == tool


def test_a_file_that_is_no_cubin_is_an_error_that_names_it(tmp_path):
    file = tmp_path / "no.cubin"
    file.write_text("no cubin")
    with pytest.raises(gs.GridSyncError, match=r"cannot read .*no\.cubin"):
        sass.kernels_in(file)

"""One line per compiled kernel, at INFO, for those who switch it on."""

from __future__ import annotations

import logging
import os
import subprocess
import sys

import kernels

import tl_gridsync_pass as gs

PROGRAM = """
import logging, sys
{setup}
import kernels, tl_gridsync_pass as gs
kernels.compile_handoff((32, 2), [gs.GridSyncPass(state="module")])
"""


# Kernels that no earlier run left in the cache, since a kernel from the cache is not compiled.
FRESH = 30000 + os.getpid()


def lower(caplog, delay, **options):
    with caplog.at_level(logging.INFO, logger="tl_gridsync_pass"):
        kernels.compile_handoff((32, 2), [gs.GridSyncPass(**options)], delay=delay)
    return [record for record in caplog.records if record.name == "tl_gridsync_pass"]


def test_one_line_with_kernel_count_and_state(caplog):
    (record,) = lower(caplog, FRESH, state="module")
    assert record.levelno == logging.INFO
    message = record.getMessage()
    assert "handoff_kernel" in message and "1 grid barrier lowered" in message and "state=module" in message


def test_no_line_for_a_kernel_from_the_cache(caplog):
    assert len(lower(caplog, FRESH + 1)) == 1
    caplog.clear()
    assert lower(caplog, FRESH + 1) == []


def compile_in_process(setup: str, cache: str) -> str:
    env = {**os.environ, "PYTHONPATH": str(kernels.__file__).rpartition("/")[0], "TILELANG_CACHE_DIR": cache}
    program = PROGRAM.format(setup=setup)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=240, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_silent_by_default(tmp_path):
    assert "grid barrier" not in compile_in_process("", str(tmp_path))


def test_switched_on_with_standard_logging(tmp_path):
    printed = compile_in_process("logging.basicConfig(level=logging.INFO)", str(tmp_path))
    assert printed.count("INFO:tl_gridsync_pass:kernel handoff_kernel: 1 grid barrier lowered, state=module") == 1

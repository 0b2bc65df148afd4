"""Kernels of TileLang's own examples and tests, and of tile-kernels, are not refused.

They are not part of this repository. TL_GRIDSYNC_TILELANG_SOURCE names a checkout of TileLang, and
TL_GRIDSYNC_TILE_KERNELS the unpacked tile-kernels 1.0.0 wheel; without them these tests are skipped, and
the catalogue's kernels of the same shape stand in.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from tl_gridsync_pass.cli.check import command

TILELANG = os.environ.get("TL_GRIDSYNC_TILELANG_SOURCE")
TILE_KERNELS = os.environ.get("TL_GRIDSYNC_TILE_KERNELS")
needs_tilelang = pytest.mark.skipif(TILELANG is None, reason="TL_GRIDSYNC_TILELANG_SOURCE names no checkout of TileLang")
needs_tile_kernels = pytest.mark.skipif(TILE_KERNELS is None, reason="TL_GRIDSYNC_TILE_KERNELS names no unpacked tile-kernels wheel")


def check(tmp_path: Path, source: Path, replacements: dict[str, str], *arguments: str):
    """Run the command on a copy whose needs for a GPU or for other packages are replaced."""
    text = source.read_text()
    for pattern, replacement in replacements.items():
        text, count = re.subn(pattern, replacement, text, flags=re.MULTILINE)
        assert count, f"{source} does not hold {pattern!r}"
    copy = tmp_path / source.name
    copy.write_text(text)
    return CliRunner().invoke(command, [str(copy), *arguments])


def assert_clean(result) -> None:
    assert result.exit_code == 0, result.output
    assert "1 kernel checked: 0 errors, 0 warnings, 0 hints" in result.output


@needs_tilelang
def test_tilelangs_test_of_cooperative_launches(tmp_path):
    source = Path(TILELANG) / "testing/python/language/test_tilelang_language_cooperative.py"
    assert_clean(check(tmp_path, source, {}))


@needs_tilelang
def test_tilelangs_persistent_decoding_example(tmp_path):
    source = Path(TILELANG) / "examples/deepseek_mla/example_mla_decode_persistent.py"
    replacements = {r"driver\.get_num_sms\(\)": "132", r"^from einops.*$": ""}
    assert_clean(check(tmp_path, source, replacements, "--kernel", "flashattn(128, 128, 1, 8192, 512, 64, 64, 64, 2)"))


@needs_tile_kernels
def test_tile_kernels_fused_mapping(tmp_path):
    source = Path(TILE_KERNELS) / "tile_kernels/moe/get_fused_mapping_kernel.py"
    replacements = {r"^from tile_kernels\.config.*$": "", r"^from tile_kernels\.utils.*$": "def align(x, y): return T.ceildiv(x, y) * y"}
    assert_clean(check(tmp_path, source, replacements, "--kernel", "get_get_fused_mapping_kernel(256, 8, 64, 132)"))

"""Every block of code in the documentation runs, and the site builds.

A comment above a block says how it is held to account where it isn't simply run::

    <!-- test: gpu -->                          python; runs on a GPU, elsewhere it is only compiled
    <!-- test: file NAME -->                    python; becomes the file NAME of the page's folder, and runs
    <!-- test: own process -->                  python; runs in a process of its own
    <!-- test: raises ERROR -->                 python; must raise it
    <!-- test: generated with threads=... -->   must stand in the source generated for such a kernel
    <!-- test: kernel VERDICT -->               python; part of a kernel, for which the verification says VERDICT
    <!-- test: output -->                       text; what the block before printed, with ... for what may differ
    <!-- test: figure -->                       text; no code
    <!-- test: exits STATUS WHY -->             bash; runs and exits with that status
    <!-- test: not run: WHY -->                 bash; its programs, files and targets must exist

Python blocks of a page share one namespace, in their order; bash blocks run in the page's folder.
"""

import ast
import contextlib
import doctest
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import tilelang
from kernels import CUTEDSL, handoff
from markdown_it import MarkdownIt
from sybil import Document
from sybil.parsers.markdown.lexers import RawFencedCodeBlockLexer

import tl_gridsync_pass as gs
from tl_gridsync_pass.seams.device_ir import device_module
from tl_gridsync_pass.seams.tilelang_compat import device_source_of
from tl_gridsync_pass.verify import find

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "tl_gridsync_pass" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCES = RawFencedCodeBlockLexer(re.compile(r"(?P<language>\w*)[ \t]*\n"))
MARK = re.compile(r"<!-- test: (?P<mark>[^\n]*?) -->\s*\Z")
TRAIN = """\
import tilelang
from kernels import handoff

tilelang.compile(handoff, target="cutedsl")
"""
# What the parts of kernels on the pages may name.
KERNEL = """\
import tilelang.language as T

@T.prim_func
def kernel(
    values: T.Tensor((64,), "int32"), out: T.Tensor((64,), "int32"), error: T.Tensor((64,), "int32"),
    worst: T.Tensor((1,), "int32"), flag: T.Tensor((1,), "int32"), limit: T.int32, n: T.int32,
):
    with T.Kernel(4, threads=128) as bx:
        tx = T.get_thread_binding()
"""


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    language: str
    mark: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@dataclass
class Session:
    """What the blocks of one page have left behind so far."""

    folder: Path
    names: dict[str, Any] = field(default_factory=lambda: {"func": handoff(), "__name__": "__docs__"})
    done: int = 0
    printed: dict[int, str] = field(default_factory=dict)


@cache
def blocks_of(page: Path) -> tuple[Block, ...]:
    document = Document(page.read_text(), str(page))
    found = []
    for region in FENCES(document):
        mark = MARK.search(document.text[: region.start])
        text = textwrap.dedent(str(region.lexemes["source"]))
        line = document.text.count("\n", 0, region.start) + 1
        found.append(Block(page, line, region.lexemes["language"], mark["mark"] if mark else "", text))
    return tuple(found)


BLOCKS = [block for page in PAGES for block in blocks_of(page)]


@pytest.fixture(scope="module")
def sessions(tmp_path_factory) -> Iterator[dict[Path, Session]]:
    made: dict[Path, Session] = {}
    for page in PAGES:
        folder = tmp_path_factory.mktemp(page.stem)
        guide = next(block for block in blocks_of(ROOT / "docs" / "guide.md") if block.mark == "file kernels.py")
        (folder / "kernels.py").write_text(guide.text)
        (folder / "train.py").write_text(TRAIN)
        made[page] = Session(folder)
    yield made
    sys.modules.pop("jitted", None)


@pytest.mark.parametrize(
    "block", [pytest.param(block, id=str(block), marks=[pytest.mark.gpu] if block.mark == "gpu" else []) for block in BLOCKS]
)
def test_block(block, sessions, monkeypatch):
    session = sessions[block.page]
    kernels_of_the_page(session, monkeypatch)
    blocks = blocks_of(block.page)
    index = blocks.index(block)
    # Those before it that this run has left out.
    for before in range(session.done, index):
        alone = ("kernel", "own process", "generated") if block.mark == "gpu" else ("kernel", "own process", "generated", "gpu")
        if blocks[before].language == "python" and not blocks[before].mark.startswith(alone):
            session.printed[before] = run(blocks[before], session, "")
    printed_before = session.printed.get(index - 1, "")
    session.printed[index] = run(block, session, printed_before)
    session.done = max(session.done, index + 1)


@pytest.mark.parametrize("block", [pytest.param(block, id=str(block)) for block in BLOCKS if block.mark == "gpu"])
def test_gpu_block_compiles(block):
    ast.parse(block.text, str(block))


def kernels_of_the_page(session: Session, monkeypatch) -> None:
    """Let ``from kernels import ...`` on a page mean the user guide's file and not the tests' own module."""
    monkeypatch.syspath_prepend(str(session.folder))
    monkeypatch.delitem(sys.modules, "kernels", raising=False)
    monkeypatch.chdir(session.folder)


def run(block: Block, session: Session, printed_before: str) -> str:
    """Hold one block to account; returns what it printed."""
    how, _, what = block.mark.partition(" ")
    if block.language == "python":
        if how in ("", "gpu", "file", "raises"):
            return run_python(block, session, how, what)
        if block.mark == "own process":
            return run_bash(f"{shlex.quote(sys.executable)} -c {shlex.quote(block.text)}", session, 0)
        if how == "generated":
            return check_generated(block, what)
        if how == "kernel":
            return check_part_of_kernel(block, session, what)
    if block.language == "bash":
        if block.mark.startswith("not run: "):
            return check_commands(block)
        if how in ("", "exits"):
            status = int(what.split()[0]) if what else 0
            return "".join(run_bash(line, session, status) for line in commands(block))
    if block.language == "text":
        if how == "output":
            checker = doctest.OutputChecker()
            flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
            assert checker.check_output(block.text, printed_before, flags), f"{block}: it printed\n{printed_before}"
            return ""
        if how == "figure":
            return ""
    pytest.fail(f"{block}: a block of {block.language or 'no language'!r} with the mark {block.mark!r} is checked by nothing")


def run_python(block: Block, session: Session, how: str, what: str) -> str:
    code = compile("\n" * block.line + block.text, str(block.page), "exec")
    out = io.StringIO()
    if how == "file":
        (session.folder / what).write_text(block.text)
        name = what.removesuffix(".py")
        sys.modules.pop(name, None)
        __import__(name)
        return ""
    with contextlib.redirect_stdout(out):
        if how == "raises":
            with pytest.raises(getattr(gs, what)) as caught:
                exec(code, session.names)
            out.write(str(caught.value))
        else:
            exec(code, session.names)
    return out.getvalue()


def check_generated(block: Block, what: str) -> str:
    threads = ast.literal_eval(what.removeprefix("with threads="))
    kernel = tilelang.compile(handoff(threads), target=CUTEDSL, execution_backend="cutedsl", passes=[gs.GridSyncPass()])
    assert textwrap.indent(block.text, "  ") in device_source_of(kernel)
    return ""


def check_part_of_kernel(block: Block, session: Session, verdict: str) -> str:
    file = session.folder / f"part_{block.line}.py"
    file.write_text(KERNEL + textwrap.indent(block.text, " " * 8))
    names: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), names)
    found = find(device_module(names["kernel"], CUTEDSL))
    assert sorted({d.rule.name for d in found}) == ([] if verdict == "accepted" else [verdict])
    return ""


@cache
def _command(command: str, folder: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        command,
        shell=True,
        executable="/bin/bash",
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=300,
    )


def run_bash(command: str, session: Session, status: int) -> str:
    made = _command(command, str(session.folder))
    assert made.returncode == status, made.stdout + made.stderr
    return made.stdout


def commands(block: Block) -> list[str]:
    return [line for line in block.text.splitlines() if line.strip() and not line.startswith("#")]


def check_commands(block: Block) -> str:
    """That what the commands of a block name is there: programs, scripts, modules, make targets, subcommands, extras."""
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for command in commands(block):
        words = [word for word in shlex.split(command, comments=True) if not re.match(r"[A-Z_]+=", word)]
        program, *arguments = words
        if program == "make":
            assert set(arguments) <= set(targets), command
        elif program == "python" and arguments[0] == "-m":
            package = arguments[1].split(".")
            assert (ROOT / Path(*package)).is_dir() or (ROOT / Path(*package)).with_suffix(".py").is_file(), command
        elif program == "python":
            assert (ROOT / arguments[0]).is_file(), command
        elif program == "tl-gridsync":
            from tl_gridsync_pass.cli.main import SUBCOMMANDS

            assert arguments[0] in SUBCOMMANDS, command
        elif program == "pip" and arguments[0] == "install":
            extras = re.findall(r"\[(\w+)\]", arguments[1])
            assert extras, command
            assert all(re.search(rf"^{extra} = \[", (ROOT / "pyproject.toml").read_text(), re.MULTILINE) for extra in extras), command
        elif program == "pip" and arguments[0] == "uninstall":
            assert arguments[1:] == ["tl_gridsync_pass"], command
        else:
            pytest.fail(f"{block}: nothing checks the command {command!r}")
    return ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_block_escapes(page):
    """By another parser: as many fenced blocks as are tested, and no indented ones."""
    tokens = MarkdownIt().parse(page.read_text())
    assert [token.content for token in tokens if token.type == "code_block"] == []
    assert len([token for token in tokens if token.type == "fence"]) == len(blocks_of(page))


def test_the_timeline_is_what_its_script_draws(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import timeline

    assert timeline.FILE.read_text() == timeline.drawing()


def test_the_headline_table_shows_medians_and_the_fastest(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import docs_tables

    row = {"blocks": 2, "threads": [32, 2], "dirty": False, "static": True}
    data = {"rows": [{**row, "barrier": "pass", "ns": [9.0, 5.0, 6.0]}, {**row, "barrier": "stock", "ns": [8.0, 8.0, 1.0]}]}
    assert docs_tables.headline_table(data).splitlines() == [
        "| blocks × threads | stores before it | pass | stock |",
        "| --- | --- | ---: | ---: |",
        "| 2 × (32, 2) | none | **6** | 8 |",
    ]


def test_the_table_of_real_kernels_says_what_each_run_found(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import docs_tables

    def run(outcome, printed="", seconds=7.0):
        return {"outcome": outcome, "seconds": seconds, "printed": printed}

    errors = "AssertionError: earlier\ncutlass.base_dsl.common.DSLRuntimeError: no such function\n  more\n"
    suite = "9 failed in 0.10s\n2 failed, 39 passed, 1 error, 7 deselected in 12.30s\n"
    runs = {
        "a time": (run("right", "launch: 1.0 us\nlaunch: 12.4 us\n"), run("right", "Latency: 0.058 ms\nTFlops: 39\n")),
        "no time": (run("failed", "AssertionError: Tensor-likes are not close!\n"), run("right", "compiled\n")),
        "no result": (run("failed", errors), run("timed out", "launch: 5 us\n", 45.0)),
        "tests": (run("failed", suite), run("right", "3 passed in 4.00s\n")),
    }
    kernels = [{"name": name, "source": "a/b 123", "runs": {"stock": [s], "with the pass": [p, p]}} for name, (s, p) in runs.items()]
    assert docs_tables.real_kernels_table(kernels).splitlines() == [
        "| kernel | from | stock | with the pass |",
        "| --- | --- | --- | --- |",
        "| a time | a/b 123 | right, 12 µs a launch | right, 58 µs a launch |",
        "| no time | a/b 123 | **wrong** | right |",
        "| no result | a/b 123 | fails: `DSLRuntimeError` | no end within 45 s |",
        "| tests | a/b 123 | 39 of 42 tests pass | 3 of 3 tests pass |",
    ]


def test_the_compile_cost_table_shows_medians_of_the_rounds_after_the_first(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import docs_tables

    times = {"compile": 2.0, "without nvcc": 0.1, "verification": 0.002, "pass": 0.001, "plugin": 0.004}
    first = {"kernel": "k", "form": "plugin", "round": 0, **times, "plugin": 1.0}
    later = [{"kernel": "k", "form": "plugin", "round": i, **times, "compile": whole} for i, whole in ((1, 1.0), (2, 2.0), (3, 4.0))]
    stock = {"kernel": "k", "form": "stock", "round": 1, "compile": 9.0, "without nvcc": 9.0}
    table = docs_tables.compile_cost_table({"rows": [first, stock, *later]})
    assert table.splitlines()[2:] == ["| k | 2000 | 100 | 2.0 | 1.0 | 4.0 | 0.20% | 4.00% |"]


def test_the_site_builds_without_a_warning(tmp_path):
    assert shutil.which("mkdocs", path=str(Path(sys.executable).parent)), "install the extra docs"
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(tmp_path), "--config-file", str(ROOT / "mkdocs.yml")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tools")}
    made = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    # Not with --quiet, which hides the warnings from --strict as well.
    assert made.returncode == 0, made.stderr
    pages = {page.stem for page in PAGES if page.parent == ROOT / "docs"}
    assert pages <= {file.stem for file in tmp_path.glob("*.html")}
    assert "max_coresident_blocks" in (tmp_path / "api.html").read_text()
    assert ":class:" not in (tmp_path / "api.html").read_text()
    assert "insert:" not in (tmp_path / "benchmarks.html").read_text()
    assert "insert:" not in (tmp_path / "versions.html").read_text()

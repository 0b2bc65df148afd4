"""`demo`: the two-block handoff, TileLang's own barrier beside the pass's."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from dataclasses import asdict
from typing import Any

import click

from .output import console, json_option, print_json, reported_errors, require_attached


@click.command(name="demo")
@json_option
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """Run two blocks that hand each other a number, without the pass and with it.

    With a GPU the kernels run, and it shows what the blocks read; without one they are compiled for sm_90a,
    and it shows the machine code of the barrier. Exit status 0 when the pass did what it promises.
    """
    require_attached()
    from .. import demo

    with reported_errors():
        if not as_json:
            context.exit(demo.main(console()))
        # TileLang logs to standard output.
        with redirect_stdout(sys.stderr):
            report, right = _report()
    print_json(report)
    context.exit(0 if right else 1)


def _report() -> tuple[dict[str, Any], bool]:
    """What the demo measured or compiled, and whether the pass did what it promises."""
    import torch

    from .. import demo
    from ..inspection import judge

    if torch.cuda.is_available():
        results = demo.run_on_gpu()
        right = all(result.lowered == [demo.RIGHT] * demo.CALLS for result in results)
        ran = {"ran_on": torch.cuda.get_device_name(), "expected": demo.RIGHT, "layouts": [asdict(result) for result in results]}
        return {**ran, "right": right}, right
    codes = demo.compile_offline()
    right = all(judge(code.lowered, _block(code.threads)).affected is False for code in codes)
    return {"ran_on": None, "compiled_for": "sm_90a", "layouts": [asdict(code) for code in codes], "right": right}, right


def _block(threads: int | tuple[int, ...]) -> tuple[int, int, int]:
    x, y, z = (*((threads,) if isinstance(threads, int) else threads), 1, 1)[:3]
    return x, y, z

"""``tl-gridsync check``: verifies the kernels of a file without compiling them."""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import click

import tl_gridsync_pass

from ..options import PREFIX
from ..seams.device_ir import device_module
from ..seams.kernel_files import FileKernel, SkippedKernel, kernels_of
from ..seams.target import cutedsl_target
from ..tvm_compat import tvm
from ..verify import Diagnostic, Severity, find
from ..verify.report import to_json, to_sarif
from ..warp_specialized import rejoin
from .output import reported_errors


@click.command("check")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--kernel",
    "calls",
    multiple=True,
    metavar="'NAME(ARGS)'",
    help="Check what this call gives, instead of every kernel of the file. May be repeated.",
)
@click.option("--arch", default="sm_90a", show_default=True, help="The GPU architecture to lower for.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
@click.option("--sarif", "as_sarif", is_flag=True, help="Print a SARIF 2.1.0 log instead of text.")
@click.option("--strict", is_flag=True, help="Fail for warnings, and for kernels that could not be checked.")
def command(file: Path, calls: tuple[str, ...], arch: str, as_json: bool, as_sarif: bool, strict: bool) -> None:
    """Say which grid barriers of FILE's kernels hang, without compiling or running a kernel.

    FILE is imported, so what stands at its top level runs. The exit status is 1 where a kernel has an error,
    and 2 where no kernel could be checked.
    """
    if as_json and as_sarif:
        raise click.UsageError("give --json or --sarif, not both")
    path = file.resolve()
    # TileLang logs to standard output, and the file may print.
    with reported_errors(), redirect_stdout(sys.stderr):
        kernels, skipped = kernels_of(path, calls=calls)
        checked, not_lowered = _checked(kernels, cutedsl_target(arch))
    skipped += not_lowered

    diagnostics = [d for _, found in checked for d in found]
    if as_sarif:
        click.echo(json.dumps(to_sarif(diagnostics, tl_gridsync_pass.__version__, Path.cwd()), indent=2))
    elif as_json:
        click.echo(json.dumps(_json(path, checked, skipped), indent=2))
    else:
        _print(checked)
    if not as_json:
        for kernel in skipped:
            click.echo(f"not checked: {kernel.name}: {_reason(kernel)}", err=True)
    sys.exit(_status(diagnostics, checked, skipped, strict, file))


def _checked(kernels: list[FileKernel], target: tvm.target.Target) -> tuple[list[tuple[FileKernel, list[Diagnostic]]], list[SkippedKernel]]:
    checked, skipped = [], []
    for kernel in kernels:
        configs = {key: value for key, value in kernel.pass_configs.items() if not str(key).startswith(PREFIX)}
        try:
            checked.append((kernel, find(rejoin(device_module(kernel.func, target, configs)))))
        except Exception as error:
            skipped.append(SkippedKernel(kernel.name, f"lowering it failed: {type(error).__name__}: {error}"))
    return checked, skipped


def _reason(kernel: SkippedKernel) -> str:
    return f"{kernel.reason}; give them as --kernel '{kernel.name}(...)'" if kernel.missing else kernel.reason


def _status(diagnostics, checked, skipped, strict: bool, file: Path) -> int:
    if not checked:
        reason = "none of its kernels could be" if skipped else "it has no TileLang kernel at its top level; name one with --kernel"
        click.echo(f"{file}: nothing was checked: {reason}", err=True)
        return 2
    failing = {Severity.ERROR, Severity.WARNING} if strict else {Severity.ERROR}
    return int(any(d.severity in failing for d in diagnostics) or (strict and bool(skipped)))


def _print(checked: list[tuple[FileKernel, list[Diagnostic]]]) -> None:
    colours = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.HINT: "cyan"}
    for _, found in checked:
        for diagnostic in found:
            head, _, rest = str(diagnostic).partition("\n")
            click.echo(f"{click.style(head, fg=colours[diagnostic.severity], bold=True)}\n{rest}\n")
    counts = {severity: sum(d.severity == severity for _, found in checked for d in found) for severity in Severity}
    totals = ", ".join(f"{n} {severity.value}{'' if n == 1 else 's'}" for severity, n in counts.items())
    click.echo(f"{len(checked)} kernel{'' if len(checked) == 1 else 's'} checked: {totals}")


def _json(path: Path, checked, skipped) -> dict[str, Any]:
    return {
        "file": str(path),
        "kernels": [{"name": kernel.name, "findings": [to_json(d) for d in found]} for kernel, found in checked],
        "not_checked": [{"name": kernel.name, "reason": _reason(kernel)} for kernel in skipped],
    }


if __name__ == "__main__":
    command()

"""Stress the barrier on a GPU: ``python stress/run.py --out stress.json``.

Runs the message-passing kernel over grid and block shapes, states, streams and graphs, and says how many
stale reads it saw; then the same with weakened protocols, to see whether this GPU ever shows what they allow.
``barriers`` counts grid barriers (rounds), ``block_barriers`` how often a block passed one.

Exit status 1 where a shipped barrier gave a stale read or did not end.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import nullcontext
from dataclasses import dataclass
from math import prod
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any

import tilelang
import torch
from kernels import REPORT, message_passing
from weakened import WEAKENINGS, weakened

import tl_gridsync_pass as gs
from tl_gridsync_pass.bench.timing import ended_within
from tl_gridsync_pass.seams import offline
from tl_gridsync_pass.seams.target import cutedsl_target

ROUNDS = 20_000
# A launch that has not ended by then hangs.
HANG_S = 60.0


@dataclass(frozen=True)
class Configuration:
    """One way to run the kernel; ``share`` is its part of the time."""

    grid: tuple[int, ...]
    threads: int | tuple[int, ...]
    state: str = "launch"
    mode: str = "one launch"
    share: float = 1.0

    @property
    def name(self) -> str:
        return f"{'x'.join(map(str, self.grid))} blocks of {self.threads}, state {self.state}, {self.mode}"


# Grids for a GPU with 132 multiprocessors; those that this one cannot hold are left out and named.
CONFIGURATIONS = (
    Configuration((2,), (32, 2)),
    Configuration((3,), (16, 2, 2)),
    Configuration((2, 2, 2), (8, 4, 2)),
    Configuration((66,), (32, 4)),
    Configuration((132,), 64, share=4.0),
    Configuration((132,), (32, 8)),
    Configuration((12, 11), (32, 2, 2)),
    Configuration((264,), 256),
    Configuration((132,), 1024),
    Configuration((340,), 64),
    Configuration((528,), (64, 2), share=2.0),
    Configuration((1056,), 128),
    Configuration((132,), 128, state="module"),
    Configuration((528,), (32, 2), state="module"),
    Configuration((60,), (32, 2), mode="two streams", share=2.0),
    Configuration((60,), (16, 2, 2), mode="two branches of a graph", share=2.0),
)
# One for each of the launch protocols: a word, a word with ranks, stripes.
WEAKENED_ON = (Configuration((132,), (32, 8)), Configuration((528,), (64, 2)), Configuration((1056,), (64, 2)))


class Stress:
    """Compiles, launches and counts."""

    def __init__(self, seed: int) -> None:
        self.target = cutedsl_target()
        self.seed = seed

    def compile(self, configuration: Configuration) -> Any:
        """The kernel, down to its cubin."""
        func = message_passing(configuration.grid, configuration.threads, ROUNDS)
        kernel = tilelang.compile(func, target=self.target, execution_backend="cutedsl", passes=[gs.GridSyncPass(configuration.state)])
        offline.cubin_of(kernel)
        return kernel

    def run(self, configuration: Configuration, kernel: Any, seconds: float) -> dict[str, Any]:
        """Launch for about ``seconds``; the counts of what was seen."""
        together = 1 if configuration.mode == "one launch" else 2
        blocks, width = (
            prod(configuration.grid),
            prod(configuration.threads) if isinstance(configuration.threads, tuple) else configuration.threads,
        )
        buffers = [self._buffers(blocks, width) for _ in range(together)]
        launch = self._launcher(configuration, kernel, buffers)
        started, launches, worst = time.perf_counter(), 0, []
        stale = 0
        while launches == 0 or time.perf_counter() - started < seconds:
            for board, report, _, _, seed in buffers:
                board.zero_()
                report.zero_()
                seed.fill_(self.seed)
                self.seed += 1
            torch.cuda.synchronize()
            launch()
            _wait(configuration)
            launches += together
            for _, report, *_ in buffers:
                count, *first = report.tolist()
                if count:
                    stale += count
                    worst = worst or first
        took = time.perf_counter() - started
        result = {
            "name": configuration.name,
            "launches": launches,
            "barriers": launches * ROUNDS,
            "block_barriers": launches * ROUNDS * blocks,
            "reads_checked": launches * ROUNDS * blocks * width * 2,
            "stale_reads": stale,
            "seconds": round(took, 2),
        }
        if worst:
            result["one_stale_read"] = dict(zip(("round", "block", "value"), worst, strict=True))
        return result

    def _buffers(self, blocks: int, width: int) -> tuple[torch.Tensor, ...]:
        shapes = ((2, blocks, width), (REPORT,), (blocks, width), (blocks,), (1,))
        return tuple(torch.zeros(shape, dtype=torch.int32, device="cuda") for shape in shapes)

    def _launcher(self, configuration: Configuration, kernel: Any, buffers: list[tuple[torch.Tensor, ...]]) -> Any:
        if configuration.mode == "one launch":
            return lambda: kernel(*buffers[0])
        streams = [torch.cuda.Stream() for _ in buffers]
        if configuration.mode == "two streams":

            def on_streams() -> None:
                for stream, arguments in zip(streams, buffers, strict=True):
                    kernel(*arguments, stream=stream.cuda_stream)

            return on_streams
        # The first launch loads the module, which a capture cannot.
        kernel(*buffers[0])
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            origin = torch.cuda.current_stream()
            for stream, arguments in zip(streams, buffers, strict=True):
                stream.wait_stream(origin)
                kernel(*arguments, stream=stream.cuda_stream)
            for stream in streams:
                origin.wait_stream(stream)
        return graph.replay


class Hang(RuntimeError):
    """A launch did not end."""


def _wait(configuration: Configuration) -> None:
    if not ended_within(torch.cuda.synchronize, HANG_S):
        raise Hang(f"{configuration.name}: not done after {HANG_S:.0f} s")


@dataclass(frozen=True)
class Job:
    """A configuration to compile and to run for ``seconds``, with one of ``WEAKENINGS`` or as it ships."""

    configuration: Configuration
    seconds: float
    weakening: str | None
    seed: int


_gpu: Any = None


def _start_worker(gpu: Any) -> None:
    global _gpu
    _gpu = gpu
    tilelang.disable_cache()


def _work(job: Job) -> dict[str, Any]:
    """Compile beside the other processes, then run alone on the GPU; what went wrong comes back under ``left_out`` or ``hang``."""
    stress = Stress(job.seed)
    with weakened(job.weakening) if job.weakening else nullcontext():
        kernel = stress.compile(job.configuration)
    with _gpu:
        try:
            return {"weakening": job.weakening, **stress.run(job.configuration, kernel, job.seconds)}
        except Hang as hang:
            return {"hang": f"{job.weakening or 'shipped'}: {hang}"}
        except (RuntimeError, ValueError) as error:
            if "cooperative" not in str(error) and "720" not in str(error):
                raise
            # More blocks than this GPU can hold at once.
            return {"left_out": {"name": job.configuration.name, "why": str(error)[:300]}}


def _jobs(seconds: float, weakened_seconds: float) -> list[Job]:
    shares = sum(c.share for c in CONFIGURATIONS)
    jobs: list[tuple[Configuration, float, str | None]] = [(c, seconds * c.share / shares, None) for c in CONFIGURATIONS]
    if weakened_seconds > 0:
        each = weakened_seconds / (len(WEAKENINGS) * len(WEAKENED_ON))
        jobs += [(c, each, name) for name in WEAKENINGS for c in WEAKENED_ON]
    return [Job(*job, seed=1 + 1_000_000 * number) for number, job in enumerate(jobs)]


def _run(jobs: list[Job], processes: int, report: dict[str, Any]) -> None:
    """Fill ``report``; ends early at a hang, since the GPU then runs nothing else."""
    context = get_context("spawn")
    # Not as a context manager: that would wait for the process that hangs.
    pool = ProcessPoolExecutor(processes, context, _start_worker, (context.Lock(),))
    for done in as_completed([pool.submit(_work, job) for job in jobs]):
        result = done.result()
        if "hang" in result:
            pool.shutdown(wait=False, cancel_futures=True)
            raise Hang(result["hang"])
        if "left_out" in result:
            report["left_out"].append(result["left_out"])
            continue
        weakening = result.pop("weakening")
        report["weakened" if weakening else "shipped"].append({"weakening": weakening, **result} if weakening else result)
        print(
            f"{result['stale_reads']:>8} stale of {result['reads_checked']:.2e}   {result['barriers']:.2e} barriers   "
            f"{weakening + ', ' if weakening else ''}{result['name']}",
            flush=True,
        )
    pool.shutdown()


def main() -> int:
    parser = argparse.ArgumentParser(description="Stress the grid barrier on a GPU.")
    parser.add_argument("--seconds", type=float, default=120.0, help="time on the GPU for the shipped barrier (default: %(default)s)")
    parser.add_argument(
        "--weakened-seconds", type=float, default=20.0, help="time for the weakened ones, 0 to leave them out (default: %(default)s)"
    )
    parser.add_argument(
        "--processes", type=int, default=min(16, os.cpu_count() or 1), help="processes that compile at once (default: %(default)s)"
    )
    parser.add_argument("--out", type=Path, default=Path("stress.json"), help="where the report goes (default: %(default)s)")
    arguments = parser.parse_args()
    started = time.perf_counter()
    report: dict[str, Any] = {
        "device": torch.cuda.get_device_name(),
        "tilelang": tilelang.__version__,
        "cuda": torch.version.cuda,
        "rounds_per_launch": ROUNDS,
        "shipped": [],
        "left_out": [],
        "weakened": [],
        "hang": None,
    }
    try:
        _run(_jobs(arguments.seconds, arguments.weakened_seconds), arguments.processes, report)
    except Hang as hang:
        report["hang"] = str(hang)
    finally:
        report["wall_seconds"] = round(time.perf_counter() - started, 1)
        for key in ("barriers", "block_barriers", "reads_checked", "stale_reads"):
            report[f"total_{key}"] = sum(result[key] for result in report["shipped"])
        arguments.out.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps({k: v for k, v in report.items() if k.startswith("total_") or k == "hang"}), flush=True)
    failed = report["hang"] is not None or report["total_stale_reads"] > 0
    if report["hang"] is not None:
        # The GPU still runs the kernel that hangs; leaving normally would wait for it.
        for worker in active_children():
            worker.kill()
        sys.stdout.flush()
        os._exit(1)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

"""One kernel in two forms: a single launch with grid barriers, and a launch for each phase."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

Buffers = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Case:
    """A whole kernel of the benchmark.

    Attributes
    ----------
    name : str
        For tables and plots.
    summary : str
        What it computes, with its sizes.
    blocks, threads : int
        Its launch. Blocks are one-dimensional, so that the stock barrier is right as well.
    barriers : int
        Grid barriers in one launch.
    launches : int
        Launches that it takes without a grid barrier.
    one_launch : callable
        Makes the TileLang function with ``T.sync_grid()``.
    phases : mapping of str to callable
        Makes the TileLang functions of the separate launches, by name.
    buffers : callable
        Makes the tensors on a device, inputs filled and outputs cleared.
    run_one_launch : callable
        Calls the compiled kernel on the tensors: ``(kernel, buffers, stream)``.
    run_phases : callable
        The same with the compiled phases: ``({name: kernel}, buffers, stream)``.
    answer : callable
        What was computed, and the same from torch: ``buffers -> (got, expected)``.
    tolerance : float
        Relative and absolute tolerance of that comparison.
    split : callable or None
        As ``one_launch``, with ``grid_arrive()`` and ``grid_wait()`` around work that needs no other block.
    pass_configs : mapping
        TileLang pass configs that the kernels are compiled with.
    """

    name: str
    summary: str
    blocks: int
    threads: int
    barriers: int
    launches: int
    one_launch: Callable[[], Any]
    phases: Mapping[str, Callable[[], Any]]
    buffers: Callable[[str], Buffers]
    run_one_launch: Callable[[Any, Buffers, int], None]
    run_phases: Callable[[Mapping[str, Any], Buffers, int], None]
    answer: Callable[[Buffers], tuple[torch.Tensor, torch.Tensor]]
    tolerance: float
    split: Callable[[], Any] | None = None
    pass_configs: Mapping[str, Any] = field(default_factory=dict)

"""The grid barrier in two phases, for TileLang kernels: work between them overlaps the wait for other blocks.

::

    from tl_gridsync_pass.language import grid_arrive, grid_wait

    data[bx] = ...      # what other blocks read after their grid_wait()
    grid_arrive()
    ...                 # work that needs nothing of other blocks and writes nothing that they read in this round
    grid_wait()
    ... = data[other]   # what every block wrote before its grid_arrive()

Each is ``T.sync_grid()`` under a marker that TileLang carries through its pipeline. Compiled without the
plugin, and on the CUDA backend, they are two full barriers: slower, and as right. What a block writes
*between* the two is ordered for other blocks by the next barrier only.
"""

from __future__ import annotations

import tilelang.language as T

from .split_phase import ARRIVE, PHASE_ATTR, WAIT

__all__ = ["grid_arrive", "grid_wait"]


@T.macro
def grid_arrive():
    """Report this block's arrival, with everything that its threads wrote before; does not wait.

    All threads of the block must reach it, and a ``grid_wait()`` must follow in the same loop body or branch,
    with no other grid barrier between the two.

    Raises
    ------
    GridSyncLoweringError
        When the kernel is compiled with GridSyncPass and breaks one of these rules.
    """
    with T.attr(0, PHASE_ATTR, ARRIVE):
        T.sync_grid()


@T.macro
def grid_wait():
    """Wait until every block has arrived; then what they wrote before their ``grid_arrive()`` can be read.

    Raises
    ------
    GridSyncLoweringError
        See :func:`grid_arrive`.
    """
    with T.attr(0, PHASE_ATTR, WAIT):
        T.sync_grid()

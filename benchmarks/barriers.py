"""The upstream fix's barrier for comparison; the other barriers are in ``tl_gridsync_pass.bench.barriers``."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import tilelang.contrib.cutedsl as stock_device_library

# The stock device library has one barrier, looked up by name while a kernel is compiled to its cubin.
_stock_barrier_lock = threading.Lock()


@contextmanager
def upstream_shape() -> Iterator[None]:
    """Cubins made inside use the stock protocol with a three-axis leader: every thread runs both fences.

    Kernels must be compiled with the kernel cache off, and to their cubins inside the block.
    """
    from upstream_shape import sync_grid

    with _stock_barrier_lock:
        stock = stock_device_library.sync_grid
        stock_device_library.sync_grid = sync_grid
        try:
            yield
        finally:
            stock_device_library.sync_grid = stock

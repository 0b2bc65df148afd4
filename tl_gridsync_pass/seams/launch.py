"""The launch of a compiled kernel: on the caller's stream, with errors that say what is wrong.

TileLang's CuTeDSL adapter takes torch's current stream only where its target prints as "cuda...", and it
prints as JSON, so it launches on the legacy default stream. And a grid that cannot be resident ends in a
bare error number. Both are put right for kernels that hold a barrier of this plugin; every other kernel
keeps the very function that TileLang made.
"""

from __future__ import annotations

import functools
import itertools
import zlib
from pathlib import Path
from typing import Any

import torch
from tilelang.jit.adapter.cutedsl.adapter import CuTeDSLKernelAdapter

from ..errors import GridResidencyError, GridSyncError, GridSyncTimeoutError, SeamError
from ..lowering import BARRIER_CALLS
from ..residency import explain
from .attachments import Attachment, wrap_attribute
from .launch_shape import launch_shapes
from .launcher_source import has_watchdog, read_report
from .occupancy import occupancy

# Adapters of watchdog builds that were launched, by device; asked when an error comes up.
_watched: list[tuple[Any, int]] = []


# The public functions make a Python object or check for initialisation each time, which costs more than the
# rest of this wrapper; a launch has tensors on the device, so CUDA is initialised.
_current_stream_handle: Any = getattr(torch._C, "_cuda_getCurrentRawStream", None)
_current_device: Any = getattr(torch._C, "_cuda_getDevice", None)


def attach() -> list[Attachment]:
    """Attach to the point where the adapter makes the function that a call of the kernel runs.

    Raises
    ------
    SeamError
        Where torch does not tell its current device and the handle of its current stream.
    """
    if torch.version.cuda is not None and (_current_stream_handle is None or _current_device is None):
        raise SeamError(
            f"tl_gridsync: torch {torch.__version__} does not tell the handle of its current stream; install torch 2.4 or later"
        )
    return [wrap_attribute(CuTeDSLKernelAdapter, "_convert_torch_func", _convert_torch_func)]


def _convert_torch_func(wrapped, instance, args, kwargs):
    launch = wrapped(*args, **kwargs)
    source = _module_source(instance)
    if not any(call in source for call in BARRIER_CALLS):
        return launch
    watched = has_watchdog(source)

    @functools.wraps(launch)
    def launch_on_the_callers_stream(*ins: Any, stream: int | None = None) -> Any:
        device = _device_of(ins)
        if stream is None and device >= 0:
            stream = _current_stream_handle(device)
        if watched:
            _raise_on_report()
            _watch(instance, device)
        try:
            if device >= 0 and device != _current_device():
                # The legacy default stream is that of the current device, and the launcher sets it only once.
                with torch.cuda.device(device):
                    return launch(*ins, stream=stream)
            return launch(*ins, stream=stream)
        # CuTe DSL's launcher has exception classes of its own.
        except Exception as error:
            explained = _explained(instance, ins, stream)
            if explained is None:
                raise
            raise explained from error

    return launch_on_the_callers_stream


def _device_of(ins: tuple[Any, ...]) -> int:
    """The CUDA device of the first tensor, which is where TileLang launches; -1 where there is none."""
    for value in ins:
        if isinstance(value, torch.Tensor):
            return value.get_device()
    return -1


def max_coresident_blocks(kernel: Any, *args: Any, device: int | None = None) -> int:
    """How many blocks of ``kernel`` can be resident at once, so that a persistent grid can be sized by it.

    Parameters
    ----------
    kernel : tilelang.JITKernel
        A kernel compiled for the CuTeDSL target, with this plugin or without.
    *args
        What the kernel is called with; needed where its block, its shared memory or its cubin depend on it.
    device : int, optional
        The CUDA device; by default that of the first tensor in ``args``, else the current one.

    Returns
    -------
    int
        Blocks on all multiprocessors that a launch on torch's current stream may use (fewer than the device
        has under an MPS limit, and on a stream of a green context), by the driver's occupancy of the real
        cubin. For a kernel with several launches, the smallest.

    Raises
    ------
    GridSyncError
        Where the driver answers with an error.
    """
    adapter = kernel.adapter
    if device is None:
        device = _device_of(args)
        device = _current_device() if device < 0 else device
    cubin = _cubin(adapter, args)
    shapes = launch_shapes(_module_source(adapter), _launch_arguments(adapter, args))
    stream = _current_stream_handle(device)
    return min(occupancy(cubin, shape, device, stream).blocks for shape in shapes)


def synchronize(device: int | None = None) -> None:
    """``torch.cuda.synchronize`` that says which barrier was waited for in vain.

    Raises
    ------
    GridSyncTimeoutError
        Where the watchdog of a kernel has stopped it.
    """
    try:
        torch.cuda.synchronize(device)
    except RuntimeError as error:
        _raise_on_report(error)
        raise


def _watch(adapter: Any, device: int) -> None:
    if not any(a is adapter and d == device for a, d in _watched):
        _watched.append((adapter, device))


def _raise_on_report(cause: BaseException | None = None) -> None:
    for adapter, device in _watched:
        library = getattr(adapter.pymodule, "_cpp_launcher_lib", None)
        if library is None:
            continue
        report = read_report(library, device)
        if report is not None:
            raise GridSyncTimeoutError(_timeout_message(adapter, device, report)) from cause


def _timeout_message(adapter: Any, device: int, report: dict[str, int]) -> str:
    names = _kernel_names(_module_source(adapter))
    kernel = next((name for name in names if zlib.crc32(name.encode()) == report["kernel"]), "<unknown>")
    return (
        f"tl_gridsync: kernel {kernel!r} on device {device}: block ({report['x']}, {report['y']}, {report['z']}) waited more than "
        f"{report['milliseconds']} ms at a grid barrier of generation {report['generation']}: {report['arrived']} of {report['blocks']} "
        "blocks have arrived. A block that has not arrived has skipped the barrier, has left the kernel, or is slower than the limit. "
        "The CUDA context is lost; start a new process."
    )


def _explained(adapter: Any, ins: tuple[Any, ...], stream: int | None) -> GridSyncError | None:
    """The error of this package that says why a launch on ``stream`` failed, or None where it is not about a barrier."""
    device = _device_of(ins)
    if device < 0:
        return None
    try:
        _raise_on_report()
        for shape in launch_shapes(_module_source(adapter), _launch_arguments(adapter, ins)):
            limit = occupancy(_cubin(adapter, ins), shape, device, stream or 0)
            if shape.blocks > limit.blocks:
                return GridResidencyError(explain(shape, limit))
    except GridSyncTimeoutError as timeout:
        return timeout
    except GridSyncError:
        # The driver no longer answers, as after a fault in another kernel; the launch's own error says so.
        return None
    return None


def _kernel_names(module_source: str) -> list[str]:
    """The names of the device functions in a generated module."""
    lines = module_source.splitlines()
    return [
        after.strip().removeprefix("def ").partition("(")[0]
        for before, after in itertools.pairwise(lines)
        if before.strip() == "@cute.kernel"
    ]


def _launch_arguments(adapter: Any, ins: tuple[Any, ...]) -> dict[str, Any]:
    """The scalars and dynamic sizes of a call, under the names that the generated module gives them."""
    given = iter(ins)
    values = [None if i in adapter.result_idx else next(given, None) for i in range(len(adapter.params))]
    function = adapter.prim_func
    arguments = {
        param.name: value
        for param, value in zip(function.params, values, strict=True)
        if param not in function.buffer_map and value is not None
    }
    for symbol in adapter.dynamic_symbolic_order:
        place, parameter, axis = adapter.dynamic_symbolic_map[symbol]
        tensor = values[parameter]
        if tensor is not None:
            arguments[symbol.name] = tensor.shape[axis] if place == 0 else tensor.stride(axis)
    return arguments


def _module_source(adapter: Any) -> str:
    """The generated module as it stands on disk, which is the same for a fresh kernel and one from the cache."""
    path = getattr(adapter.pymodule, "__file__", None)
    if path is None:
        raise SeamError("tl_gridsync: TileLang's CuTeDSL adapter has no generated module, so its launches cannot be read")
    return Path(path).read_text()


def _cubin(adapter: Any, ins: tuple[Any, ...]) -> Path:
    """The kernel's cubin, made now where no launch has made it yet."""
    path = Path(adapter.pymodule._cubin_path)
    if not path.exists():
        sizes = _launch_arguments(adapter, ins)
        given = iter(ins)
        values = [_stand_in(adapter, i, sizes) if i in adapter.result_idx else next(given) for i in range(len(adapter.params))]
        adapter.pymodule._generate_cubin_if_needed(*values, *(sizes[symbol.name] for symbol in adapter.dynamic_symbolic_order))
    return path


def _stand_in(adapter: Any, index: int, sizes: dict[str, Any]) -> torch.Tensor:
    """A tensor without memory of the shape and type of an output."""
    shape = [n if isinstance(n, int) else sizes[n.name] for n in adapter.param_shapes[index]]
    return torch.empty(shape, dtype=adapter.param_dtypes[index], device="meta")

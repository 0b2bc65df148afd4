"""How many blocks of a kernel can be resident at once, asked of the driver about the real cubin."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import GridSyncError
from .launch_shape import LaunchShape


@dataclass(frozen=True)
class Occupancy:
    """What bounds the residency of one kernel on one device.

    Attributes
    ----------
    blocks_per_multiprocessor : int
        Resident blocks of this kernel on one multiprocessor, by the driver's calculation.
    multiprocessors : int
        Multiprocessors that the calling context may use, which partitions and MPS limits make fewer.
    registers : int
        32-bit registers of a thread.
    static_shared_bytes : int
        Shared memory that the cubin itself asks for, in bytes a block.
    """

    blocks_per_multiprocessor: int
    multiprocessors: int
    registers: int
    static_shared_bytes: int
    registers_per_multiprocessor: int
    shared_bytes_per_multiprocessor: int
    threads_per_multiprocessor: int
    blocks_limit_per_multiprocessor: int

    @property
    def blocks(self) -> int:
        """Blocks that can be resident on the whole device at once."""
        return self.blocks_per_multiprocessor * self.multiprocessors


def occupancy(cubin: Path, shape: LaunchShape, device: int, stream: int) -> Occupancy:
    """Ask the driver; needs a CUDA context, and makes the device's primary one current while it asks.

    ``stream`` is the handle of the stream to launch on, 0 for the default one: a stream of a green context has that
    context's multiprocessors only.

    Raises
    ------
    GridSyncError
        Where the driver answers with an error or the cubin does not hold the kernel.
    """
    from cuda.bindings import driver

    context = _checked(driver.cuDevicePrimaryCtxRetain(_checked(driver.cuDeviceGet(device))))
    _checked(driver.cuCtxPushCurrent(context))
    try:
        module = _checked(driver.cuModuleLoadData(cubin.read_bytes()))
        try:
            function = _find(driver, module, shape.kernel)
            return _ask(driver, function, shape, device, stream)
        finally:
            _checked(driver.cuModuleUnload(module))
    finally:
        _checked(driver.cuCtxPopCurrent())
        _checked(driver.cuDevicePrimaryCtxRelease(device))


def _ask(driver: Any, function: Any, shape: LaunchShape, device: int, stream: int) -> Occupancy:
    attribute, of_device = driver.CUfunction_attribute, driver.CUdevice_attribute
    if shape.shared_bytes:
        limit = attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        _checked(driver.cuFuncSetAttribute(function, limit, shape.shared_bytes))
    per_multiprocessor = _checked(driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(function, shape.threads, shape.shared_bytes))

    def device_limit(name: str) -> int:
        return _checked(driver.cuDeviceGetAttribute(getattr(of_device, f"CU_DEVICE_ATTRIBUTE_{name}"), device))

    return Occupancy(
        blocks_per_multiprocessor=per_multiprocessor,
        multiprocessors=_usable_multiprocessors(driver, device_limit("MULTIPROCESSOR_COUNT"), stream),
        registers=_checked(driver.cuFuncGetAttribute(attribute.CU_FUNC_ATTRIBUTE_NUM_REGS, function)),
        static_shared_bytes=_checked(driver.cuFuncGetAttribute(attribute.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function)),
        registers_per_multiprocessor=device_limit("MAX_REGISTERS_PER_MULTIPROCESSOR"),
        shared_bytes_per_multiprocessor=device_limit("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"),
        threads_per_multiprocessor=device_limit("MAX_THREADS_PER_MULTIPROCESSOR"),
        blocks_limit_per_multiprocessor=device_limit("MAX_BLOCKS_PER_MULTIPROCESSOR"),
    )


def _usable_multiprocessors(driver: Any, count: int, stream: int) -> int:
    """The multiprocessors of the stream's green context or else of the current context, where the driver tells; else all."""
    kind = driver.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM
    if stream:
        status, green = driver.cuStreamGetGreenCtx(stream)
        if status == driver.CUresult.CUDA_SUCCESS and int(green):
            return _checked(driver.cuGreenCtxGetDevResource(green, kind)).sm.smCount
    status, resource = driver.cuCtxGetDevResource(_checked(driver.cuCtxGetCurrent()), kind)
    return resource.sm.smCount if status == driver.CUresult.CUDA_SUCCESS else count


def _find(driver: Any, module: Any, kernel: str) -> Any:
    """The function named after ``kernel``; CuTe DSL puts its own words around the name."""
    functions = _checked(driver.cuModuleEnumerateFunctions(_checked(driver.cuModuleGetFunctionCount(module)), module))
    named = {_checked(driver.cuFuncGetName(function)).decode(): function for function in functions}
    # As in TileLang's launcher: a name that goes on with _<digit> belongs to another kernel of the module.
    found = [f for name, f in named.items() if kernel in name and not _goes_on_with_number(name, kernel)]
    if len(found) != 1:
        raise GridSyncError(f"tl_gridsync: {len(found)} functions of the cubin are named after kernel {kernel!r}: {', '.join(named)}")
    return found[0]


def _goes_on_with_number(name: str, kernel: str) -> bool:
    rest = name[name.index(kernel) + len(kernel) :]
    return len(rest) > 1 and rest[0] == "_" and rest[1].isdigit()


def _checked(result: tuple) -> Any:
    status, *values = result
    if int(status) != 0:
        raise GridSyncError(f"tl_gridsync: the CUDA driver answered {status!r}")
    return values[0] if len(values) == 1 else tuple(values) or None

"""The C++ launcher that TileLang generates: gives a watchdog build its report buffer.

A kernel with a watchdog reports to host memory, because the trap that ends it ends the CUDA context too
and nothing on the device can be read afterwards. The launcher is the only one that holds the CUDA module,
so the few lines that allocate the buffer and tell the module its address go into its source. Launchers of
kernels without a watchdog are left as they are.
"""

from __future__ import annotations

import ctypes
from typing import Any

from tilelang.jit.adapter.cutedsl.libgen import CuTeDSLLibraryGenerator

from ..errors import SeamError
from ..lowering import BARRIER_CALLS
from .attachments import Attachment, wrap_attribute

# Kept in step with device.py, which cannot be imported without CuTe DSL; a test compares the two.
REPORT_SYMBOL = "__tl_gridsync_report"
REPORT_FIELDS = ("kernel", "x", "y", "z", "generation", "arrived", "blocks", "milliseconds")
REPORT_FUNCTION = "tl_gridsync_report"

_BEFORE_DEFINITIONS = "// Initialize CUDA module for a specific device"
_AFTER_LOAD = "  // Store module for this device\n"
_BEFORE_EXPORTS = "TVM_FFI_DLL_EXPORT_TYPED_FUNC(launch_kernel, launch_kernel);"

_DEFINITIONS = f"""\
// tl_gridsync: where the kernels of a device report a barrier that was waited for in vain.
static std::unordered_map<int, uint32_t*> tl_gridsync_reports;

static CUresult tl_gridsync_attach_report(CUmodule module, int device_id) {{
  CUdeviceptr variable, device_address;
  size_t size;
  void* report;
  // Asked for by version: TileLang's stand-in for the driver library, which may come first among the loaded
  // libraries, passes cuModuleGetGlobal on to its pre-CUDA 3.2 namesake, which knows no current context.
  decltype(&cuModuleGetGlobal) get_global = nullptr;
  CUresult result =
      cuGetProcAddress("cuModuleGetGlobal", reinterpret_cast<void**>(&get_global), 12000, CU_GET_PROC_ADDRESS_DEFAULT, nullptr);
  if (result != CUDA_SUCCESS) return result;
  result = get_global(&variable, &size, module, "{REPORT_SYMBOL}");
  if (result != CUDA_SUCCESS) return result;
  // The module may be loaded while a graph is captured, which the calls below must not disturb.
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  cuThreadExchangeStreamCaptureMode(&mode);
  result = cuMemHostAlloc(&report, {4 * len(REPORT_FIELDS)}, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
  if (result == CUDA_SUCCESS) {{
    std::memset(report, 0, {4 * len(REPORT_FIELDS)});
    result = cuMemHostGetDevicePointer(&device_address, report, 0);
  }}
  if (result == CUDA_SUCCESS) result = cuMemcpyHtoD(variable, &device_address, sizeof(device_address));
  cuThreadExchangeStreamCaptureMode(&mode);
  if (result == CUDA_SUCCESS) tl_gridsync_reports[device_id] = static_cast<uint32_t*>(report);
  return result;
}}

int64_t tl_gridsync_report(int device_id) {{
  std::lock_guard<std::mutex> lock(g_devices_mutex);
  auto it = tl_gridsync_reports.find(device_id);
  return it == tl_gridsync_reports.end() ? 0 : reinterpret_cast<int64_t>(it->second);
}}

"""
_ATTACH = """\
  result = tl_gridsync_attach_report(module, device_id);
  if (result != CUDA_SUCCESS) {
    std::cerr << "tl_gridsync: cannot attach the watchdog's report on device " << device_id << ": " << result << "\\n";
    return result;
  }

"""
_EXPORT = f"TVM_FFI_DLL_EXPORT_TYPED_FUNC({REPORT_FUNCTION}, tl_gridsync_report);\n"


def attach() -> list[Attachment]:
    """Attach to the point where TileLang hands the launcher's source to its compiler."""
    return [wrap_attribute(CuTeDSLLibraryGenerator, "update_launcher_cpp_code", _update)]


def _update(wrapped, instance, args, kwargs):
    (code,) = args
    # The device source, with the watchdog's limit in each barrier, was handed over just before.
    if code is not None and has_watchdog(instance.lib_code or ""):
        code = with_report(code)
    return wrapped(code, **kwargs)


def has_watchdog(device_source: str) -> bool:
    """Whether a barrier in ``device_source`` carries a time limit: a third argument."""
    calls = (line.strip() for line in device_source.splitlines() if any(call in line for call in BARRIER_CALLS))
    return any(call.count(",") >= 3 for call in calls)


def with_report(code: str) -> str:
    """The launcher's source with the report buffer.

    Raises
    ------
    SeamError
        Where the source lacks a place that the lines go to.
    """
    for anchor, text in ((_BEFORE_DEFINITIONS, _DEFINITIONS), (_AFTER_LOAD, _ATTACH), (_BEFORE_EXPORTS, _EXPORT)):
        if code.count(anchor) != 1:
            raise SeamError(
                f"tl_gridsync: TileLang's generated launcher has {code.count(anchor)} places {anchor.strip()!r} instead of one, so the "
                "watchdog cannot report to the host. Compile without timeout_ms, or install a TileLang that this release supports."
            )
        code = code.replace(anchor, text + anchor)
    return code


def read_report(library: Any, device: int) -> dict[str, int] | None:
    """What a kernel of ``library`` reported on ``device``; None where it reported nothing."""
    address = library[REPORT_FUNCTION](device)
    if not address:
        return None
    values = (ctypes.c_uint32 * len(REPORT_FIELDS)).from_address(address)
    return dict(zip(REPORT_FIELDS, values, strict=True)) if values[0] else None

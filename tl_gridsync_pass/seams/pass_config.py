"""Registers the ``tl_gridsync.*`` pass-config keys with TVM, through the package's native library."""

from __future__ import annotations

import ctypes
from dataclasses import fields
from pathlib import Path

import tilelang
import tvm_ffi
from tilelang.env import TL_LIBS

from .. import __path__ as package_path
from ..errors import SeamError
from ..options import ENABLE_KEY, PREFIX, REVISION_KEY, GridSyncOptions
from ..tvm_compat import tvm
from .tilelang_compat import TVM_LIBRARIES

_LIBRARY = "libtl_gridsync_pass_native.so"
_REGISTER_CONFIG_OPTION = "_ZN3tvm9transform11PassContext20RegisterConfigOptionEPKcNS_3ffi6StringESt8functionIFNS4_3AnyES7_EE"


def key_types() -> dict[str, str]:
    """Every pass-config key with the name of its type."""
    options = {PREFIX + f.name: str(f.type) for f in fields(GridSyncOptions)}
    return {ENABLE_KEY: "bool", REVISION_KEY: "str", **options}


def register_keys() -> None:
    """Register the keys; nothing to do where this process already has them.

    Raises
    ------
    SeamError
        An ImportError: the native library is missing or does not load, or TVM lacks the entry it needs.
    """
    known = set(tvm.ir.transform.PassContext.list_configs())
    missing = {key: type_name for key, type_name in key_types().items() if key not in known}
    if not missing:
        return
    register = _native_library()["register_pass_config"]
    address = _register_config_option_address()
    for key, type_name in missing.items():
        register(address, key, type_name)


def _native_library() -> tvm_ffi.Module:
    # An editable install keeps the library in another folder of the package's path than its Python files.
    candidates = [Path(folder) / _LIBRARY for folder in package_path]
    path = next((p for p in candidates if p.is_file()), None)
    if path is None:
        raise SeamError(
            f"tl_gridsync: the native library {_LIBRARY} is missing (looked in {', '.join(str(p.parent) for p in candidates)}). "
            "Reinstall with `pip install --force-reinstall tl_gridsync_pass`; running from a source tree needs `pip install .` first."
        )
    try:
        # TVM keeps pointers into the library for as long as the process lives. A module of older tvm-ffi
        # releases closes its library when it goes; ctypes never closes one.
        ctypes.CDLL(str(path))
        return tvm_ffi.load_module(str(path))
    except Exception as error:
        raise SeamError(
            f"tl_gridsync: the native library {path} does not load: {error}. It was built for another apache-tvm-ffi or platform; "
            "rebuild it with `pip install --force-reinstall --no-binary tl_gridsync_pass tl_gridsync_pass`."
        ) from error


def _register_config_option_address() -> int:
    for folder in TL_LIBS:
        for name in TVM_LIBRARIES:
            path = Path(folder) / name
            if not path.is_file():
                continue
            symbol = getattr(ctypes.CDLL(str(path)), _REGISTER_CONFIG_OPTION, None)
            if symbol is not None:
                return ctypes.cast(symbol, ctypes.c_void_p).value or 0
    raise SeamError(
        f"tl_gridsync: no TVM library of TileLang {tilelang.__version__} exports PassContext::RegisterConfigOption "
        f"(looked for {', '.join(TVM_LIBRARIES)} in {', '.join(map(str, TL_LIBS))}). Install a TileLang that this release supports."
    )

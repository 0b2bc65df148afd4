"""What a measurement was made on, for the head of every result file."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

import tl_gridsync_pass
from tl_gridsync_pass.revision import emission_revision

_PACKAGES = ("tilelang", "apache-tvm-ffi", "nvidia-cutlass-dsl", "torch")
_QUERY = "name,driver_version,clocks.sm,clocks.max.sm,clocks.mem,temperature.gpu,power.draw"


def describe() -> dict[str, Any]:
    """Date, versions, the processor, and the GPU with its driver and clocks where there is one."""
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        **(_gpu() if torch.cuda.is_available() else {"gpu": None}),
        "cpu": _processor(),
        "cpus": os.cpu_count(),
        "cuda": torch.version.cuda,
        "versions": {name: _version(name) for name in _PACKAGES} | {"tl_gridsync_pass": tl_gridsync_pass.__version__},
        "emission revision": emission_revision(),
    }


def _processor() -> str:
    """The processor's name as Linux knows it, with what tells models apart where the name does not."""
    with open("/proc/cpuinfo") as file:
        facts = dict(line.strip().split(":", 1) for line in file.read().split("\n\n")[0].splitlines() if ":" in line)
    known = {key.strip(): value.strip() for key, value in facts.items()}
    name = known.get("model name") or platform.machine()
    details = [f"{key} {known[key]}" for key in ("cpu family", "model", "cpu MHz") if key in known]
    return ", ".join([name, *details])


def _gpu() -> dict[str, Any]:
    query = subprocess.run(["nvidia-smi", f"--query-gpu={_QUERY}", "--format=csv,noheader"], capture_output=True, text=True, check=False)
    properties = torch.cuda.get_device_properties(0)
    return {
        "gpu": properties.name,
        "multiprocessors": properties.multi_processor_count,
        "nvidia-smi": dict(zip(_QUERY.split(","), (v.strip() for v in query.stdout.splitlines()[0].split(",")), strict=False))
        if query.stdout
        else {},
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None

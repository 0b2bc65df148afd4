"""Compiling kernels with another protocol text than the one that ships."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from tl_gridsync_pass import protocol
from tl_gridsync_pass.protocol import Protocol, Ptx

# The attributes of the module that the device code reads at every compile.
_SHIPPED = {name: getattr(protocol, name) for name in ("LAUNCH", "LAUNCH_RANKED", "LAUNCH_STRIPED")}


def _changed(ptx: Ptx, *edits: tuple[str, str]) -> Ptx:
    text = ptx.text
    for old, new in edits:
        if text.count(old) != 1:
            raise ValueError(f"{old!r} stands {text.count(old)} times in a protocol text")
        text = text.replace(old, new)
    return replace(ptx, text=text)


def _without_release(p: Protocol) -> Protocol:
    return replace(p, arrive=_changed(p.arrive, ("fence.release.gpu;", "")))


def _without_acquire(p: Protocol) -> Protocol:
    acquire, weaker = ("fence.acquire.gpu;", "") if "fence.acquire.gpu" in p.wait.text else ("ld.acquire.gpu", "ld.relaxed.gpu")
    return replace(p, wait=_changed(p.wait, (acquire, weaker)))


def _acquire_of_the_block(p: Protocol) -> Protocol:
    acquire = "fence.acquire.gpu" if "fence.acquire.gpu" in p.wait.text else "ld.acquire.gpu"
    return replace(p, wait=_changed(p.wait, (acquire, acquire.replace(".gpu", ".cta"))))


# What each weakening makes of the launch protocols. All of them keep the barrier's counting right, so none
# can hang: the memory model says that each may give stale reads.
WEAKENINGS = {
    "release dropped": _without_release,
    "release at block scope": lambda p: replace(p, arrive=_changed(p.arrive, ("fence.release.gpu", "fence.release.cta"))),
    "acquire dropped": _without_acquire,
    "acquire at block scope": _acquire_of_the_block,
    "release and acquire dropped": lambda p: _without_release(_without_acquire(p)),
}


@contextmanager
def weakened(name: str) -> Iterator[None]:
    """Kernels compiled to their cubins inside have the launch barrier with one of ``WEAKENINGS``.

    The kernel cache must be off: its key does not know of this.
    """
    try:
        for attribute, shipped in _SHIPPED.items():
            setattr(protocol, attribute, WEAKENINGS[name](shipped))
        yield
    finally:
        for attribute, shipped in _SHIPPED.items():
            setattr(protocol, attribute, shipped)

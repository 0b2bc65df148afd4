"""What a user can ask for, and how it travels: as ``tl_gridsync.*`` keys of TVM's PassContext.

TileLang hashes a kernel's pass configs into its cache key, so options that travel as pass configs can
never give a kernel that was built under other options. This module knows the keys and their values and
nothing else; ``native/pass_config.cc`` registers the same keys with TVM.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from .errors import GridSyncOptionError

PREFIX = "tl_gridsync."
ENABLE_KEY = PREFIX + "enable"
REVISION_KEY = PREFIX + "revision"

STATES = ("launch", "module")
# What ``backends`` may say. CuTeDSL is always among them, since its own barrier is the one that is wrong.
BACKENDS = ("cutedsl", "cutedsl,cuda")
# An hour; the device holds the limit in 32 bits.
LONGEST_TIMEOUT_MS = 3_600_000
VERIFY_MODES = ("error", "warn", "off")


@dataclass(frozen=True)
class GridSyncOptions:
    """The options of one compilation.

    Parameters
    ----------
    state : str
        Where the barrier keeps its counter. ``"launch"`` (default): in the workspace that the driver
        gives every cooperative launch, so that any number of launches may overlap. ``"module"``: in two
        global variables of the CUDA module, safe for one launch at a time.
    timeout_ms : int
        Watchdog: a block that waits longer than this many milliseconds at a barrier prints what it waits
        for and stops the grid, and the host raises GridSyncTimeoutError. 0 (default) for no watchdog.
    verify : str
        What to do about a barrier that not all threads reach equally often. ``"error"`` (default): refuse
        the kernel where it depends on a thread or block index, warn where it depends on data. ``"warn"``:
        warn of both. ``"off"``: do not look.
    backends : str or sequence of str
        The backends whose kernels get the barrier: ``"cutedsl"`` (default), or ``"cutedsl,cuda"``, also written
        ``"cutedsl+cuda"`` or ``("cutedsl", "cuda")``, to use it in place of cooperative groups' in
        CUDA kernels as well. Not together with ``timeout_ms``.

    Raises
    ------
    GridSyncOptionError
        For a value outside the ones above.
    """

    state: str = "launch"
    timeout_ms: int = 0
    verify: str = "error"
    backends: str = "cutedsl"

    def __post_init__(self) -> None:
        for name, known in (("state", STATES), ("verify", VERIFY_MODES)):
            value = getattr(self, name)
            if value not in known:
                raise GridSyncOptionError(f"tl_gridsync: {name}={value!r} is unknown. Use one of: {', '.join(map(repr, known))}.")
        if isinstance(self.timeout_ms, bool) or not isinstance(self.timeout_ms, int) or not 0 <= self.timeout_ms <= LONGEST_TIMEOUT_MS:
            raise GridSyncOptionError(
                f"tl_gridsync: timeout_ms={self.timeout_ms!r} must be a whole number of milliseconds "
                f"from 0 (no watchdog) to {LONGEST_TIMEOUT_MS}."
            )
        object.__setattr__(self, "backends", _canonical_backends(self.backends))
        if self.cuda and self.timeout_ms:
            raise GridSyncOptionError(
                "tl_gridsync: timeout_ms is for CuTeDSL kernels and cannot go with backends=('cutedsl', 'cuda'). Give one of the two."
            )

    @property
    def cuda(self) -> bool:
        """Whether kernels of the plain CUDA backend get the barrier as well."""
        return self.backends == "cutedsl,cuda"

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The option names, in declaration order."""
        return tuple(f.name for f in fields(cls))

    def to_pass_configs(self, revision: str) -> dict[str, Any]:
        """These options as a complete set of pass configs, switched on, stamped with the emission ``revision``."""
        configs: dict[str, Any] = {PREFIX + name: getattr(self, name) for name in self.names()}
        return {ENABLE_KEY: True, REVISION_KEY: revision, **configs}

    @classmethod
    def from_pass_configs(cls, configs: Mapping[str, Any]) -> GridSyncOptions | None:
        """The options that ``configs`` ask for; None where they leave the pass off or do not mention it.

        Raises
        ------
        GridSyncOptionError
            For an option without ``tl_gridsync.enable``, an unknown ``tl_gridsync.*`` key, or a bad value.
        """
        ours = {str(k): v for k, v in configs.items() if str(k).startswith(PREFIX)}
        if not ours:
            return None
        unknown = sorted(set(ours) - {ENABLE_KEY, REVISION_KEY, *(PREFIX + n for n in cls.names())})
        if unknown:
            known = ", ".join([ENABLE_KEY, *(PREFIX + n for n in cls.names())])
            raise GridSyncOptionError(f"tl_gridsync: unknown pass config {', '.join(unknown)}. Known: {known}.")
        if ENABLE_KEY not in ours:
            raise GridSyncOptionError(
                f"tl_gridsync: pass config {sorted(ours)[0]} is set but {ENABLE_KEY} is not, so it would have no effect. "
                f"Add {ENABLE_KEY!r}: True, or pass passes=[GridSyncPass(...)]."
            )
        if not isinstance(ours[ENABLE_KEY], (bool, int)):
            raise GridSyncOptionError(f"tl_gridsync: pass config {ENABLE_KEY}={ours[ENABLE_KEY]!r} must be True or False.")
        if not ours[ENABLE_KEY]:
            return None
        return cls(**{n: _plain(ours[PREFIX + n]) for n in cls.names() if PREFIX + n in ours})


def mentions_pass(configs: Mapping[str, Any] | None) -> bool:
    """Whether ``configs`` hold any ``tl_gridsync.*`` key, which makes them override the process-wide setting."""
    return any(str(k).startswith(PREFIX) for k in configs or ())


def _canonical_backends(backends: Any) -> str:
    named = str(backends).replace("+", ",").split(",") if isinstance(backends, str) else backends
    try:
        canonical = ",".join(sorted({str(name).strip() for name in named}, reverse=True))
    except TypeError:
        canonical = ""
    if canonical not in BACKENDS:
        raise GridSyncOptionError(f"tl_gridsync: backends={backends!r} is unknown. Use one of: {', '.join(map(repr, BACKENDS))}.")
    return canonical


def _plain(value: Any) -> Any:
    """A PassContext hands strings back as TVM strings; options compare and print as plain Python values."""
    return str(value) if isinstance(value, str) else value

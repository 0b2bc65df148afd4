"""Whether this process is the command line, asked while the package is being imported."""

from __future__ import annotations

import sys
from pathlib import PurePath

SCRIPT = "tl-gridsync"
_PACKAGE = __name__.partition(".")[0]


def is_command_line() -> bool:
    """Whether the interpreter was started as ``tl-gridsync`` or as ``python -m tl_gridsync_pass``.

    While Python looks for the module that ``-m`` names, ``sys.argv[0]`` is ``"-m"`` and the name stands in
    ``sys.orig_argv`` alone.
    """
    program = sys.argv[0] if sys.argv else ""
    return PurePath(program).stem == SCRIPT or (program == "-m" and _PACKAGE in sys.orig_argv)

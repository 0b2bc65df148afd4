"""``python -m tl_gridsync_pass``."""

from .cli.invocation import SCRIPT
from .cli.main import main

main(prog_name=SCRIPT)

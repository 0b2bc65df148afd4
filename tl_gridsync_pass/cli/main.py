"""The command group. Each subcommand is the ``command`` of the module that bears its name."""

from __future__ import annotations

from importlib import import_module

import click

from .invocation import SCRIPT

SUBCOMMANDS = ("doctor", "demo", "inspect", "check", "bench")


class _Subcommands(click.Group):
    """Imports a subcommand when it is asked for, so that one that cannot be imported leaves the others usable."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in SUBCOMMANDS:
            return None
        return import_module(f".{cmd_name}", __package__).command


@click.group(cls=_Subcommands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="tl_gridsync_pass", prog_name=SCRIPT)
def main() -> None:
    """Grid barriers that are right: a TileLang compiler plugin for T.sync_grid() in CuTeDSL kernels."""

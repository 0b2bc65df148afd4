"""What the subcommands share: ``--json``, the console, and errors as the command line shows them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
from rich.console import Console

import tl_gridsync_pass

from ..errors import GridSyncError

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")


def console() -> Console:
    """The console on standard output; colours are left out where it is not a terminal."""
    return Console(highlight=False)


def print_json(data: dict[str, Any]) -> None:
    """``data`` as the only thing on standard output."""
    click.echo(json.dumps(data, indent=2))


def require_attached() -> None:
    """Stop where the plugin could not attach to TileLang, for the subcommands that need it to.

    Raises
    ------
    click.ClickException
        With the reason.
    """
    error = tl_gridsync_pass.attach_error
    if error is not None:
        raise click.ClickException(f"{error}\nRun `tl-gridsync doctor` for the whole picture.")


@contextmanager
def reported_errors() -> Iterator[None]:
    """Shows an error of this package as one message, without the traceback that is of no use to a user."""
    try:
        yield
    except GridSyncError as error:
        raise click.ClickException(str(error)) from error

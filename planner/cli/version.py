"""`meshwright version`."""

from __future__ import annotations

import typer


def version() -> None:
    """Print the version."""
    from planner.version import __version__

    typer.echo(f"meshwright {__version__}")

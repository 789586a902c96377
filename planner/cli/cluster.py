"""`meshwright cluster`: cluster files from what other tools print, and from one line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from planner.cli.help import arg, opt
from planner.clusters.sources import SOURCES, Source
from planner.errors import InputError

cluster = typer.Typer(
    rich_markup_mode=None,
    add_completion=False,
    invoke_without_command=True,
)


@cluster.callback()
def group(ctx: typer.Context) -> None:
    """Make a cluster file: from what other tools print, or from one line."""
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


MOST_BYTES = 200_000_000
"""Bytes of one input at most: `kubectl get nodes -o json` takes 20 to 60 KB a node."""

OutputOpt = Annotated[str | None, opt("--output -o", "Write the cluster file here.", "FILE")]
ForceOpt = Annotated[bool, opt("--force", "Write over a file of other content.")]


def reader(source: Source) -> Callable[..., None]:
    """The command of one source."""

    def command(
        files: Annotated[
            list[str] | None,
            arg("[FILE…|-]", "What the tool printed; - or none: standard input.", show_default=False),
        ] = None,
        output: OutputOpt = None,
        force: ForceOpt = False,
        facts: Annotated[bool, opt("--facts", "Print what was found as JSON, not a cluster file.")] = False,
        device: Annotated[
            str | None, opt("--device", "Which GPUs they are, where the input names none.", "NAME")
        ] = None,
        gpus_per_node: Annotated[
            int | None, opt("--gpus-per-node", "GPUs of each node, where the input shows none.", "N", min=1)
        ] = None,
    ) -> None:
        from planner.cli.output import note, print_json
        from planner.clusters.found import Input
        from planner.clusters.sources import completed
        from planner.clusters.writing import doubts, write
        from planner.errors import placed

        names = files or ["-"]
        where = ", ".join("standard input" if name == "-" else name for name in names)
        with placed(where):
            found = source.read(tuple(Input.of(name, _text(name)) for name in names))
        if facts:
            lacking = [found.lacking] if found.lacking else []
            said = [*found.warnings, *found.assumed, *doubts(found), *lacking]
            print_json({**found.facts, "warnings": list(dict.fromkeys(said))}, indent=2)
            return
        found = completed(found, device, gpus_per_node)
        for warning in found.warnings if not found.machines else ():
            note(f"warning: {warning}")
        with placed(where):
            written = write(found, source.tool)
        for warning in written.warnings:
            note(f"warning: {warning}")
        _deliver(written.text, output, force)

    command.__doc__ = (
        f"A cluster file from {source.tool}.\n\nReads the output of {source.run}.\n\n"
        f"Example: meshwright cluster from-{source.name} nodes.txt -o cluster.yaml"
    )
    return command


def _text(name: str) -> str:
    """A file's text, or standard input's."""
    from planner.reading.documents import STANDARD_INPUT, decoded, read_bytes, read_standard_input

    if name != "-":
        return decoded(read_bytes(name, MOST_BYTES), name, coloured=True)
    if sys.stdin and not sys.stdin.closed and sys.stdin.isatty():
        raise InputError("nothing to read: name a file, or pipe the tool's output in", "the command line")
    return decoded(read_standard_input(MOST_BYTES), STANDARD_INPUT, coloured=True)


@cluster.command("init")
def init(
    gpus: Annotated[str, opt("--gpus", "The GPUs in a line: 8xH100,4xL40S.", "N x GPU,…")],
    output: OutputOpt = None,
    force: ForceOpt = False,
) -> None:
    """A commented cluster file from a line of GPUs.

    Example: meshwright cluster init --gpus 8xH100,4xL40S -o cluster.yaml
    """
    from planner.clusters.writing import init as text_of

    _deliver(text_of(gpus), output, force)


def _deliver(text: str, output: str | None, force: bool) -> None:
    """The cluster file on stdout, or in a file that is named; one that someone has edited stays unless
    `force` is given. Raises InputError."""
    from planner.cli.output import note, write

    if output is None:
        print(text, end="")
        return
    if not force and _holds_other_text(Path(output), text):
        raise InputError(f"`{output}` is there, with other content", "-o", "name a new file, or add --force")
    write(output, text)
    note(f"written to {output}: meshwright plan {output} --model MODEL")


def _holds_other_text(file: Path, text: str) -> bool:
    """Whether a file is there and says something else."""
    try:
        if not file.is_file():
            return False
        size, own = file.stat().st_size, text.encode()
        return size > 0 and (size != len(own) or file.read_bytes() != own)
    except (OSError, ValueError):  # what is wrong with it is told where it is written
        return False


for _source in SOURCES:
    cluster.command(f"from-{_source.name}")(reader(_source))

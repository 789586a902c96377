"""The command `meshwright`: finds the command's file, runs it, and makes what goes wrong one clear message.

Commands are loaded when they are run, so that `--help` and typing errors answer at once.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from keyword import iskeyword
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from planner.cli import failures
from planner.cli.help import Grouped, opt
from planner.cli.output import plain
from planner.errors import INTERRUPTED_EXIT, UNREAD_EXIT

COMMANDS = {
    "plan": "Plan how to serve a model on the GPUs you have.",
    "buy": "What to rent for a model: the best mix of a price list.",
    "pareto": "Curves: speed, cost or energy against what it takes.",
    "explain": "What holds a plan back, and why not another design.",
    "fit": "Does it fit? Memory, longest context, most users.",
    "experts": "Place a model's experts: replicas, balance, traffic, moves.",
    "predict": "Predict latency and throughput of each row of a table.",
    "calibrate": "Refine predictions by your own measurements.",
    "probe": "List the benchmarks that would make predictions surer.",
    "export": "Write the files that start a plan: scripts or manifests.",
    "report": "Write a plan as a page or picture to pass on; compare several.",
    "import": "Read a launch command or manifest, and say how good it is.",
    "schedule": "What to rent in each hour, for the least money.",
    "workload": "Make a workload of recorded requests; list those known.",
    "simulate": "Replay requests on a plan: does it hold?",
    "check": "Check a plan from its own figures alone.",
    "replan": "Repair a plan of chains after nodes have left.",
    "diff": "Show what differs between two plans.",
    "sweep": "Plan every cell of a grid; resumes where it was stopped.",
    "cluster": "Make a cluster file: from other tools' output, or one line.",
    "devices": "List the GPUs known, or show one with its sources.",
    "models": "List the models known, or show one.",
    "schema": "Print a JSON Schema: cluster, workload, plan or sweep.",
    "version": "Print the version.",
}
"""Command name, which is also its file in planner/cli and the function in it, and its line in `--help`."""


class LazyGroup(TyperGroup):
    """A group that knows names and one-line helps of its commands, and imports a command when it is run."""

    def __init__(self, **attrs: Any) -> None:
        stubs = [TyperCommand(name, help=line, rich_markup_mode=None) for name, line in COMMANDS.items()]
        super().__init__(**(attrs | {"commands": stubs}))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, stub, rest = super().resolve_command(ctx, args)
        return name, stub if name is None else load(name), rest


def load(name: str) -> Any:
    """The command `name` from its own file, as typer makes it from the function's signature; a group of
    commands is a Typer of that name."""
    command = function_of(name)
    if isinstance(command, typer.Typer):
        return typer.main.get_command(command)
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(name, cls=Grouped)(command)
    return typer.main.get_command(app)


def function_of(name: str) -> Any:
    """A command's function or group, in a file of its name; with a `_` behind where Python has the word."""
    own = f"{name}_" if iskeyword(name) else name
    return getattr(import_module(f"planner.cli.{own}"), own)


app = typer.Typer(
    cls=LazyGroup,
    rich_markup_mode=None,  # plain help: loading rich would take longer than all the rest of `--help`
    add_completion=True,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start with: meshwright plan --gpus 8xH100 --model llama-3.1-70b",
)


@app.callback()
def meshwright(
    ctx: typer.Context,
    version: Annotated[bool, opt("--version -V", "Print the version.")] = False,
) -> None:
    """Plans how to serve a language model on the GPUs you have, and proves how good the plan is."""
    if version:
        from planner.cli.version import version as print_version

        print_version()
        raise typer.Exit()
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


def told(args: Sequence[str]) -> list[str]:
    """The words of a command line as the command's options take them (`spelling.py`). Raises InputError where
    it would write over a file that it reads."""
    from planner.cli.spelling import command_of, own_input, spelt
    from planner.cli.synonyms import unknown_command
    from planner.errors import InputError

    own_input(args)
    if list(args[:1]) == ["help"]:
        args = [*args[1:], "--help"]
    at = command_of(args, COMMANDS)
    if at is None:
        first = next((word for word in args if not word.startswith("-")), "")
        if ours := unknown_command(first):
            line = COMMANDS[ours].rstrip(".")
            raise InputError(f"no such command: {first}", hint=f"meshwright {ours}: {line}")
        return list(args)
    function = function_of(args[at])
    if isinstance(function, typer.Typer):
        return list(args)
    return [*args[: at + 1], *spelt(args[at + 1 :], function, load(args[at]))]


def run(args: Sequence[str]) -> int:
    """Run one command line; return its exit code. What goes wrong is reported here, and nowhere else."""
    try:
        code = typer.main.get_command(app).main(told(args), prog_name="meshwright", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except KeyboardInterrupt:
        return INTERRUPTED_EXIT
    except (Exception, SystemExit) as error:
        return UNREAD_EXIT if failures.is_unread(error) else failures.report(error, as_json="--json" in args)
    finally:
        failures.drop_unwritten()


def main() -> None:
    """Entry point of the console script."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115 - closed by whoever started us
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        plain(stream)
    if not os.environ.get("MESHWRIGHT_DEBUG"):
        warnings.simplefilter("ignore")  # of libraries, for developers: no part of our answer
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()

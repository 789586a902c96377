"""How options and arguments are declared; help with options in groups, in the order in which a question is
asked."""

from __future__ import annotations

from typing import Any, Final

import typer
from typer.core import TyperCommand

GROUPS: Final[dict[str, tuple[str, ...]]] = {
    "Model and GPUs": (
        "--model",
        "--gpus",
        "--cluster",
        "--engine",
        "--precision",
        "--precisions",
        "--kv-precision",
    ),
    "Load": ("--workload", "--trace", "--isl", "--osl", "--rate", "--loop", "--users", "--prefix-hit"),
    "Promises": ("--ttft-ms", "--tpot-ms", "--e2e-ms", "--percentile", "--risk", "--survive"),
    "What is best": ("--objective", "--budget", "--simple", "--max-utilisation"),
    "Speculative decoding": ("--speculation", "--acceptance", "--draft-tokens"),
    "Measurements of your own": ("--profile", "--calibration", "--expert-loads"),
    "Proof": ("--gap", "--time-limit", "--seed"),
    "Output": ("--details", "--json", "--table", "--output", "--out", "--help"),
}
"""Options by what they are about; a command's others stand before them."""

FEWEST: Final = 12
"""Options from which on a command's are grouped."""


def opt(names: str, help: str | None, metavar: str | None = None, **more: Any) -> Any:
    """An option by its names, such as "--model -m"."""
    return typer.Option(*names.split(), help=help, metavar=metavar, **more)


def arg(metavar: str | None, help: str, **more: Any) -> Any:
    """An argument, as help calls it."""
    return typer.Argument(metavar=metavar, help=help, **more)


class Grouped(TyperCommand):
    """A command whose `--help` has its options in groups."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments, then the options: those of no group first."""
        told: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": [], **{g: [] for g in GROUPS}}
        params = self.get_params(ctx)
        few = len(params) < FEWEST
        for param in params:
            line = param.get_help_record(ctx)
            if line is not None:
                own = (g for g, names in GROUPS.items() if not few and set(names) & set(param.opts))
                kind = "Arguments" if param.param_type_name == "argument" else next(own, "Options")
                told[kind].append(line)
        for group, lines in told.items():
            if lines:
                with formatter.section(group):
                    formatter.write_dl(lines)

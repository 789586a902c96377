"""`meshwright export PLAN.json --to TARGET -o DIR`: the files that start a plan."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Annotated

import typer

PlanArg = Annotated[str, typer.Argument(metavar="PLAN.json", help="A plan, as `plan -o` writes it.")]
ToOpt = Annotated[
    str,
    typer.Option(
        "--to",
        metavar="TARGET",
        help="vllm, sglang, tensorrt-llm, llama.cpp, dynamo, llm-d, kserve, ray-serve, slurm, compose, k8s.",
    ),
]
OutputOpt = Annotated[
    str, typer.Option("--output", "-o", metavar="DIR", help="A new folder, or an empty one.")
]
ForceOpt = Annotated[
    bool, typer.Option("--force", help="Write into a folder that has files, over those of the same name.")
]


def export(plan: PlanArg, to: ToOpt, output: OutputOpt, force: ForceOpt = False) -> None:
    """Write the files that start a plan: scripts or manifests, with a README that says how.

    \b
    Examples:
      meshwright export plan.json --to vllm -o serve
      meshwright export plan.json --to k8s -o manifests
    """
    from planner.cli.output import beside, refusing
    from planner.errors import InputError
    from planner.exporters import export as exported
    from planner.plans.verified import read_sound

    found = exported(read_sound(plan), to)
    folder = Path(output)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"`{output}` is a file", "-o", "name a folder")
    if folder.is_dir() and any(folder.iterdir()) and not force:
        raise InputError(f"`{output}` is not empty", "-o", "name a new folder, or add --force")
    with refusing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        part = beside(folder)
        try:
            part.mkdir()
            for name, text in found.items():
                (part / name).write_text(text, encoding="utf-8")
                (part / name).chmod(0o755 if name.endswith(".sh") else 0o644)
            if not folder.exists():
                part.rename(folder)  # all files at once, or none
            for name in found if part.exists() else ():
                os.replace(part / name, folder / name)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    typer.echo(f"{len(found)} files in {output}; begin with README.md")

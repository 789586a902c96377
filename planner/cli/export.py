"""`meshwright export PLAN.json --to TARGET -o DIR`: the files that start a plan."""

from __future__ import annotations

import os
import shutil
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated

from planner.cli import options as o
from planner.cli.help import opt

if TYPE_CHECKING:
    from planner.plans.schema.several import Several


def export(
    plan: o.PlanArg = None,
    *,
    to: Annotated[
        str,
        opt(
            "--to",
            "vllm, sglang, tensorrt-llm, llama.cpp, dynamo, llm-d, kserve, ray-serve, slurm, compose, k8s.",
            "TARGET",
        ),
    ],
    output: Annotated[
        str | None, opt("--output -o", "A new folder, or an empty one. [default: the target's name]", "DIR")
    ] = None,
    force: Annotated[
        bool, opt("--force", "Write into a folder that has files, over those of the same name.")
    ] = False,
) -> None:
    """Write the files that start a plan: scripts or manifests, with a README that says how.

    \b
    Examples:
      meshwright export plan.json --to vllm -o serve
      meshwright export plan.json --to k8s -o manifests

    Of plans of several models each is written into a folder of its own, by the model's name.
    """
    from planner.cli.kept import last
    from planner.cli.output import refusing, say
    from planner.errors import InputError
    from planner.reading.new_files import beside

    plan, output = last(plan), to if output is None else output
    found = _files(plan, to)
    for name in found:
        inside = PurePath(name)
        if inside.is_absolute() or ".." in inside.parts or str(inside) != name:
            hint = "plan again: a server or model of this plan is named like a path"
            raise InputError(f"`{name}` is no plain name of a file in `{output}`", plan, hint)
    with refusing(Path(output)):
        folder = Path(output).resolve()  # a link is written through, as by other commands
    if folder.exists() and not folder.is_dir():
        raise InputError(f"`{output}` is a file", "-o", "name a folder")
    new = not folder.exists()
    with refusing(folder):
        part = beside(folder if new else folder / "files")  # a folder may be a mount: what it gets is on it
    if not new and any(folder.iterdir()) and not force:
        raise InputError(f"`{output}` is not empty", "-o", "name a new folder, or add --force")
    if link := next((p for name in found for p in parents_in(folder, name) if p.is_symlink()), None):
        text = f"`{link.relative_to(folder)}` in `{output}` is a link, which files are not written through"
        raise InputError(text, "-o", "remove it, or name another folder")
    with refusing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            part.mkdir()
            for name, text in found.items():
                (part / name).parent.mkdir(parents=True, exist_ok=True)
                (part / name).write_text(text, encoding="utf-8")
                (part / name).chmod(0o755 if name.endswith(".sh") else 0o644)
            if new:
                part.rename(folder)  # all files at once, or none
            for name in found if part.exists() else ():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                os.replace(part / name, folder / name)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    say(f"{len(found)} files in {output}; begin with README.md")


def parents_in(folder: Path, name: str) -> list[Path]:
    """The folders between `folder` and its file `name`.

    >>> [str(p) for p in parents_in(Path("out"), "org/small/README.md")]
    ['out/org', 'out/org/small']
    """
    steps = PurePath(name).parts[:-1]
    return [folder.joinpath(*steps[: i + 1]) for i in range(len(steps))]


def _files(plan: str, to: str) -> dict[str, str]:
    """The files of a plan by name; of plans of several models, in a folder by the name of each. Raises
    InputError."""
    from planner.errors import InputError
    from planner.exporters import export as exported
    from planner.exporters import target
    from planner.exporters.deployed import model_labels
    from planner.plans.schema.several import Several
    from planner.plans.verified import read_sound_any

    read = read_sound_any(plan)
    if not isinstance(read, Several):
        return exported(read, to)
    target(to)
    found = {"README.md": several_readme(read, to)}
    labels = model_labels([demand.model for demand in read.models])
    for demand, each, label in zip(read.models, read.plans, labels, strict=True):
        try:
            own = exported(each, to, label)
        except InputError as error:  # replicas of several plans have the same names
            raise InputError(f"{demand.model}: {error.message}", error.where, error.hint) from None
        found |= {f"{demand.model}/{name}": text for name, text in own.items()}
    return found


def several_readme(read: Several, to: str) -> str:
    """The page that leads to those of the models."""
    names = [demand.model for demand in read.models]
    return "\n".join(
        [
            f"# {len(names)} models for {to}",
            "",
            f"{read.total.rps:.4g} requests/s on {read.total.gpus:,} GPUs. Each model has a folder,",
            "and all servers have GPUs and ports of their own.",
            "",
            *(f"- [{name}]({name}/README.md)" for name in names),
            "",
        ]
    )

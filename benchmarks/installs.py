"""Installs from the built wheel: `python -m benchmarks.installs [--python 3.11 3.12 3.13]`.

The wheel of this checkout is built once. For every Python that is found, once with the lowest versions of the
direct dependencies that `pyproject.toml` allows and once with the newest, it is installed in an empty
environment (by uv, which is installed beside it) and run in an empty folder: a cluster file and its plan, the
check of that plan, its page, a sweep of two cells and the Python API. A run is right where every command ends
with 0, prints nothing on the error stream that is a warning of a library, and the plan's figures are those of
the first install. Exits with 1 where one is not.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

REPO = Path(__file__).resolve().parents[1]
PYTHONS = ("3.11", "3.12", "3.13")
TOLD = ("numpy", "scipy", "pydantic", "typer", "rich", "pulp", "ruamel-yaml", "joblib", "jinja2")
"""Dependencies whose versions the table shows."""
SWEEP = """\
base: {cluster: c.yaml, model: qwen3-8b}
vary: {isl: [512, 2048]}
"""
API = "from planner import api\nassert api.plan(None, gpus='2xL4', model='qwen3-8b').proof.own > 0\n"


@dataclass
class Outcome:
    """What came of one environment."""

    versions: dict[str, str] = field(default_factory=dict)
    figure: float | None = None
    wrong: list[str] = field(default_factory=list)


def main() -> int:
    """A row an environment."""
    parser = argparse.ArgumentParser(description="Installs from the built wheel.")
    parser.add_argument("--python", nargs="*", default=list(PYTHONS), help="versions to try")
    given = parser.parse_args()
    print(f"| Python | versions | {' | '.join(TOLD)} | plan, check, report, sweep, a mistake, API |")
    print("|---" * (len(TOLD) + 3) + "|")
    first: float | None = None
    failed = 0
    with TemporaryDirectory(prefix="installs-") as scratch:
        folder = Path(scratch)
        uv = _uv(folder / "tools")
        wheel = _wheel(uv, folder / "dist")
        for version in given.python:
            python = interpreter(version)
            if python is None:
                print(f"| {version} | | {' | '.join('' for _ in TOLD)} | no such Python on this machine |")
                continue
            for resolution in ("lowest-direct", "highest"):
                one = tried(uv, wheel, python, resolution, folder / f"{version}-{resolution}")
                first = one.figure if first is None else first
                if one.figure is not None and one.figure != first:
                    one.wrong.append(f"plans {one.figure:.6g} where the first install plans {first:.6g}")
                failed += bool(one.wrong)
                cells = [one.versions.get(name, "") for name in TOLD]
                said = "; ".join(one.wrong) or "right"
                row = [version, resolution.split("-")[0], *cells, said]
                print(f"| {' | '.join(row)} |", flush=True)
    return int(failed > 0)


def interpreter(version: str) -> str | None:
    """Path of a Python of this version: of the search path, or of pyenv's versions."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for candidate in (f"python{version}", *map(str, sorted(root.glob(f"{version}.*/bin/python")))):
        try:
            done = subprocess.run([candidate, "-V"], capture_output=True, text=True, check=False)
        except OSError:
            continue
        if done.returncode == 0 and done.stdout.startswith(f"Python {version}."):
            return candidate
    return None


def tried(uv: str, wheel: Path, python: str, resolution: str, folder: Path) -> Outcome:
    """One environment, made and used."""
    out = Outcome()
    made = _run([uv, "venv", "-q", "--python", python, str(folder / "venv")], folder.parent)
    inside = str(folder / "venv" / "bin" / "python")
    install = [uv, "pip", "install", "-q", "--python", inside]
    wanted = ["--resolution", resolution, "--only-binary", ":all:", "-r", str(REPO / "pyproject.toml")]
    check = [uv, "pip", "check", "--python", inside]
    for words in ([*install, *wanted], [*install, "--no-deps", str(wheel)], check):
        made = made if made.returncode else _run(words, folder.parent)
    if made.returncode:
        out.wrong.append("not installed: " + " ".join(made.stderr.split())[:200])
        return out
    listed = _run([uv, "pip", "list", "--python", inside, "--format", "json"], folder).stdout
    out.versions = {row["name"].lower(): row["version"] for row in json.loads(listed)}
    (folder / "sweep.yaml").write_text(SWEEP, encoding="utf-8")
    for name, words in commands(folder / "venv" / "bin"):
        done = _run(words, folder)
        if name == "mistake":
            if done.returncode != 2 or "Did you mean 'plan'" not in done.stderr:
                out.wrong.append(f"{name}: exit code {done.returncode}: {_last(done.stderr)}")
        elif done.returncode:
            out.wrong.append(f"{name}: exit code {done.returncode}: {_last(done.stderr or done.stdout)}")
        elif "Warning" in done.stderr:
            out.wrong.append(f"{name}: {_last(done.stderr)}")
    plan = folder / "p.json"
    if plan.is_file():
        out.figure = json.loads(plan.read_text(encoding="utf-8"))["predicted"]["rps"]["value"]
    return out


def commands(binaries: Path) -> Iterator[tuple[str, list[str]]]:
    """What is run, by name, in this order."""
    tool, python = str(binaries / "meshwright"), [str(binaries / "python"), "-W", "error"]
    yield "version", [tool, "--version"]
    yield "cluster", [tool, "cluster", "init", "--gpus", "4xH100,4xL40S", "-o", "c.yaml"]
    yield "plan", [tool, "plan", "c.yaml", "-m", "llama-3.1-70b", "-o", "p.json"]
    yield "check", [tool, "check", "p.json"]
    yield "report", [tool, "report", "p.json", "-o", "p.html"]
    yield "sweep", [tool, "sweep", "sweep.yaml", "-o", "rows.jsonl"]
    yield "mistake", [tool, "pln"]
    yield "API", [*python, "-c", API]


def _uv(folder: Path) -> str:
    """uv in an environment of its own."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin" / "pip"), "install", "-q", "uv"]
    subprocess.run(pip, check=True, stderr=subprocess.DEVNULL)
    return str(folder / "bin" / "uv")


def _wheel(uv: str, folder: Path) -> Path:
    """The wheel of this checkout, built through its source distribution, as a publisher would."""
    subprocess.run([uv, "build", "-q", str(REPO), "--out-dir", str(folder)], check=True)
    return next(folder.glob("*.whl"))


def _run(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """A command in this folder, without the paths and settings of the caller's Python."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV", "MESHWRIGHT"))}
    folder.mkdir(parents=True, exist_ok=True)
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, env=kept)


def _last(text: str) -> str:
    """The last line of what was printed."""
    return (text.strip().splitlines() or [""])[-1][:200]


if __name__ == "__main__":
    sys.exit(main())

"""Same input, same bytes: `python -m benchmarks.same [--only COMMAND]`.

Commands are run again, under other hash seeds, numbers of threads and locales, and with the entries of their
YAML files in another order; what they print must be the same to the byte, but for the seconds that they took.
Of a cluster whose nodes are listed in another order the plan must be the same but for the order in which it
names what is alike: its figures are compared. Exits with 1 where anything differs.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.fuzz.kinds import plan
from benchmarks.fuzz.samples import AGENTS, CLOUD, CLUSTER, CONFIG, DAY, WORKLOAD
from benchmarks.fuzz.writing import written

REPO = Path(__file__).resolve().parents[1]
COMMANDS = {
    "plan": "plan c.yaml -m qwen3-8b -w w.yaml --json",
    "plan, cost": "plan cheap.yaml -m llama-3.1-8b --rate 20 --objective cost --json",
    "plan, kept cache": "plan --gpus 2xL4 -m qwen3-8b -w agents.yaml --json",
    "plan, chains": "plan --gpus 2xL4,1xT4 -m qwen3-8b --engine chains --json",
    "fit": "fit c.yaml -m qwen3-8b --json",
    "experts": "experts loads.csv --gpus 4 --slots 3 --json",
    "predict": "predict rows.csv --out /dev/stdout",
    "calibrate": "calibrate measured.csv -o /dev/stdout",
    "simulate": "simulate plan.json --requests 400 --seed 3 --json",
    "simulate, trace": "simulate plan.json --trace trace.csv --json",
    "workload": "workload trace.csv --slot 1",
    "schedule": "schedule cloud.yaml -m qwen3-0.6b -w day.yaml --json",
    "cluster": "cluster init --gpus 8xH100,4xL40S",
    "schema": "schema plan",
}
AROUND: Mapping[str, Mapping[str, str]] = {
    "again": {},
    "hash seed 1": {"PYTHONHASHSEED": "1"},
    "hash seed 2": {"PYTHONHASHSEED": "2"},
    "1 thread": {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    "4 threads": {"OMP_NUM_THREADS": "4", "OPENBLAS_NUM_THREADS": "4"},
    "C locale": {"LC_ALL": "C"},
    "another time zone": {"TZ": "Asia/Tokyo"},
}
CHEAP = {
    "nodes": [
        {"name": "a", "count": 2, "device": "l4", "gpus_per_node": 4, "price_usd_per_hour": 2.8},
        {"name": "b", "count": 1, "device": "a100-sxm", "gpus_per_node": 2, "price_usd_per_hour": 3.1},
    ]
}
SECONDS = re.compile(r'"(seconds|took_s)": [\d.e+-]+')


def main() -> int:
    """A line a command."""
    parser = argparse.ArgumentParser(description="Same input, same bytes.")
    parser.add_argument("--only", choices=COMMANDS, nargs="*", default=list(COMMANDS))
    chosen, differ = parser.parse_args().only, 0
    print(f"| command | {' | '.join(AROUND)} | fields in another order | nodes in another order |")
    print("|---" * (len(AROUND) + 3) + "|")
    with TemporaryDirectory(prefix="same-") as one, TemporaryDirectory(prefix="same-") as turned:
        prepared(Path(one), lambda tree: tree)
        prepared(Path(turned), backwards)
        for what in chosen:
            command = COMMANDS[what]
            first = printed(command, one, {"PYTHONHASHSEED": "0"})
            cells = [_same(first, printed(command, one, env)) for env in AROUND.values()]
            cells.append(_same(first, printed(command, turned, {})))
            with TemporaryDirectory(prefix="same-") as other:
                prepared(Path(other), nodes_last)
                cells.append(_alike(first, printed(command, other, {})))
            differ += sum(cell != "same" for cell in cells)
            print(f"| {what} | {' | '.join(cells)} |", flush=True)
    return int(differ > 0)


def prepared(folder: Path, order: Any) -> None:
    """The files that the commands read, their fields in this order."""
    for name, tree in {
        "c.yaml": CLUSTER,
        "cheap.yaml": CHEAP,
        "w.yaml": WORKLOAD,
        "agents.yaml": AGENTS,
        "config.json": CONFIG,
        "cloud.yaml": CLOUD,
        "day.yaml": DAY,
        "plan.json": plan("--gpus 2xL4 -m qwen3-8b --rate 0.5"),
    }.items():
        (folder / name).write_bytes(written(name, order(tree)))
    for name, own in {
        "loads.csv": "expert_loads.csv",
        "rows.csv": "rows.csv",
        "measured.csv": "measured.csv",
        "trace.csv": "trace.csv",
    }.items():
        (folder / name).write_bytes((REPO / "docs" / "examples" / own).read_bytes())


def backwards(tree: Any) -> Any:
    """Fields of everything in the opposite order; lists stay."""
    if isinstance(tree, dict):
        return {key: backwards(tree[key]) for key in reversed(tree)}
    return [backwards(part) for part in tree] if isinstance(tree, list) else tree


def nodes_last(tree: Any) -> Any:
    """The nodes of a cluster, and the buckets of a workload, in the opposite order."""
    return {k: v[::-1] if k in ("nodes", "buckets", "links") else v for k, v in tree.items()}


def printed(command: str, folder: str, env: Mapping[str, str]) -> str:
    """What a command says on stdout, without seconds."""
    around = {**os.environ, "PYTHONPATH": str(REPO), **env}
    words = [sys.executable, "-m", "planner.cli.app", *command.split()]
    done = subprocess.run(words, cwd=folder, env=around, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 4) or not done.stdout:
        raise RuntimeError(f"{command}: exit code {done.returncode}: {done.stderr}")
    return SECONDS.sub('"seconds": 0', done.stdout)


def _same(one: str, other: str) -> str:
    if one == other:
        return "same"
    pairs = zip(one.splitlines(), other.splitlines(), strict=False)
    return next((f"`{a.strip()[:40]}` / `{b.strip()[:40]}`" for a, b in pairs if a != b), "longer")


def _alike(one: str, other: str) -> str:
    """Plans by what they predict and prove, all else by the byte."""
    if '"predicted": {' not in one or '"proof": {' not in one or '"$defs"' in one:
        return "same" if sorted(one.splitlines()) == sorted(other.splitlines()) else "other lines"
    parts = [json.loads(text) for text in (one, other)]
    told = [{k: _rounded(p[k]) for k in ("predicted", "proof")} for p in parts]
    for t in told:
        t["proof"].pop("space", None)
        t["proof"].pop("seconds", None)
    differ = [k for k in told[0]["predicted"] if told[0]["predicted"][k] != told[1]["predicted"][k]]
    return "same" if not differ else f"{', '.join(differ)} differ"


def _rounded(value: Any) -> Any:
    """Figures to six digits: sums in another order differ in the last ones."""
    if isinstance(value, dict):
        return {k: _rounded(v) for k, v in value.items()}
    return float(f"{value:.6g}") if isinstance(value, float) else value


if __name__ == "__main__":
    sys.exit(main())

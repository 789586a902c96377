"""Plans whose strings were written by someone hostile: what their exported scripts run is engines alone.

Every string of a plan, one after the other, becomes a payload, in plans of several kinds. What is still read
as a plan is exported to every target, and its scripts run in a folder of their own where the engines, routers
and Slurm's commands are programs that do nothing; a payload that a shell runs, or a redirection, leaves a
file there.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from ruamel.yaml import YAML

from planner.errors import InputError
from planner.exporters import EXPORTERS, export
from planner.launch.words import ASKED_FOR
from planner.plans import reading
from planner.plans.schema import Plan
from planner.reading.documents import Document
from tests.exporters.samples import made, replica

PAYLOADS = (
    "x\ntouch PWNED\n#",
    "$(touch PWNED)",
    "`touch PWNED`",
    "x;touch PWNED;",
    "x' ; touch PWNED ; '",
    'x" ; touch PWNED ; "',
    "x > PWNED",
    "x & touch PWNED &",
    "{touch,PWNED}",
    "${HOME}",
    "${X:=$(touch PWNED)}",
    "\\\ntouch PWNED\n",
    "'\"'\"$(touch PWNED)",
    "x\rtouch PWNED",
    "-x=$(touch PWNED)",
)
KINDS: dict[str, Any] = {
    "vllm": lambda: made(replica("r1", "vllm", tp=4, count=2)),
    "vllm, nodes": lambda: made(replica("r1", "vllm", attn_dp=16, ep=16)),
    "vllm, pair": lambda: made(replica("p1", "vllm", "prefill", tp=4), replica("d1", "vllm", "decode", tp=4)),
    "sglang": lambda: made(replica("r1", "sglang", tp=16, count=2)),
    "sglang, pair": lambda: made(
        replica("p1", "sglang", "prefill", tp=8), replica("d1", "sglang", "decode", tp=8)
    ),
    "trtllm": lambda: made(replica("r1", "trtllm", tp=8, count=2)),
    "llama.cpp": lambda: made(replica("r1", "llama.cpp", pp=4)),
    "several engines": lambda: made(replica("r1", "vllm", tp=8), replica("r2", "sglang", tp=8)),
}
PROGRAMS = (
    *("vllm", "python", "python3", "trtllm-serve", "trtllm-llmapi-launch", "llama-server", "vllm-router"),
    *("srun", "rpc-server", "ggml-rpc-server"),
)
"""What scripts start; `scontrol` and `hostname` answer."""
ANSWERS = {"scontrol": "h-0\nh-1", "hostname": "10.0.0.1 10.0.0.2"}
SEED = 58


@cache
def source(kind: str) -> str:
    """A plan of a kind, with as few nodes as its groups may take: each has a string of its own."""
    found = json.loads(KINDS[kind]().model_dump_json(by_alias=True))
    for r in found["replicas"]:
        for stage in r["stages"]:
            stage["nodes"] = stage["nodes"][:4]
    found["problem"]["cluster"]["nodes"][0]["count"] = 4
    return json.dumps(found)


def leaves(part: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Places of all strings, and of keys of mappings (with a `None` behind them)."""
    for key, value in part.items() if isinstance(part, dict) else enumerate(part):
        if isinstance(part, dict):
            yield (*at, key, None)
        if isinstance(value, str):
            yield (*at, key)
        elif isinstance(value, dict | list):
            yield from leaves(value, (*at, key))


def planted(kind: str, at: tuple[Any, ...], payload: str) -> str:
    """The plan with a payload at a place; a string that is met elsewhere changes there, too, so that names
    still lead to what they name."""
    whole = json.loads(source(kind))
    inside = whole
    key_only = at[-1] is None
    path = at[:-1] if key_only else at
    for step in path[:-1]:
        inside = inside[step]
    if key_only:
        inside[payload] = inside.pop(path[-1])
        return json.dumps(whole)
    old = inside[path[-1]]
    inside[path[-1]] = payload
    return json.dumps(everywhere(whole, old, payload) if old else whole)


def everywhere(part: Any, old: str, new: str) -> Any:
    if isinstance(part, dict):
        return {everywhere(k, old, new): everywhere(v, old, new) for k, v in part.items()}
    if isinstance(part, list):
        return [everywhere(v, old, new) for v in part]
    return new if part == old else part


def read(text: str) -> Plan | None:
    """The plan, or nothing where the reader refuses it."""
    try:
        return reading.from_document(Document(json.loads(text), "plan.json"))
    except (InputError, ValidationError):
        return None


@pytest.fixture(scope="module")
def programs(tmp_path_factory) -> Path:
    """A folder of programs that do nothing."""
    folder = tmp_path_factory.mktemp("bin")
    for name in (*PROGRAMS, *ANSWERS):
        (folder / name).write_text(f"#!/bin/sh\nprintf '%s\\n' '{ANSWERS.get(name, '')}'\n")
        (folder / name).chmod(0o755)
    return folder


def run_all(files: dict[str, str], programs: Path, folder: Path) -> list[str]:
    """Run the scripts; what they left in their folder, or in their home."""
    env = {"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(folder / "home"), "SLURM_JOB_NODELIST": "h"}
    env |= dict.fromkeys(ASKED_FOR, "given")
    before = set(os.listdir(folder))
    lines = [text for name, text in files.items() if name.endswith((".sh", ".sbatch"))]
    lines += list(container_commands(files))
    if lines:
        nodes = {f"NODE_{w}": "h" for w in ("R1_0", "R1_1", "P1_0", "D1_0")}
        whole = "\n".join(f"(\n{text}\n)" for text in lines)
        subprocess.run(["bash", "-c", whole], cwd=folder, env=env | nodes, capture_output=True, check=False)
    return sorted(set(os.listdir(folder)) - before)


def container_commands(files: dict[str, str]) -> Iterator[str]:
    """What `sh -c` runs in containers, as Kubernetes passes it on."""
    for name, text in files.items():
        if name.endswith(".yaml"):
            for word in shells(list(YAML(typ="safe").load_all(text))):
                yield word.replace("$$", "$")


def shells(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        command = [*(part.get("command") or []), *(part.get("args") or [])]
        if command[:2] == ["sh", "-c"]:
            yield command[2]
        for value in part.values():
            yield from shells(value)
    elif isinstance(part, list):
        for value in part:
            yield from shells(value)


def cases(kind: str) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Every place with one payload by seed; names, which reach scripts, with all."""
    chance = random.Random(f"{SEED} {kind}")
    met = set()
    for at in leaves(json.loads(source(kind))):
        alike = tuple("[]" if isinstance(step, int) else step for step in at)
        if alike in met:  # one place of a list stands for all
            continue
        met.add(alike)
        named = at[-1] in ("id", "model_id", "name", "hf_id", "option") or "nodes" in at[-2:]
        for payload in PAYLOADS if named else (chance.choice(PAYLOADS),):
            yield at, payload


@pytest.mark.parametrize("kind", KINDS)
def test_no_string_of_a_plan_runs(kind: str, programs: Path, tmp_path: Path) -> None:
    exported = set()
    for at, payload in cases(kind):
        plan = read(planted(kind, at, payload))
        for to in EXPORTERS if plan else ():
            try:
                files = export(plan, to)
            except (InputError, LookupError, ValueError):  # what the command's check refuses before
                continue
            text = "\n".join(files.values())
            if (to, text) in exported:
                continue
            exported.add((to, text))
            assert run_all(files, programs, tmp_path) == [], f"{kind}, {at}, {payload!r}, {to}"
            assert not any(name.startswith(("/", "-")) or ".." in name for name in files)
            if payload == "${HOME}" and "router.sh" in files:
                assert '"http://${HOME}' not in files["router.sh"]
    assert len(exported) > 3

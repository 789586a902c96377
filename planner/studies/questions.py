"""From a cell of a sweep to its question, which any process can answer, and to the figures of the answer.

A question is known by its digest: of all that it was read and defaulted to, and of what answers it. Cells
whose options come to the same question have one digest, however they are written.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.errors import MeshwrightError
from planner.studies.grid import FILE_OPTIONS, Cell
from planner.studies.journal import Cache

if TYPE_CHECKING:
    from planner.api import Asking
    from planner.plans.schema import Plan

Answer = dict[str, Any]
"""The fields of a row that do not depend on how its cell is written."""

WORK_LIMIT_NODES = 10_000
"""Nodes of branch and bound a cell; about a minute where one is hard."""
TIME_LIMIT_S = 600.0
READ_BY_NAME: tuple[str, ...] = ("trace", "profile", "calibration", "expert_loads", "speculation")
"""Options whose files a question knows by name, or in part: their content is hashed."""
PACKAGES = ("planner", "solvers", "model_zoo", "cluster_configs")
LIBRARIES = ("numpy", "scipy", "highspy", "ortools", "pulp")
"""That have a part in the figures of a plan."""

_ONE_AT_A_TIME = threading.Lock()
"""Workers of a cluster may run tasks in threads; plans are made one at a time in a process."""


@dataclass(frozen=True)
class Planner:
    """`resolve`: from a cell to the digest of its question and the question; `plan`: from a question to its
    plan, in any process; both raise MeshwrightError. `cache`: answers that are shared with other sweeps."""

    resolve: Callable[[Cell], tuple[str, Any]]
    plan: Callable[[Any], Plan]
    cache: Cache | None = None


def resolve(cell: Cell) -> tuple[str, Asking]:
    """Digest and question of a cell, whose options are named as on the command line. Raises InputError.

    Limited by work, so that a cell has the same answer on a busy machine; the clock only ends the endless.
    """
    from planner.api import ask  # here, not above: whoever only writes down answers needs no solvers

    options = {"work_limit": WORK_LIMIT_NODES, "time_limit": TIME_LIMIT_S, **cell}
    files = {name: found for name in READ_BY_NAME if (found := file_digest(cell.get(name, "")))}
    cluster, model = options.pop("cluster", None), options.pop("model")
    asking = ask(cluster, model, time_limit_s=options.pop("time_limit"), **options)
    return digest(asking, files), asking


def plan(asking: Asking) -> Plan:
    """The plan of a question, without what only explains it, which a row does not keep."""
    from planner.api import answer as plan_of

    return plan_of(asking, time.perf_counter(), explain=False)


REAL = Planner(resolve, plan)


def digest(asking: Asking, files: dict[str, str]) -> str:
    """Hash of a question, of the content of `files`, and of who answers it. What a plan only repeats (names
    of the cluster and of the model's source, which limits nobody asked for but those that may give way) is
    not in it."""
    from planner.question.asked import problem_of

    problem = problem_of(asking.asked).model_dump(mode="json")
    problem["cluster"].pop("name", None)
    problem.pop("model_id", None)
    problem["defaulted"] = sorted(name for name in problem["defaulted"] if name.startswith("slo."))
    content = json.dumps([made_by(), problem, asdict(asking.limits), files], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


@cache
def made_by() -> str:
    """Who answers: hash of our own files, and of the versions of the libraries that compute."""
    root, hashed = Path(__file__).resolve().parents[2], hashlib.sha256()
    for path in (path for package in PACKAGES for path in sorted((root / package).rglob("*"))):
        if path.is_file() and "__pycache__" not in path.parts:
            hashed.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes() + b"\0")
    hashed.update(json.dumps([_version(name) for name in LIBRARIES]).encode())
    return hashed.hexdigest()


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"


def file_digest(name: object) -> str | None:
    """Hash of the file `name`, also of a drafter as in `draft:config.json`; None where it is no file but a
    name from a catalog, or a number."""
    try:
        return hashlib.sha256(Path(str(name).removeprefix("draft:")).read_bytes()).hexdigest()
    except (OSError, ValueError):
        return None


def key(cell: Cell) -> str:
    """What a cell's answer depends on, hashed: its options, content of the files they name, our version."""
    from planner.version import __version__

    files = {name: file_digest(cell[name]) for name in FILE_OPTIONS if name in cell}
    content = json.dumps([__version__, cell, files], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:24]


class Unlike(MeshwrightError):
    """A worker that would answer otherwise: it has other files of ours, or other libraries."""


def answer(plan: Callable[[Any], Plan], asker: str, question: Any) -> Answer | None:
    """What a worker makes of a question: a plan's figures, or why there is none; None: it was interrupted.

    `asker`: `made_by` of the sweep. Raises Unlike where the worker is not the same.
    """
    if made_by() != asker:
        raise Unlike("a worker has other files of Meshwright, or other versions of its libraries")
    with _ONE_AT_A_TIME:
        try:
            found = plan(question)
        except Exception as failure:  # a bug in one cell must not lose the others
            return failed(failure)
    return None if found.proof.status == "interrupted" else figures(found)


def figures(plan: Plan) -> Answer:
    """The figures of a plan that a row keeps."""
    from planner.reading.figures import rounded
    from planner.reports.words import short

    told = {
        "status": plan.proof.status,
        "objective": plan.proof.objective,
        "gap": plan.proof.gap,
        "predicted": plan.predicted.model_dump(),
    }
    replicas = [short(r) for r in plan.replicas]
    return {"exit_code": plan.proof.exit_code, **rounded(told), "replicas": replicas, "error": None}


def failed(failure: Exception) -> Answer:
    """Why there is no plan, in the form of an answer."""
    if isinstance(failure, MeshwrightError):
        exit_code, error = failure.exit_code, failure.as_json()["error"]
    else:
        message = f"unexpected {type(failure).__name__}: {failure}"
        exit_code, error = 1, {"code": "error", "message": message, "where": None, "hint": None}
    nothing: Answer = {"status": None, "objective": None, "gap": None, "predicted": None, "replicas": []}
    return {"exit_code": exit_code, **nothing, "error": error}

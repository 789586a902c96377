"""Whole steps beside the best product of matrices that was measured on their device:
`python -m benchmarks.choice rates`.

The plans of the shipped clusters, as `tests/golden/plans` has them: the FLOPs of all requests that a group of
replicas serves, over the time that its fullest stage is busy. And random designs (`--problems`, `--seed`):
the rate that `predict` says, over all their time. Both as shares of the device's best product, by arithmetic
that errs low (`benchmarks/floors.py`); beyond 1 a figure is faster than anything that was ever measured.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.floors import Work
from benchmarks.roofline import BEYOND, Ratio, measured
from benchmarks.scores.render import table
from cluster_configs import devices
from planner.check.case import Case, Load, open_case
from planner.plans.schema import Plan, Replica

PLANS = Path(__file__).resolve().parents[2] / "tests" / "golden" / "plans"

ROLES = ("mixed", "prefill", "decode")
"""Of whole replicas; those of chains and of split layers share theirs with others."""

DESIGNS = 500
"""Random ones, where nobody says how many."""

WORST = 5
"""Plans that are shown."""


def report(designs: int = DESIGNS, seed: int = 0) -> str:
    """The tables."""
    found = sorted(shipped(), key=lambda share: -share[1])
    heads = ("plan, replica: whole steps over the best product", "share")
    lines = [[name, f"{share:.2f}"] for name, share in found[:WORST]]
    middle = float(np.median([share for _, share in found]))
    beyond = sum(share > BEYOND for _, share in found)
    said = (
        f"{len(found)} groups of replicas, {beyond} beyond the best product; the median share is {middle:.2f}"
    )
    return "\n\n".join(
        (table(heads, lines), said, of_random(*measured(np.random.default_rng(seed), designs)))
    )


def of_random(found: Sequence[Ratio], left: int) -> str:
    """Random designs by role."""
    heads = ("random designs", "n", "beyond", "median share", "largest")
    lines = []
    for role in ROLES:
        shares = [r.of["compute"] for r in found if r.cells["role"] == role]
        if shares:
            beyond = sum(share > BEYOND for share in shares)
            figures = (f"{x:.2f}" for x in (np.median(shares), max(shares)))
            lines.append([role, str(len(shares)), str(beyond), *figures])
    return table(heads, [*lines, ["do not fit or divide", str(left), "", "", ""]])


def shipped() -> Iterator[tuple[str, float]]:
    """Of each group of replicas of the plans of shipped clusters, its whole steps over the best product."""
    for path in sorted(PLANS.glob("*.json")):
        form = json.loads(path.read_text(encoding="utf-8"))
        case = open_case(read(form))
        assert isinstance(case, Case)
        for replica in case.plan.replicas:
            share = whole_share(case, replica)
            if share is not None:
                yield f"{path.stem}, {replica.id}", share


def read(form: dict[str, Any]) -> Plan:
    """A golden plan, which leaves out how long it took."""
    return Plan.model_validate({**form, "proof": {"seconds": 0.0, **form["proof"]}})


def whole_share(case: Case, replica: Replica) -> float | None:
    """FLOPs of all requests of a group while its fullest stage is busy, over its best product; None where
    it has layers or experts beside its GPUs, is a part of a chain, or serves nothing."""
    load = case.loads[replica.id]
    beside = any(part.replica == replica.id for part in case.plan.tiers)
    if case.card is None or not load.rps or replica.role not in ROLES or beside or case.measured(replica):
        return None
    busy = 0.0
    for stage in replica.stages:
        work = Work(case.card, devices.find(stage.device), replica.precision.kv)
        layers = (stage.layers[1] - stage.layers[0]) / len(case.card.stack)
        busy = max(busy, layers * request_s(case, replica, load, work) / stage.gpus / replica.count)
    return busy / replica.utilisation if replica.utilisation else None


def request_s(case: Case, replica: Replica, load: Load, work: Work) -> float:
    """GPU-seconds a second that the requests of a group take at the best product, the LM head apart."""
    total = 0.0
    for bucket, rate in load.buckets:
        isl, osl = (np.array([float(x)]) for x in (bucket.isl, bucket.osl))
        if replica.role != "decode":
            new = np.array([case.new_tokens(replica, bucket)])
            total += rate * float(work.prompt_s(new, isl)[0] - work.head_s)
        if replica.role != "prefill":
            steps = (bucket.osl - 1) / replica.emitted
            total += rate * steps * float(work.decode_s(isl, osl)[0] - work.head_s)
    return total

"""One model of a server: what `predict` says of every replica of a plan, at the load the plan gives it.

`python -m benchmarks.agreement [--all]` plans the shipped clusters (cluster_configs/examples), with a rate
and without, and some dozen problems more; says every replica as a row of `predict`; and prints the worst
differences of TTFT, TPOT, tokens/s and watts. Exit code 1 where one is beyond `MOST`.

At random a replica gets its own share of the rate. In a closed loop, as many requests are in flight on it as
the plan has there by Little's law; but prompts come to a prefill replica at random in either case. Not every
design can be said as a row (`UNSAID`); those are counted.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cluster_configs.reading import from_gpus, read_cluster
from cluster_configs.schema import ResolvedCluster
from planner.api import with_loads
from planner.designs.shape import Stage
from planner.designs.stages import stage_layers
from planner.errors import Infeasible, OutOfTime
from planner.plans.found import Group, groups
from planner.predict.predictions import Prediction, predict_rows
from planner.question.asked import Asked, read
from planner.question.posed import pose
from planner.search.find import find
from planner.search.simple import simplest
from solvers.linear import Limits

MOST = 0.01
"""Difference that is still agreement, as a share: sequences and rates are found by bisection."""

WORK = 200
"""Branch-and-bound nodes of each plan, at a gap of `GAP`: any sound fleet will do."""
GAP = 0.05

EXAMPLES = Path(__file__).resolve().parents[1] / "cluster_configs" / "examples"

UNSAID = (
    "weights in host memory",
    "shards of unlike GPUs",
    "attention apart from FFNs",
    "cache read from beside the GPUs",
)
"""Why a replica is no row."""

Cells = dict[str, str]


@dataclass(frozen=True)
class Problem:
    """A cluster (a file's stem among the examples, or GPUs in a line) and what to serve on it."""

    cluster: str
    model: str
    ask: Mapping[str, Any]

    @property
    def nodes(self) -> ResolvedCluster:
        file = EXAMPLES / f"{self.cluster}.yaml"
        return read_cluster(file) if file.is_file() else from_gpus(self.cluster)

    def __str__(self) -> str:
        return " ".join([self.cluster, self.model, *(f"{k}={v}" for k, v in self.ask.items())])


@dataclass(frozen=True)
class Difference:
    """A replica group's figure by the plan and by `predict`."""

    where: str
    figure: str
    planned: float
    predicted: float

    @property
    def size(self) -> float:
        return abs(self.predicted / self.planned - 1) if self.planned else float(self.predicted != 0)


@dataclass(frozen=True)
class Agreement:
    """What was compared, and how many replica groups could not be, by the reason."""

    differences: tuple[Difference, ...]
    unsaid: Mapping[str, int]

    @property
    def worst(self) -> list[Difference]:
        return sorted(self.differences, key=lambda d: -d.size)


def agreement(problem: Problem) -> Agreement:
    """Of every replica group of the problem's plan. Raises Infeasible, OutOfTime: there is none."""
    asked, made = planned(problem)
    told: list[tuple[Group, Cells]] = []
    unsaid = Counter[str]()
    for g in made:
        row = said(asked, g)
        if isinstance(row, str):
            unsaid[row] += 1
        else:
            told.append((g, row))
    answers = predict_rows([cells for _, cells in told], asked.calibration, asked.cluster)
    found: list[Difference] = []
    for (g, _), answer in zip(told, answers, strict=True):
        if not isinstance(answer, Prediction):
            raise answer
        found += differences(f"{problem}: {g.candidate.id}", g, answer)
    return Agreement(tuple(found), unsaid)


def planned(problem: Problem) -> tuple[Asked, list[Group]]:
    """The problem as used, and the replica groups of its plan at their load; the plan's explanations are left
    out."""
    load = {k: v for k, v in problem.ask.items() if k in ("isl", "osl", "rate", "percentile", "ttft_ms")}
    load |= {k: v for k, v in problem.ask.items() if k == "tpot_ms"}
    options = {k: v for k, v in problem.ask.items() if k not in load and k != "workload"}
    workload = problem.ask.get("workload", "chat")
    asked = with_loads(read(problem.nodes, problem.model, None, workload, load, options), None)
    asked, pool, question = pose(asked)
    limits = Limits(GAP, 60.0, WORK, seed=0)
    found = find(question, pool, limits)
    if found.solution.objective is None:
        raise Infeasible("no fleet")
    return asked, groups(simplest(question, found, asked.options.simple, limits).chosen)


def said(asked: Asked, g: Group) -> Cells | str:
    """A replica group's server as cells of the `predict` table, or why it is none."""
    c, d, s = g.candidate, g.candidate.design, g.setup
    if d.offloads:
        return UNSAID[0]
    if d.layout:
        return UNSAID[2]
    if d.stages and not all(type(stage) is Stage for stage in d.stages):
        return UNSAID[1]
    if s.place is not None:
        return UNSAID[3]
    cells = {
        "model": asked.card.name,
        "engine": c.engine,
        "precision": asked.options.precision or "",
        "kv_precision": s.model.precisions.kv,
        "role": "prefill" if s.mix.steps == 0 else c.role,
        "chunk": str(s.token_budget),  # as its launch line says
        "max_osl": str(asked.workload.max_osl or ""),
        "mix": "+".join(_bucket(asked, g, w) for w, rate in enumerate(g.operation.rate) if rate > 0),
        "prefix_hit": str(float(1 - s.mix.new[0] / s.mix.isl[0])),
    }
    like = tuple(Stage(c.node_class, d.tp, x) for x in stage_layers(len(asked.card.stack), d.pp))
    if d.stages and d.stages != like:
        stages = [(x.node_class, x.tp, x.layers[1] - x.layers[0]) for x in d.stages]
        cells["stages"] = "+".join(f"{name}:tp{tp}:{layers}" for name, tp, layers in stages)
    else:
        sizes = d.sizes | {"redundant": d.redundant, "cp": d.cp}
        cells |= {"device": c.node_class} | {k: str(v) for k, v in sizes.items()}
    return cells | _load(asked, g)


def _bucket(asked: Asked, g: Group, w: int) -> str:
    bucket, rate = asked.workload.buckets[w], g.operation.rate
    return f"{bucket.isl}:{bucket.osl}:{float(rate[w] / rate.sum())!r}"


def _load(asked: Asked, g: Group) -> Cells:
    """What comes to one replica: requests/s at random, or so many always in flight."""
    op, ranks = g.operation, g.candidate.design.attn_dp
    if asked.workload.loop == "open":
        rate = float(op.rate.sum()) * ranks
        return {"rate_rps": repr(rate), "percentile": asked.workload.slo.percentile}
    if g.candidate.role == "prefill" or g.setup.mix.steps == 0:
        return {"rate_rps": repr(float(op.rate.sum()) * ranks)}
    inside = op.in_flight(g.setup.mix.osl, g.candidate.role)
    return {"concurrency": repr(inside * ranks), "start": "steady"}


def differences(where: str, g: Group, answer: Prediction) -> Iterator[Difference]:
    """Figure by figure: times are means over the requests that the replica serves."""
    op, ranks, osl = g.operation, g.candidate.design.attn_dp, g.setup.mix.osl
    tokens = op.rate if answer.tpot_ms is None else op.rate * osl
    planned = {"tok/s": float(tokens.sum()) * ranks, "watts": op.watts}
    predicted = {"tok/s": answer.out_tok_per_s, "watts": answer.watts}
    if answer.ttft_ms is not None:
        planned["TTFT"] = 1e3 * float(op.rate @ op.ttft_s / op.rate.sum())
        predicted["TTFT"] = answer.ttft_ms
    if answer.tpot_ms is not None and (osl > 1).any():
        decoding = op.rate * (osl > 1)
        planned["TPOT"] = 1e3 * float(decoding @ op.tpot_s / decoding.sum())
        predicted["TPOT"] = answer.tpot_ms
    for figure, value in planned.items():
        yield Difference(where, figure, value, float(predicted[figure] or np.nan))


SHIPPED = {
    "a100-40-and-80": ("mistral-nemo-12b", 20.0),
    "desktop-rtx": ("llama-3.1-8b", 1.0),
    "four-small-boxes": ("qwen3-8b", 4.0),
    "gb200-nvl72": ("llama-3.1-70b", 100.0),
    "gh200-480gb": ("llama-3.1-405b-fp8", 0.01),
    "h100-8": ("llama-3.1-70b", 8.0),
    "h200-2x8": ("qwen3-30b-a3b", 60.0),
    "l40s-and-h100": ("qwen3-8b", 30.0),
    "lab": ("llama-3.1-8b", 20.0),
    "mac-and-4090": ("llama-3.1-8b", 1.0),
    "melange-cloud": ("qwen2.5-7b", 30.0),
    "mi300x-8": ("llama-3.1-405b", 1.0),
    "mixed-generations": ("llama-3.1-8b", 60.0),
    "spot-cloud": ("llama-3.1-8b", 30.0),
    "t4-cloud": ("qwen3-4b", 0.6),
    "ten-thousand": ("llama-3.1-8b", 2000.0),
    "three-zones": ("qwen3-1.7b", 5.0),
}
"""Examples with a model of a fitting size and a rate that they serve; not those that need host memory."""

MORE = (
    ("8xH100", "llama-3.1-70b", {"engine": "trtllm"}),
    ("8xH100", "llama-3.1-70b", {"engine": "sglang", "rate": 6.0, "percentile": "p95", "ttft_ms": 1500}),
    ("8xH100", "llama-3.1-70b", {"ttft_ms": 500}),
    ("8xH100", "llama-3.1-70b", {"isl": 4000, "osl": 1000}),
    ("8xH100", "llama-3.1-70b", {"rate": 4.0, "objective": "energy"}),
    ("8xH100", "llama-3.1-70b", {"rate": 4.0, "objective": "latency"}),
    ("8xH100", "llama-3.1-70b", {"isl": 2000, "osl": 1}),
    ("8xH200", "deepseek-v3", {}),
    ("16xH200", "deepseek-v3", {"rate": 10.0, "percentile": "p90"}),
    ("8xB200", "deepseek-v3", {"isl": 8000, "osl": 500, "engine": "sglang"}),
    ("8xB200", "gpt-oss-120b", {}),
    ("8xB200", "llama-3.1-405b-fp8", {"ttft_ms": 900}),
    ("8xA100", "qwen3-32b", {"ttft_ms": 400}),
    ("8xA100", "llama-3.1-70b", {"rate": 2.0, "percentile": "p99"}),
    ("8xA100", "gpt-oss-120b", {"ttft_ms": 730}),
    ("8xH100,16xL40S", "llama-3.1-70b", {}),
    ("8xH100,8xL40S", "qwen3-32b", {"rate": 8.0, "percentile": "p95"}),
    ("4xL4,4xT4,4xA10", "qwen3-32b", {"ttft_ms": "none", "tpot_ms": "none"}),
    ("8xL40S", "llama-3.1-70b", {"ttft_ms": "none", "tpot_ms": "none"}),
    ("8xH100", "qwen3-235b-a22b-fp8", {"ttft_ms": 3000}),
    ("8xH100", "llama-3.1-70b", {"workload": "agent"}),
    ("8xH100", "llama-3.1-70b", {"workload": "rag", "rate": 2.0}),
    ("8xH100", "llama-3.1-8b", {"workload": "long-context"}),
    ("8xH200", "llama-3.1-70b", {"workload": "long-context", "rate": 0.2, "ttft_ms": 60000}),
    ("8xH200", "qwen3-30b-a3b", {"workload": "reasoning", "engine": "trtllm"}),
    ("8xMI300X", "llama-3.1-70b", {"workload": "code"}),
    ("4xRTX4090", "qwen3-32b", {"rate": 0.4, "percentile": "p90", "ttft_ms": 8000}),
)
"""Problems more: splits, pipelines, attention dp, copies of experts, long prompts, every percentile."""


def problems() -> list[Problem]:
    """All of them."""
    found = [Problem(*each) for each in MORE]
    for name, (model, rate) in SHIPPED.items():
        found += [Problem(name, model, {}), Problem(name, model, {"rate": rate, "percentile": "p95"})]
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Plan, say, compare, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.agreement")
    parser.add_argument("--worst", type=int, default=12, help="differences to print (12)")
    options = parser.parse_args(argv)
    whole: list[Difference] = []
    unsaid, none = Counter[str](), list[str]()
    for problem in problems():
        try:
            found = agreement(problem)
        except (Infeasible, OutOfTime) as error:
            none.append(f"{problem}: {error}")
            continue
        whole += found.differences
        unsaid.update(found.unsaid)
    print(report(Agreement(tuple(whole), unsaid), options.worst))
    for line in none:
        print(f"no plan: {line}")
    return int(any(not d.size <= MOST for d in whole))


def report(found: Agreement, worst: int) -> str:
    """The counts and the worst, as text."""
    replicas = len({d.where for d in found.differences})
    lines = [f"{replicas} replica groups, {len(found.differences)} figures"]
    for figure in ("TTFT", "TPOT", "tok/s", "watts"):
        sizes = [d.size for d in found.differences if d.figure == figure]
        if sizes:
            beyond = sum(not size <= MOST for size in sizes)
            most = f"median {np.median(sizes):.3%}, most {max(sizes):.2%}"
            lines.append(f"{figure:6} {len(sizes):4}: {most}, {beyond} beyond {MOST:.0%}")
    lines += [f"not a row: {reason}: {count}" for reason, count in found.unsaid.items()]
    lines += [
        f"{d.size:8.3%} {d.figure:6} plan {d.planned:10.4g} predict {d.predicted:10.4g}  {d.where}"
        for d in found.worst[:worst]
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())

"""Fleets of one design, enumerated and told through `predict` alone: witnesses that no search made.

Every usual layout on every class is asked of `predict` at the load that each of 1, 2, 3 … like replicas has:
of random arrivals at the problem's rate, else of closed loops of several sizes. A fleet counts where it fits
its nodes, every request has room, its limits hold with the caution of its own bands, and `note` says nothing
against it. GPUs of no replica draw what they do at rest.

Of several kinds of request `predict` tells means over all, so that limits and latencies of each are not
known: such problems are judged where they have no limits and another goal.

`python -m benchmarks.honest.predicted [--problems N] [--seed S]`: random problems of all goals, mostly with
experts, of one or three kinds of request; exits with 1 where a fleet is better than a bound.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from benchmarks.honest.answers import NORMAL90, Answer, Comparison, Effort, ask
from benchmarks.honest.problems import LENGTHS, Problem, holds
from benchmarks.honest.relations import largest
from cluster_configs.reading import from_gpus
from cluster_configs.schema import NodeClass, ResolvedCluster
from model_zoo import catalog
from planner.cost.power import idle_watts
from planner.cost.student import deviations
from planner.inputs.workload import Bucket, Slo
from planner.predict.predictions import Prediction, predict_rows

KIND = "a fleet of one design, told by predict"

SIZES = (1, 2, 4, 8, 16)
"""tp, pp and attention-dp that are tried."""

INSIDE = (4, 16, 64, 128, 256)
"""Requests in flight on a replica of a closed loop."""

COUNTS = (1, 2, 3, 4, 6, 8, 16)
"""Replicas."""


@dataclass(frozen=True)
class Told:
    """A fleet of `count` replicas as `predict` has it."""

    node: NodeClass
    cells: Mapping[str, str]
    count: int
    prediction: Prediction

    @property
    def gpus(self) -> int:
        """Of all replicas."""
        return self.count * _gpus(self.cells)

    def __str__(self) -> str:
        shown = ("engine", "tp", "pp", "attn_dp", "ep", "concurrency", "rate_rps")
        return f"{self.count} x {self.node.id} " + " ".join(
            f"{k}={v}" for k in shown if (v := self.cells.get(k))
        )


GOALS = ("energy", "latency", "energy", "latency", "gpus", "cost", "throughput")

MODELS = ("qwen3-30b-a3b", "gpt-oss-20b", "mixtral-8x7b", "gpt-oss-120b", "llama-3.1-8b", "qwen3-32b")

CLUSTERS = ((8, "h100-sxm"), (4, "h200-sxm"), (8, "l40s"), (8, "a100-sxm"), (4, "b200-sxm"), (8, "l4"))

THREE = 0.4
"""Share of problems with three kinds of request, and no limits."""


def problem_of(seed: int, number: int) -> Problem:
    """Problem `number` of `seed`; its rate is to be set where it has a goal beside throughput."""
    rng = np.random.default_rng([seed, number, 57])
    model, entry = str(rng.choice(MODELS)), CLUSTERS[int(rng.integers(len(CLUSTERS)))]
    while not holds(model, *entry):
        model, entry = str(rng.choice(MODELS)), CLUSTERS[int(rng.integers(len(CLUSTERS)))]
    several = bool(rng.random() < THREE)
    lengths = [LENGTHS[int(i)] for i in rng.choice(len(LENGTHS), size=3 if several else 1, replace=False)]
    buckets = tuple(
        Bucket(isl=isl, osl=osl, share=round(float(rng.uniform(0.2, 1)), 2)) for isl, osl in lengths
    )
    slo = Slo(ttft_ms=None, tpot_ms=None) if several else Slo()
    engine = str(rng.choice(("vllm", "sglang", "trtllm")))
    share, goal = float(rng.uniform(0.1, 0.9)), GOALS[int(rng.integers(len(GOALS)))]
    goal = "energy" if several and goal == "latency" else goal
    return Problem((entry,), model, buckets, slo, goal, engine=engine, risk=0.2, share=share)


def main(argv: Sequence[str] | None = None) -> int:
    """Plan each problem and compare its bound; prints every comparison."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.honest.predicted")
    parser.add_argument("--problems", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options, refuted = parser.parse_args(argv), 0
    for number in range(options.problems):
        problem, effort = problem_of(options.seed, number), Effort(seconds=30.0, gap=0.01)
        if problem.objective != "throughput":
            most = largest(problem, effort)
            problem = replace(problem, rate=round(problem.share * (most.value or 0.0), 6) or None)
        claim = ask(problem, effort)
        for one in compared(claim):
            refuted += one.refuted
            said = "REFUTED" if one.refuted else "holds"
            print(f"{number} {problem.objective} {said} {one.excess:+.4f}: {one.words}")
            print(f"  {one.bounded}", flush=True)
    print(f"{refuted} bounds refuted")
    return int(refuted > 0)


def compared(claim: Answer) -> Iterator[Comparison]:
    """The best of the fleets against a claim."""
    best = best_of(claim.problem)
    if best is not None:
        value, told = best
        yield from Comparison.of(KIND, claim, value, claim.problem.command, str(told))


def best_of(problem: Problem) -> tuple[float, Told] | None:
    """The figure of the problem's goal that the best of the fleets has, and that; None where none is known to
    keep the limits, or the problem asks for what `predict` does not know."""
    if problem.survive or problem.acceptance or not _known(problem):
        return None
    cluster = from_gpus(problem.gpus)
    found = [(figure(problem, cluster, told), told) for told in fleets(problem, cluster)]
    if not found:
        return None
    return (max if problem.objective == "throughput" else min)(found, key=lambda one: one[0])


def _known(problem: Problem) -> bool:
    """Limits and latencies of several kinds of request, and percentiles of a closed loop, are not told."""
    slo, several = problem.slo, len(problem.buckets) > 1
    if several and (slo.ttft_ms is not None or slo.tpot_ms is not None or problem.objective == "latency"):
        return False
    return problem.rate is not None or problem.objective == "throughput"


def figure(problem: Problem, cluster: ResolvedCluster, told: Told) -> float:
    """What a fleet has of the problem's goal."""
    p, osl = told.prediction, problem.buckets[0].osl
    if problem.objective == "throughput":
        mean = sum(b.osl * share for b, share in zip(problem.buckets, problem.workload.shares, strict=True))
        return told.count * (p.out_tok_per_s or 0.0) / mean
    if problem.objective == "energy":
        rest = {n.id: n.gpus - (told.gpus if n.id == told.node.id else 0) for n in cluster.classes}
        at_rest = sum(rest[n.id] * idle_watts(n.device.tdp_watts) for n in cluster.classes)
        return told.count * (p.watts or 0.0) + at_rest
    if problem.objective == "latency":
        return ((p.ttft_ms or 0.0) + (osl - 1) * (p.tpot_ms or 0.0)) / 1e3
    if problem.objective == "cost":
        each = told.node.gpus_per_node
        nodes = -(-told.gpus // each) if _gpus(told.cells) <= each else told.gpus // each
        return nodes * (told.node.price_usd_per_hour or 0.0)
    return float(told.gpus)


def fleets(problem: Problem, cluster: ResolvedCluster) -> Iterator[Told]:
    """Those that keep all that is asked."""
    asked = [
        (node, {**cells, **load}, count)
        for node in cluster.classes
        for cells in layouts(problem, node)
        for count in COUNTS
        if _stands(node, _gpus(cells), count) and count * _gpus(cells) <= (problem.most_gpus or 10**9)
        for load in loads(problem, count)
    ]
    answers = predict_rows([cells for _, cells, _ in asked], None, cluster)
    for (node, cells, count), answer in zip(asked, answers, strict=True):
        if isinstance(answer, Prediction) and answer.fits and not answer.note and kept(problem, answer):
            yield Told(node, cells, count, answer)


def layouts(problem: Problem, node: NodeClass) -> Iterator[dict[str, str]]:
    """Rows of the usual layouts on a class, without a load."""
    card = catalog.find(problem.model)[0]
    engines = ("vllm", "sglang", "trtllm") if problem.engine == "any" else (problem.engine,)
    for engine, tp, pp, dp in product(engines, SIZES, SIZES[:3], SIZES if card.moe else (1,)):
        if tp * pp * dp > node.gpus or (tp * dp > node.gpus_per_node):
            continue
        for ep in dict.fromkeys((1, tp * dp)) if card.moe else (1,):
            yield {
                **{"model": problem.model, "device": node.id, "engine": engine, "start": ""},
                **{"tp": str(tp), "pp": str(pp), "attn_dp": str(dp), "ep": str(ep) if card.moe else ""},
                **{
                    "kv_precision": card.weights.kv,
                    "prefix_hit": f"{problem.prefix_hit:g}",
                    **_lengths(problem),
                },
            }


def _lengths(problem: Problem) -> dict[str, str]:
    if len(problem.buckets) == 1:
        return {"isl": str(problem.buckets[0].isl), "osl": str(problem.buckets[0].osl)}
    shares = zip(problem.buckets, problem.workload.shares, strict=True)
    return {"mix": "+".join(f"{b.isl}:{b.osl}:{share:.12g}" for b, share in shares)}


def loads(problem: Problem, count: int) -> Sequence[dict[str, str]]:
    """Of each of `count` replicas."""
    if problem.rate is not None:
        return [{"rate_rps": f"{problem.rate / count:.12g}", "percentile": problem.slo.percentile}]
    return [{"concurrency": str(inside), "start": "steady"} for inside in INSIDE]


def kept(problem: Problem, answer: Prediction) -> bool:
    """Whether the limits hold with the caution that the risk asks for."""
    score = deviations(1 - problem.risk) / NORMAL90
    bands = (
        (answer.ttft_ms, answer.ttft_ms_high, problem.slo.ttft_ms),
        (answer.tpot_ms, answer.tpot_ms_high, problem.slo.tpot_ms),
    )
    for value, high, limit in bands:
        if value is None or high is None:
            return False
        if limit is not None and value * (high / max(value, 1e-30)) ** score > limit:
            return False
    return True


def _gpus(cells: Mapping[str, str]) -> int:
    """Of one replica."""
    return int(cells["tp"]) * int(cells["pp"]) * int(cells["attn_dp"])


def _stands(node: NodeClass, gpus: int, count: int) -> bool:
    """Whether the replicas stand on the class: several in a node, or whole nodes each."""
    if gpus > node.gpus_per_node:
        return gpus % node.gpus_per_node == 0 and count * gpus <= node.gpus
    return count <= node.gpus // node.gpus_per_node * (node.gpus_per_node // gpus)


if __name__ == "__main__":
    sys.exit(main())

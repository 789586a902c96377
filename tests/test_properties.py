"""What must hold of every answer, whatever the cluster: more is never worse, names mean nothing, together is
no worse than apart, and the verifier agrees.

All are compared through their proofs: the bound of the easier question is no worse than what the harder one
reached. Small clusters with one kind of request are solved to a gap of zero; where that is reached, so are
the objectives themselves (to the solver's tolerance). Where easing a late replica cost something, a gap is
left and printed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster
from planner import api
from planner.check import check
from planner.errors import Infeasible
from planner.inputs.options import ObjectiveName as Objective
from planner.inputs.workload import Bucket, Slo, Workload
from planner.question.asked import read
from planner.question.posed import pose
from planner.search.find import find
from solvers.linear import EXACT, Limits, gap

MODEL = "llama-3.1-8b"
TOLERANCE = 1e-5
"""Relative: a solver's rows hold to about 1e-6, and so does what follows from them."""

OPEN = 0.02
"""Gap to which loads of two buckets are solved."""

FEW = settings(max_examples=6, suppress_health_check=list(HealthCheck))


@dataclass(frozen=True)
class Entry:
    """One entry of `nodes:`."""

    device: str
    count: int = 1
    gpus: int = 1
    price: float = 1.0

    def yaml(self, name: str) -> dict[str, Any]:
        return {
            "name": name,
            "device": self.device,
            "count": self.count,
            "gpus_per_node": self.gpus,
            "price_usd_per_hour": self.price,
        }


@dataclass(frozen=True)
class Asked:
    """A cluster and a load on it."""

    entries: tuple[Entry, ...]
    workload: Workload
    objective: Objective = "throughput"
    names: tuple[str, ...] = ()

    @property
    def rate(self) -> float | None:
        return None if self.objective == "throughput" else self.workload.rate_rps


@dataclass(frozen=True)
class Answer:
    """Larger is better: throughput, or what is spent with its sign turned. None: infeasible, worst of all."""

    value: float | None
    bound: float | None

    @property
    def exact(self) -> bool:
        """Whether value and bound are one number."""
        return None not in (self.value, self.bound) and gap(self.value, self.bound) <= EXACT


def answer(asked: Asked, gap: float = 0.0) -> Answer:
    """The best fleet's objective and bound."""
    key = repr((asked, gap))
    if key not in _ANSWERS:
        _ANSWERS[key] = _answer(asked, gap)
    return _ANSWERS[key]


def _answer(asked: Asked, gap: float) -> Answer:
    names = asked.names or tuple(f"n{i}" for i in range(len(asked.entries)))
    form = {"name": "c", "nodes": [e.yaml(n) for e, n in zip(asked.entries, names, strict=True)]}
    load = asked.workload.model_copy(update={"rate_rps": asked.rate})
    if len(load.buckets) > 1:  # a bound is left open there, however long it is worked on
        gap = max(gap, OPEN)
    options = {"objective": asked.objective, "engine": "vllm", "gap": gap}
    stated = read(resolve(Cluster.model_validate(form)), MODEL, None, load, {}, options)
    try:
        _, pool, question = pose(stated)
    except Infeasible:
        return Answer(None, None)
    s = find(question, pool, Limits(gap=gap, work=500)).solution
    sign = 1.0 if asked.objective == "throughput" else -1.0
    if s.objective is None or s.bound is None:
        return Answer(None, None)
    made = Answer(sign * s.objective, sign * s.bound)
    assert no_worse(made, made)
    return made


_ANSWERS: dict[str, Answer] = {}
"""Questions that came up before: several tests ask the same ones."""


def no_worse(better: Answer, worse: Answer) -> bool:
    """Whether the easier question has an answer at least as good as the harder one's."""
    if worse.value is None:
        return True
    if better.value is None or better.bound is None:
        return False
    slack = TOLERANCE * abs(worse.value)
    if better.bound < worse.value - slack:
        return False
    return not better.exact or better.value >= worse.value - slack


def same(a: Answer, b: Answer) -> bool:
    return no_worse(a, b) and no_worse(b, a)


entries = st.builds(
    Entry,
    device=st.sampled_from(["l4", "l40s", "a100-sxm", "h100-sxm"]),
    count=st.integers(1, 3),
    gpus=st.sampled_from([1, 2]),
    price=st.sampled_from([0.5, 1.0, 2.0, 4.5]),
)
clusters = st.lists(entries, min_size=1, max_size=2, unique_by=lambda e: e.device).map(tuple)
workloads = st.builds(
    Workload,
    buckets=st.sampled_from(
        [
            [Bucket(isl=1024, osl=256)],
            [Bucket(isl=300, osl=40)],
            [Bucket(isl=512, osl=128, share=0.7), Bucket(isl=4096, osl=300, share=0.3)],
        ]
    ),
    rate_rps=st.sampled_from([0.5, 3.0, 9.0]),
    slo=st.builds(
        Slo,
        ttft_ms=st.sampled_from([2000.0, 5000.0]),
        tpot_ms=st.sampled_from([60.0, 90.0]),
        percentile=st.sampled_from(["mean", "p95"]),
    ),
    prefix_hit=st.sampled_from([0.0, 0.3]),
)
goals = st.sampled_from(["throughput", "cost", "gpus"])
questions = st.builds(Asked, clusters, workloads, goals)


def changed(asked: Asked, k: int, **change: Any) -> Asked:
    """`asked` with its k-th entry changed."""
    k %= len(asked.entries)
    made = tuple(replace(e, **change) if i == k else e for i, e in enumerate(asked.entries))
    return replace(asked, entries=made)


@FEW
@given(questions, st.integers(0, 1), st.integers(1, 2))
def test_more_nodes_are_never_worse(asked: Asked, k: int, more: int):
    count = asked.entries[k % len(asked.entries)].count

    assert no_worse(answer(changed(asked, k, count=count + more)), answer(asked))


@FEW
@given(questions, entries)
def test_another_class_of_nodes_is_never_worse(asked: Asked, extra: Entry):
    assert no_worse(answer(replace(asked, entries=(*asked.entries, extra))), answer(asked))


@FEW
@given(questions, st.sampled_from(["ttft_ms", "tpot_ms"]), st.sampled_from([1.3, 3.0, None]))
def test_a_looser_slo_is_never_worse(asked: Asked, field: str, times: float | None):
    slo = asked.workload.slo
    looser = slo.model_copy(update={field: times and times * getattr(slo, field)})
    easier = replace(asked, workload=asked.workload.model_copy(update={"slo": looser}))

    assert no_worse(answer(easier), answer(asked))


@FEW
@given(questions, st.integers(0, 1), st.sampled_from([0.0, 0.4, 0.9]))
def test_a_lower_price_is_never_worse(asked: Asked, k: int, times: float):
    paid = replace(asked, objective="cost")
    price = asked.entries[k % len(asked.entries)].price

    assert no_worse(answer(changed(paid, k, price=times * price)), answer(paid))


@FEW
@given(questions, st.sampled_from(["cost", "gpus"]), st.sampled_from([0.3, 0.8]))
def test_less_traffic_is_never_worse(asked: Asked, goal: Objective, times: float):
    asked = replace(asked, objective=goal)
    load = asked.workload
    lighter = load.model_copy(update={"rate_rps": times * (load.rate_rps or 1.0)})

    assert no_worse(answer(replace(asked, workload=lighter)), answer(asked))


@FEW
@given(questions, st.sampled_from([0.999, 0.97, 0.4]))
def test_any_rate_below_the_highest_of_random_arrivals_is_served(asked: Asked, part: float):
    drawn = asked.workload.model_copy(update={"rate_rps": None, "arrivals": "open"})
    most = answer(replace(asked, workload=drawn, objective="throughput")).value
    if most is None:
        return
    lower = drawn.model_copy(update={"rate_rps": part * most})

    assert answer(replace(asked, workload=lower, objective="gpus")).value is not None


@FEW
@given(questions, st.sampled_from([("zz", "a"), ("node-1", "node"), ("h100_sxm", "x.y")]))
def test_order_and_names_of_nodes_mean_nothing(asked: Asked, names: tuple[str, ...]):
    renamed = replace(asked, entries=asked.entries[::-1], names=names[: len(asked.entries)])

    assert same(answer(renamed), answer(asked))


@FEW
@given(questions, st.integers(0, 1), st.integers(1, 3))
def test_a_class_in_two_entries_is_the_same_class(asked: Asked, k: int, count: int):
    k %= len(asked.entries)
    entry = asked.entries[k]
    whole = changed(asked, k, count=entry.count + count)
    parts = (*asked.entries, replace(entry, count=count))

    assert same(answer(replace(asked, entries=parts)), answer(whole))


@FEW
@given(entries, entries, workloads)
def test_a_mixed_cluster_serves_at_least_what_its_parts_serve_apart(a: Entry, b: Entry, load: Workload):
    apart = [answer(Asked((entry,), load)).value or 0.0 for entry in (a, b)]
    together = answer(Asked((a, b), load))

    assert no_worse(together, Answer(sum(apart) or None, None))


@FEW
@given(entries, entries, workloads, st.sampled_from([0.5, 0.2]))
def test_a_mixed_cluster_costs_at_most_what_its_parts_cost_apart(
    a: Entry, b: Entry, load: Workload, share: float
):
    rate = load.rate_rps or 1.0
    loads = [load.model_copy(update={"rate_rps": r}) for r in (share * rate, rate - share * rate)]
    apart = [answer(Asked((entry,), part, "cost")).value for entry, part in zip((a, b), loads, strict=True)]
    together = answer(Asked((a, b), load, "cost"))

    if apart[0] is not None and apart[1] is not None:
        assert no_worse(together, Answer(apart[0] + apart[1], None))


LARGE = (Entry("a100-sxm", 40, 8, 10.0), Entry("h100-sxm", 25, 8, 20.0), Entry("l40s", 30, 4, 2.0))
CHAT = Workload(buckets=[Bucket(isl=1024, osl=256)], rate_rps=2000.0, slo=Slo())


def proven(asked: Asked) -> Answer:
    return answer(asked, gap=0.02)


@pytest.mark.parametrize("goal", ["throughput", "cost", "gpus"])
def test_on_a_large_cluster_no_easier_question_has_a_bound_below_the_harder_ones_answer(goal: Objective):
    asked = Asked(LARGE, CHAT, goal)
    easier: Sequence[Asked] = [
        changed(asked, 0, count=41),
        replace(asked, workload=CHAT.model_copy(update={"slo": Slo(ttft_ms=2500, tpot_ms=60)})),
        changed(asked, 1, price=19.0),
        replace(asked, entries=LARGE[::-1], names=("c", "b", "a")),
    ]
    harder = proven(asked)

    assert harder.value is not None
    for question in easier:
        bound = proven(question).bound
        assert bound is not None
        assert bound >= harder.value * (1 - TOLERANCE if harder.value > 0 else 1 + TOLERANCE)


UNLIKE = Workload(
    buckets=[Bucket(isl=1000, osl=512, share=0.5), Bucket(isl=20000, osl=2, share=0.5)],
    slo=Slo(ttft_ms=60e3, tpot_ms=5e3, percentile="mean"),
    rate_rps=0.05,
)
CACHED = Workload(buckets=[Bucket(isl=900, osl=150)], prefix_hit=0.5)


@pytest.mark.parametrize(
    ("gpus", "options"),
    [
        ("2xL40S,1xH100", {}),
        ("2xL40S,1xH100", {"rate": 3.0, "percentile": "p95", "objective": "gpus"}),
        ("4xA100", {"rate": 0.5, "objective": "energy", "risk": 0.2}),
        ("2xH100", {"rate": 2.0, "objective": "latency", "isl": 4000, "osl": 20}),
        ("2xL4", {"workload": UNLIKE, "objective": "latency"}),
        ("8xL4", {"isl": 300, "osl": 1}),
        ("1xH100", {"rate": 0.1, "objective": "throughput", "percentile": "p99", "isl": 2000, "osl": 2000}),
        ("1xH100", {"rate": 0.1, "objective": "throughput", "percentile": "p50", "isl": 7000, "osl": 400}),
        ("4xL4", {"tpot_ms": "none", "ttft_ms": "none", "precision": "fp8"}),
        ("4xH100", {"budget": "gpus=3", "workload": CACHED}),
        ("1xMI300X,2xA100", {"kv_precision": "fp8"}),
    ],
)
def test_every_plan_passes_its_check(gpus: str, options: dict[str, Any]):
    asked = {"engine": "vllm", "work_limit": 500, "workload": "chat"} | options

    plan = api.plan(None, MODEL, gpus=gpus, **asked)

    assert check(plan) == []
    assert plan.proof.gap <= 0.01
    assert plan.proof.exit_code == 0

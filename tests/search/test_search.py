"""What the search proves, against every fleet of one design: judged by the one model of a server at the load
that it would have, none is better than the bound."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import inf

import numpy as np
import pytest

from planner.candidates.points import KEPT, at_rate, draw
from planner.candidates.setup import Role
from planner.cost.power import idle_watts
from planner.plans import carried
from planner.plans.found import Found, groups
from planner.plans.strain import Late, watts
from planner.question.asked import read
from planner.question.posed import pose
from planner.search import changes
from planner.search import find as module
from planner.search.question import Question
from solvers import fleet
from solvers.fleet.goals import COST, THROUGHPUT
from solvers.fleet.types import Column, FleetProblem, FleetSolution, Stock
from solvers.linear import Limits
from tests.beside.solved import solved

EXACTLY = Limits(gap=0.0, work=10_000)
ASKED = {
    "short answers": {"gpus": "2xH100", "model": "llama-3.1-8b", "isl": 4000, "osl": 20},
    "chat": {"gpus": "4xA100", "model": "qwen3-32b"},
    "experts": {"gpus": "8xH100", "model": "gpt-oss-120b"},
}


def fleets(question: Question, found: Found) -> Iterator[tuple[str, float]]:
    """Every design by itself on 1, 2, 3 … replicas that share the traffic and keep all limits: its name and
    what it takes of the objective."""
    (node,) = question.cluster.classes
    rate = question.traffic.rate_rps
    role: Role = "mixed"
    for s in (made.setup for made in found.pool.plain):
        index = s.fitting
        d, osl = s.designs.take(index), s.mix.osl[0]
        for count in range(1, node.gpus + 1):
            at = at_rate(s, index, rate / count / d.attn_dp, role)
            kept = (at.excess[:, 0] <= KEPT) & (count * d.gpus <= node.gpus) & (at.utilisation <= 1)
            idle = (node.gpus - count * d.gpus) * idle_watts(node.device.tdp_watts)
            watts = count * draw(s, at, role) + idle
            seconds = at.ttft_s[:, 0] + osl * at.tpot_s[:, 0]
            for i in np.flatnonzero(kept):
                name = f"{count} x tp{d.tp[i]} pp{d.pp[i]} dp{d.attn_dp[i]} ep{d.ep[i]}"
                yield name, float((watts if question.objective.name == "energy" else seconds)[i])


def served(c: str, problem: FleetProblem) -> dict[str, float]:
    """What a request/s of each bucket fills of a column's time, of those it serves."""
    return dict(problem.columns[c].use["busy"])


def test_a_late_column_is_charged_more_for_its_traffic_and_in_the_end_does_without_the_bucket():
    own = {c: Column("h100", 1, {"busy": {"0": 0.25, "1": 0.5}}) for c in ("late", "fine", "hopeless")}
    problem = FleetProblem(own, {"h100": Stock(1, 8)}, {"0": 0.5, "1": 0.5}, THROUGHPUT)
    late = [Late("late", "0", 0.5), Late("late", "1", 0.8), Late("hopeless", "0", changes.LIGHTEST / 2)]
    eased = changes.eased(problem, late, 0)
    later = changes.eased(problem, late[:1], changes.EASINGS)

    assert served("late", eased) == {"0": 0.5, "1": 1.0}  # once, for the worst
    assert served("fine", eased) == {"0": 0.25, "1": 0.5}
    assert served("hopeless", eased) == {"1": 0.5}
    assert served("late", later) == {"1": 0.5}
    assert "hopeless" not in changes.eased(eased, [Late("hopeless", "1", 0.0)], 0).columns


@pytest.mark.parametrize("many", [1, 500])
def test_of_fleets_as_good_the_tidier_one_has_fewer_gpus(many, monkeypatch):
    """Two GPUs serve as much as one of the same kind: all of a rate of 3 fits on one GPU of either kind."""
    monkeypatch.setattr(changes, "MANY", many)
    own = {
        "large": Column("h100", 2, {"busy": {"0": 0.2}}),
        "small": Column("h100", 1, {"busy": {"0": 0.2}}),
        "other": Column("h100", 1, {"busy": {"0": 0.1}}),
    }
    alike = {"large": "a", "small": "a", "other": "b"}
    problem = FleetProblem(own, {"h100": Stock(1, 8, 3.0)}, {"0": 1.0}, COST, demand=3.0, kinds=alike)
    found = fleet.solve(replace(problem, columns={"large": own["large"]}), EXACTLY)
    tidy = changes.tidied(problem, found, EXACTLY)

    assert (found.replicas, tidy.objective, tidy.bound) == ({"large": 1}, found.objective, found.bound)
    assert sum(tidy.replicas.values()) == 1
    assert tidy.replicas == ({"small": 1} if many == 1 else tidy.replicas)
    assert "large" not in tidy.replicas
    assert tidy.among == (("large", "small") if many == 1 else ())


@pytest.mark.parametrize(("value", "bound"), [(10.0, 20.0), (20.0, 10.0)])
def test_a_status_is_what_value_and_bound_deserve(value, bound):
    limits = Limits(gap=0.01)
    told = [
        changes.judged(FleetSolution("time_limit", v, bound, "HiGHS"), limits).status
        for v in (value, 1.005 * bound, bound)
    ]

    assert told == ["time_limit", "within_gap", "optimal"]


@pytest.mark.parametrize(
    ("at", "most"),
    [
        (lambda share: 2 * share**3, 0.5 ** (1 / 3)),
        (lambda share: 0.4 * share, 2.5),
        (lambda share: share if share < 0.7 else inf, 0.7),
        (lambda share: 0.5 / max(1 - share / 0.9, 1e-12) if share < 0.9 else inf, 0.45),
        (lambda share: 1e9 * share, 1e-9),
    ],
)
def test_the_most_of_a_fleets_traffic_is_found_from_both_sides(at, most):
    found = carried.most(at, at(1.0))

    assert found <= most * (1 + 1e-6)
    assert found == pytest.approx(most, rel=1e-2, abs=1e-3)


def test_a_limit_that_no_traffic_keeps_leaves_none():
    tried = []

    assert carried.most(lambda share: tried.append(share) or 1.2, 1.2) == 0.0
    assert min(tried) > 1e-5


@pytest.mark.parametrize("rate", [0.5, 2.0, 4.5])
@pytest.mark.parametrize("objective", ["latency", "energy"])
@pytest.mark.parametrize("case", ASKED)
def test_no_fleet_of_one_design_is_better_than_the_bound(case, objective, rate):
    _, question, found = solved(**ASKED[case], rate=rate, objective=objective)
    best = dict(fleets(question, found))

    assert best
    assert min(best.values()) >= found.solution.bound * (1 - 1e-6), min(best, key=best.__getitem__)


def test_limits_that_only_seldom_requests_keep_are_kept():
    """At one request after the other nine of ten are not in time on 8 L4s; at 0.29 a second they are."""
    slo = {"ttft_ms": 426.5, "tpot_ms": 58.7, "percentile": "p90", "risk": 0.2}
    asked = {"gpus": "8xL4", "model": "qwen3-32b", "isl": 376, "osl": 26, "rate": 0.29}
    _, _, found = solved(**asked, **slo, objective="gpus")

    assert found.solution.objective == 8


@pytest.mark.parametrize("most", [800, 715])
def test_under_latency_a_budget_of_watts_counts_what_is_drawn(most):
    """A replica of two GPUs draws 722 W at two requests a second, whatever it would at its whole load."""
    asked = {"gpus": "2xH100", "model": "qwen3-8b", "engine": "vllm", "rate": 2.0, "budget": f"watts={most}"}
    _, _, found = solved(**asked, objective="latency")
    free = solved(**{k: v for k, v in asked.items() if k != "budget"}, objective="latency")[
        2
    ].solution.objective

    assert watts(found, groups(found)) <= most * (1 + 1e-6)
    assert found.solution.bound <= free * (1 + 1e-6)
    assert (found.solution.objective == pytest.approx(free)) == (most > 722)


@pytest.mark.parametrize("objective", ["throughput", "gpus"])
def test_a_sound_problem_is_left_out_only_where_its_relaxation_is_too_far_from_the_bound(objective):
    asked = {"gpus": "8xH100", "model": "llama-3.1-8b"} | ({"rate": 30.0} if objective == "gpus" else {})
    _, question, found = solved(**asked, objective=objective)
    sound, limits = question.state(found.pool), Limits(gap=0.01)
    relaxed = fleet.relaxed(sound, limits)
    worse = question.sign * relaxed

    assert module._may_do(question, sound, None, limits)
    for share, may in ((-0.5, False), (-0.005, True), (-0.02, False), (0.02, True), (0.5, True)):
        assert module._may_do(question, sound, relaxed + share * abs(worse) * question.sign, limits) == may


def test_what_fleets_with_a_candidate_can_be_is_told_as_a_problem_with_all_of_them_has_it(monkeypatch):
    """One with those near the best alone knows of no fleet of two that are not."""
    asked = read(None, "llama-3.1-8b", "2xH100", "chat", {"rate": 3.0}, {"objective": "latency"})
    _, pool, question = pose(asked)
    real, bounds = fleet.solve, []

    def solve(problem, limits, *more):
        s = real(problem, limits, *more)
        bounds.append(s.bound)
        return replace(s, least=dict.fromkeys(problem.columns, 1e-9 * len(bounds)))

    monkeypatch.setattr(fleet, "solve", solve)
    found = module.find(question, pool, EXACTLY)

    assert len(bounds) > 1
    assert set(found.solution.least.values()) == {1e-9}


def test_a_pool_is_given_just_those_candidates_of_a_fleet_that_it_lacks():
    _, _, found = solved("2xH100", "llama-3.1-8b", engine="vllm")
    (used, *_), (other, *_) = (
        [c for c in found.pool.candidates if (c.id in found.solution.replicas) == wanted]
        for wanted in (True, False)
    )
    without = replace(found.pool, candidates=(other,))

    assert module.holding(without, found).candidates[:2] == (other, used)
    assert len(module.holding(without, found).candidates) == 1 + len({*found.solution.replicas} - {other.id})
    assert module.holding(found.pool, found) == found.pool


def test_some_candidates_found_better_than_their_own_columns_have_the_bound_on_all(monkeypatch):
    """Qwen3-235B on 8 H100: a prefill server of the column at 1,000 ms answered later than that in its fleet.
    Its column there was not in the pool, as a design that was banned makes it pointless: 29.137 requests/s
    against a bound of 29.013."""
    _, question, found = solved("2xH100", "llama-3.1-8b", isl=4000, osl=20)
    own = found.solution
    narrow = replace(found, solution=replace(own, objective=0.999 * own.bound, bound=0.99 * own.bound))
    monkeypatch.setattr(module, "find", lambda *_: narrow)

    s = module.restricted(question, found, lambda c: True, Limits(gap=0.01)).solution

    assert (s.bound, s.status) == (own.bound, "within_gap")


def test_a_search_that_ends_by_itself_says_what_left_its_gap_and_one_out_of_time_does_not(monkeypatch):
    asked = read(
        None, "llama-3.1-8b", "2xH100", "chat", {"rate": 3.0}, {"objective": "energy", "engine": "vllm"}
    )
    _, pool, question = pose(asked)
    whole = module.find(question, pool, EXACTLY)

    assert (whole.solution.status, whole.unclosed) == ("time_limit", module.WHOLE)
    assert module.find(question, pool, Limits(gap=0.5, work=1000)).solution.status == "within_gap"
    monkeypatch.setattr(module.time, "monotonic", iter(float(i) for i in range(10**6)).__next__)
    assert module.find(question, pool, Limits(gap=0.0, seconds=20.0)).unclosed == ""

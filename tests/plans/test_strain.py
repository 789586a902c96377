"""How near a fleet is to its limits, by figures made up: which limit counts, whose caution, who is told to
carry less, and how much less. Groups here answer in proportion to their load."""

import math
from dataclasses import dataclass, field, replace
from types import SimpleNamespace as Some

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.inputs.workload import Bucket
from planner.objectives import COST, ENERGY, GPUS, LATENCY, THROUGHPUT
from planner.plans import strain as module
from planner.plans.found import Found, Path
from planner.plans.strain import broken, exact_value, fullness, scaled, strain
from solvers.fleet.types import FleetSolution

TTFT_S, TPOT_S = 2.0, 0.05
"""Limits of the promise below."""


@dataclass(frozen=True)
class Group:
    """A group that promises 2 s and 50 ms: times and fullness in proportion to `load`, all in bucket 0."""

    name: str
    ttft_s: float = 1.0
    tpot_s: float = 0.02
    full: float = 0.5
    watts: float = 300.0
    load: float = 1.0
    count: int = 1
    gpus: int = 2
    role: str = "mixed"
    caution: tuple[float, float] = (1.0, 1.0)
    served: dict = field(default_factory=lambda: {"0": 4.0})
    operation: object = None

    def __post_init__(self):
        own = Some(
            ttft_s=np.array([self.ttft_s * self.load]),
            cautious_ttft_s=np.array([self.caution[0] * self.ttft_s * self.load]),
            tpot_s=np.array([self.tpot_s * self.load]),
            utilisation=self.full * self.load,
            watts=self.watts * self.load,
            sequences=10.0 * self.load if self.full * self.load <= 1.5 else math.inf,
            does=self.role,
        )
        object.__setattr__(self, "operation", self.operation or own)

    @property
    def candidate(self):
        return Some(id=self.name, role=self.role, gpus=self.gpus, of=self)

    @property
    def setup(self):
        promise = Some(ttft_s=TTFT_S, tpot_s=TPOT_S)
        return Some(promise=promise, busiest=0.8)


def operate_anew(group, factor):
    """The group with other traffic."""
    served = {w: factor * rate for w, rate in group.served.items()}
    own = replace(group, load=factor * group.load, operation=None).operation
    return replace(group, served=served, operation=own)


@pytest.fixture(autouse=True)
def made_up(monkeypatch):
    """Paths are the groups', each by itself, unless a fleet lists its own; no two share a link."""
    monkeypatch.setattr(module, "operate_anew", operate_anew)
    monkeypatch.setattr(module, "all_pairs", lambda found, made: [])
    monkeypatch.setattr(module, "busy", lambda found, pairs: found.others)
    monkeypatch.setattr(module, "draw_of", lambda problem, used: 100.0)
    monkeypatch.setattr(module, "paths", lambda found, made: [way(g) for g in made])


def way(first: Group, second: Group | None = None, rate: float = 4.0) -> Path:
    """Requests through a group, or from one to another."""
    after = second or first
    return Path(0, rate, first, second, float(first.operation.ttft_s[0]), float(after.operation.tpot_s[0]))


def found(osl: int = 10, budget=None, objective=THROUGHPUT, links=None, **of) -> Found:
    """A fleet of 4 requests/s."""
    solution = FleetSolution("optimal", 4.0, 4.0, "none", flows={("a", "0"): 4.0}, **of)
    problem = Some(budget=budget or {})
    load = Some(buckets=[Bucket(isl=100, osl=osl)])
    return Found(None, load, objective, None, problem, replace(solution, rate=4.0), others=links or {})


@pytest.mark.parametrize(
    ("group", "fleet", "share"),
    [
        (Group("a"), found(), 0.5),  # full for a half, as late as half of 2 s allow, and 20 of 50 ms
        (Group("a", ttft_s=1.8), found(), 0.9),
        (Group("a", tpot_s=0.04), found(), 0.8),
        (Group("a", tpot_s=0.04), found(osl=1), 0.5),  # nobody waits for a second token
        (Group("a", tpot_s=0.04, caution=(1.0, 1.5)), found(), 1.2),
        (Group("a", caution=(1.5, 1.0)), found(), 0.75),
        (Group("a", full=0.7), found(), 0.7),
        (Group("a", full=0.7, role="prefill"), found(), 0.7 / 0.8),  # it may be 80 % full at most
        (Group("a"), found(budget={"watts": 500.0}), 0.8),  # 300 W, and 100 W of those that idle
        (Group("a", count=2), found(budget={"watts": 1000.0}), 0.7),
        (Group("a"), found(links={"over": 0.9}), 0.9),
        (Group("a"), found(links={"over": 0.1, "out": 0.2}), 0.5),
    ],
)
def test_the_strain_is_the_largest_share_of_any_limit(group, fleet, share):
    easy = Group("easy", full=0.1, ttft_s=0.1, watts=0.0)

    assert strain(fleet, [easy, group]) == strain(fleet, [group, easy]) == pytest.approx(share)


def test_together_a_fleet_keeps_the_mean_of_all_its_requests():
    """3 s, cautious, and 1 s: 2 requests/s and 6 wait 1.5 s in the mean, of 2; each by itself may not."""
    slow, quick = Group("slow", ttft_s=2.0, caution=(1.5, 1.0), full=0.1), Group("quick", full=0.1)
    ways = {"slow": way(slow, rate=2.0), "quick": way(quick, rate=6.0)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "paths", lambda fleet, made: [ways[g.name] for g in made])
        apart, both = found(), replace(found(), together=True)

        assert strain(apart, [slow, quick]) == pytest.approx(1.5)
        assert strain(both, [slow, quick]) == pytest.approx((2 * 3.0 + 6 * 1.0) / 8 / 2)


def test_each_limit_is_kept_by_the_side_that_answers_for_it(monkeypatch):
    """A first token by the group that prefills, the others by the one that decodes."""
    first = Group("p", ttft_s=1.0, tpot_s=9.0, caution=(1.5, 99.0))
    second = Group("d", ttft_s=9.0, tpot_s=0.04, caution=(99.0, 1.2))
    monkeypatch.setattr(module, "paths", lambda fleet, made: [way(first, second)])

    assert strain(found(), [first, second]) == pytest.approx(max(1.5 * 1.0 / 2, 1.2 * 0.04 / 0.05))


def test_what_a_group_cannot_carry_is_no_share():
    assert strain(found(), [Group("a", full=math.inf)]) == math.inf
    assert strain(found(), [Group("a", full=1.6)]) == math.inf  # endlessly many sequences
    assert strain(found(), [Group("a", full=1.4)]) == pytest.approx(1.4)


@given(st.floats(0.1, 2.0), st.floats(0.1, 1.0), st.floats(0.1, 1.9))
def test_with_part_of_the_traffic_the_strain_is_that_part(factor, full, ttft):
    own = [Group("a", full=full, ttft_s=ttft, tpot_s=0.001)]
    expected = factor * max(full, ttft / 2)

    assert strain(found(), own, factor) == pytest.approx(expected if factor * full <= 1.5 else math.inf)


def test_a_fleet_with_part_of_its_traffic_keeps_its_replicas_and_what_is_full_of_links():
    own = found(replicas={"a": 3}, links={"over": 0.4})
    own = replace(own, solution=replace(own.solution, pair_flows={("p", "d", "0"): 2.0}))
    half = scaled(own, 0.5)

    assert half.solution.flows == {("a", "0"): 2.0}
    assert half.solution.pair_flows == {("p", "d", "0"): 1.0}
    assert (half.solution.rate, half.solution.objective) == (2.0, 2.0)
    assert half.solution.replicas == {"a": 3}
    assert half.others == {"over": 0.2}
    assert own.solution.rate == 4.0


def test_prompts_alone_have_a_rule_of_operation_of_their_own():
    assert fullness(Group("a", full=0.8, role="prefill")) == pytest.approx(1.0)
    assert fullness(Group("a", full=0.8, role="decode")) == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("objective", "value"),
    [
        (THROUGHPUT, 4.0),  # as the program has it: a rate is what it is
        (COST, 4.0),
        (ENERGY, 2 * 300.0 + 300.0 + 100.0),
        (GPUS, 2 * 2 + 2),
        (LATENCY, ((1.0 + 9 * 0.02) + (2.0 + 9 * 0.02)) / 2),
    ],
)
def test_the_objective_is_that_of_the_real_load(objective, value):
    made = [Group("a", count=2), Group("b", ttft_s=2.0)]

    assert exact_value(found(objective=objective), made) == pytest.approx(value)


def test_latency_of_a_single_token_is_that_of_the_first():
    assert exact_value(found(osl=1, objective=LATENCY), [Group("a")]) == pytest.approx(1.0)


def test_a_fleet_that_keeps_every_limit_has_nobody_late():
    assert broken(found(), [Group("a", ttft_s=2.0, tpot_s=0.05, full=1.0)]) == []


@pytest.mark.parametrize(
    ("group", "share"),
    [
        (Group("a", ttft_s=4.0), 0.5),
        (Group("a", tpot_s=0.2), 0.25),
        (Group("a", full=1.25), 0.8),
        (Group("a", full=1.0, role="prefill"), 0.8),
        (Group("a", ttft_s=4.0, caution=(2.0, 1.0)), 0.25),
        (Group("a", ttft_s=4.0, tpot_s=0.2), 0.25),
    ],
)
def test_the_late_are_told_the_share_at_which_they_would_be_in_time(group, share):
    """By seven halvings: a share of 128 below the real one at most."""
    (late,) = broken(found(), [Group("easy"), group])

    assert (late.candidate, late.bucket) == ("a", "0")
    assert share - 1 / 128 <= late.share <= share


def test_the_worst_comes_first():
    made = [Group("a", ttft_s=4.0), Group("b", full=8.0), Group("c", tpot_s=0.2)]

    assert [late.candidate for late in broken(found(), made)] == ["b", "c", "a"]


@pytest.mark.parametrize(("ttft_s", "tpot_s", "guilty"), [(4.0, 0.02, "p"), (1.0, 0.1, "d"), (4.0, 0.1, "p")])
def test_of_a_pair_the_side_that_is_late_carries_less(monkeypatch, ttft_s, tpot_s, guilty):
    first, second = Group("p", ttft_s=ttft_s, role="prefill"), Group("d", tpot_s=tpot_s, role="decode")
    monkeypatch.setattr(module, "paths", lambda fleet, made: [way(first, second)])
    (late,) = broken(found(), [first, second])

    assert late.candidate == guilty


def test_late_by_what_it_waits_for_beside_it_may_carry_nothing(monkeypatch):
    """3 s on the way, whatever the load of the group that prefills."""
    first, second = Group("p", ttft_s=0.5, role="prefill"), Group("d", role="decode")
    slow = replace(way(first, second), ttft_s=3.5)
    monkeypatch.setattr(module, "paths", lambda fleet, made: [slow])
    (late,) = broken(found(), [first, second])

    assert (late.candidate, late.share) == ("p", 0.0)


def test_on_a_long_way_only_the_rest_of_the_limit_is_left(monkeypatch):
    """1 s on the way and 2 s here, in proportion to the load: 2 s are kept at half of it."""
    first, second = Group("p", ttft_s=2.0, tpot_s=9.0, role="prefill"), Group("d", role="decode")
    slow = replace(way(first, second), ttft_s=3.0)
    monkeypatch.setattr(module, "paths", lambda fleet, made: [slow])
    (late,) = broken(found(), [first, second])

    assert 0.5 - 1 / 128 <= late.share <= 0.5


def test_times_of_what_is_over_full_are_not_judged():
    """One word for it, not two."""
    (late,) = broken(found(), [Group("a", full=2.0, ttft_s=9.0)])

    assert late.share == pytest.approx(0.5, abs=1 / 128)


def test_a_hair_beyond_a_limit_is_rounding():
    hair = 1 + 1e-7

    assert broken(found(), [Group("a", ttft_s=2.0 * hair, tpot_s=0.05 * hair, full=hair)]) == []
    assert broken(found(), [Group("a", ttft_s=2.0001)], slack=1e-3) == []
    assert broken(found(), [Group("a", ttft_s=2.0001)]) != []

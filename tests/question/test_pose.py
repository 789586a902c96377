"""Which way a question takes: as it is, with host memory, with looser defaults, or to an error, and when."""

from dataclasses import replace
from types import SimpleNamespace as Some
from typing import Any

import pytest

from planner.errors import Infeasible, OutOfTime
from planner.inputs.workload import Bucket, Slo, Workload
from planner.question import posed
from planner.question.asked import Asked
from planner.question.posed import NoRoom, pose
from planner.replicas.pool import Pool
from planner.why.infeasible import Tightest
from solvers.fleet.types import FleetSolution

NEAR = Tightest(ttft_s=0.3, tpot_s=0.02, design="tp2 on h with vllm")
"""The quickest there is: 300 ms and 20 ms."""


def asked(
    slo: Slo, rate: float | None = None, defaulted=("slo.ttft_ms", "slo.tpot_ms"), **more: Any
) -> Asked:
    load = Workload(buckets=[Bucket(isl=9, osl=9)], slo=slo, rate_rps=rate)
    return Asked(None, Some(name="llama"), load, Some(), None, list(defaulted), [], None, **more)


class World:
    """Candidates that keep limits of at least `reach` each, in (TTFT, TPOT) ms; a rate is carried from
    `carried` times the tightest on, below which searches end `short`; GPUs alone hold the model where
    `fits`, with host memory where `host`."""

    def __init__(self, monkeypatch, reach=(300.0, 20.0), carried=1.0, fits=True, **more: Any):
        self.reach, self.carried, self.fits = reach, carried, fits
        self.host, self.near, self.late = (
            more.get("host", False),
            more.get("near", NEAR),
            more.get("late", False),
        )
        self.seldom, self.pooled = more.get("seldom", False), []
        self.short = more.get("short", "infeasible"), None
        monkeypatch.setattr(posed, "pooled", self._pooled)
        monkeypatch.setattr(posed, "unserved", lambda state: state)
        monkeypatch.setattr(posed, "find", self._find)
        monkeypatch.setattr(posed.infeasible, "tightest", lambda pool, slo, fixed: self.near)
        monkeypatch.setattr(posed.infeasible, "does_not_fit", lambda *told: Infeasible("no room"))
        monkeypatch.setattr(posed, "ask_of", lambda asked: "ask")

    def _keeps(self, slo: Slo) -> bool:
        return all(
            limit is None or limit >= least
            for limit, least in zip((slo.ttft_ms, slo.tpot_ms), self.reach, strict=True)
        )

    def _pooled(self, own: Asked) -> Any:
        self.pooled.append(own)
        room = self.host if own.offload else self.fits
        served = room and self._keeps(own.workload.slo)
        candidates = (Some(role="mixed", sequences=0.5 if self.seldom else 4.0),)
        pool = Fitting(candidates if served else (), {}, late=self.late)
        object.__setattr__(pool, "room", int(room))
        return pool, Some(state=lambda pool, side: [] if served else ["a bucket"], of=own)

    def _find(self, question: Any, pool: Any, limits: Any) -> Any:
        slo = question.of.workload.slo
        enough = all(
            limit is None or limit >= self.carried * least
            for limit, least in zip((slo.ttft_ms, slo.tpot_ms), self.reach, strict=True)
        )
        s = FleetSolution(*(("optimal", 1.0) if enough else self.short), None, "none", rate=1.0)
        return Some(solution=s)


class Fitting(Pool):
    """With as many designs that have room as is told."""

    room = 0

    @property
    def fitting(self) -> int:
        return self.room


def test_what_can_be_kept_stays_as_it_was_asked(monkeypatch):
    world, own = World(monkeypatch), asked(Slo(ttft_ms=300, tpot_ms=20))
    found, pool, question = pose(own)

    assert found is own
    assert question.of is own
    assert pool.candidates
    assert len(world.pooled) == 1


@pytest.mark.parametrize(
    ("slo", "loose", "said"),
    [
        (Slo(ttft_ms=100, tpot_ms=50), (300, 50), "TTFT 100 -> 300 ms"),
        (Slo(ttft_ms=900, tpot_ms=5), (900, 20), "TPOT 5 -> 20 ms"),
        (Slo(ttft_ms=100, tpot_ms=5), (300, 20), "TTFT 100 -> 300 ms, TPOT 5 -> 20 ms"),
        (Slo(ttft_ms=None, tpot_ms=5), (None, 20), "TPOT 5 -> 20 ms"),
    ],
)
def test_defaults_that_nothing_keeps_give_way_to_what_is_reached(monkeypatch, slo, loose, said):
    World(monkeypatch)
    found, pool, question = pose(asked(slo))

    assert (found.workload.slo.ttft_ms, found.workload.slo.tpot_ms) == loose
    assert [w.code for w in found.warnings] == ["slo_relaxed"]
    assert found.warnings[0].message.endswith(f"can be met: {said}")
    assert question.of is found
    assert pool.candidates


def test_a_rate_loosens_them_further_until_it_is_carried(monkeypatch):
    """By steps of a twentieth of what is reached: the third, 1.158 times, is the first that is enough."""
    World(monkeypatch, carried=1.15)
    found, _, _ = pose(asked(Slo(ttft_ms=100, tpot_ms=5), rate=4.0))

    assert (found.workload.slo.ttft_ms, found.workload.slo.tpot_ms) == (348, 23.2)


@pytest.mark.parametrize(
    ("short", "said"),
    [
        ("infeasible", "until the rate asked for is served"),
        ("time_limit", "to what was found to be met in time"),
    ],
)
def test_limits_are_said_to_be_what_a_rate_takes_where_tighter_ones_were_refuted(monkeypatch, short, said):
    World(monkeypatch, carried=1.15, short=short)
    found, _, _ = pose(asked(Slo(ttft_ms=100, tpot_ms=5), rate=4.0))

    text = f"nothing meets the default SLO with a request at a time; relaxed {said}: "
    assert found.warnings[0].message.startswith(text)


def test_ctrl_c_while_limits_are_loosened_is_heard(monkeypatch):
    World(monkeypatch, carried=1.15, short="interrupted")

    with pytest.raises(KeyboardInterrupt):
        pose(asked(Slo(ttft_ms=100, tpot_ms=5), rate=4.0))


def test_a_rate_that_is_carried_at_no_limit_leaves_them_at_what_is_reached(monkeypatch):
    """What is short is then said of the rate, not of the limits."""
    World(monkeypatch, carried=1e9)
    found, _, _ = pose(asked(Slo(ttft_ms=100, tpot_ms=5), rate=4.0))

    assert (found.workload.slo.ttft_ms, found.workload.slo.tpot_ms) == (300, 20)


@pytest.mark.parametrize("defaulted", [(), ("slo.ttft_ms",)])
def test_a_limit_that_was_asked_for_does_not_give_way(monkeypatch, defaulted):
    World(monkeypatch)
    with pytest.raises(Infeasible) as error:
        pose(asked(Slo(ttft_ms=100, tpot_ms=5), defaulted=defaulted))

    assert "TTFT 100 ms (best 300 ms) and TPOT 5 ms (best 20 ms)" in error.value.message


def test_a_limit_that_was_asked_for_and_is_kept_lets_the_other_give_way(monkeypatch):
    World(monkeypatch)
    found, _, _ = pose(asked(Slo(ttft_ms=500, tpot_ms=5), defaulted=("slo.tpot_ms",)))

    assert (found.workload.slo.ttft_ms, found.workload.slo.tpot_ms) == (500, 20)


def test_what_keeps_limits_only_where_requests_are_seldom_is_relaxed_if_that_may_be(monkeypatch):
    """Less than one request at a time in the mean: defaults are loosened, what was asked for is served."""
    World(monkeypatch, reach=(1.0, 1.0), seldom=True)
    loosened = pose(asked(Slo(ttft_ms=100, tpot_ms=5)))[0]
    kept = asked(Slo(ttft_ms=100, tpot_ms=5), defaulted=())

    assert loosened.workload.slo == Slo(ttft_ms=300, tpot_ms=20)
    assert pose(kept)[0] is kept


def test_where_gpus_alone_do_not_hold_the_model_host_memory_is_looked_at(monkeypatch):
    world = World(monkeypatch, fits=False, host=True)
    found, _, _ = pose(asked(Slo(ttft_ms=900, tpot_ms=50)))

    assert found.offload
    assert [own.offload for own in world.pooled] == [False, True]


def test_what_finds_no_room_at_all_is_told_by_what_would_hold_it(monkeypatch):
    World(monkeypatch, fits=False, host=False)
    with pytest.raises(Infeasible, match="no room"):
        pose(asked(Slo(ttft_ms=900, tpot_ms=50)))
    with pytest.raises(NoRoom, match="not even with weights in host memory"):
        pose(asked(Slo(ttft_ms=900, tpot_ms=50), offload=True))


@pytest.mark.parametrize("fits", [True, False])
def test_before_all_was_looked_at_nothing_is_called_impossible(monkeypatch, fits):
    """What is not there may be among what was not looked at."""
    World(monkeypatch, late=True, fits=fits)
    with pytest.raises(OutOfTime):
        pose(asked(Slo(ttft_ms=1, tpot_ms=1)))


def test_what_was_found_in_time_is_planned_with(monkeypatch):
    World(monkeypatch, late=True)
    own = asked(Slo(ttft_ms=900, tpot_ms=50))

    assert pose(own)[0] is own


def test_looser_limits_that_again_nothing_keeps_are_told(monkeypatch):
    """The prediction of one request at a time was too good."""
    World(monkeypatch, reach=(400.0, 20.0))
    with pytest.raises(Infeasible, match="TTFT 100 ms"):
        pose(asked(Slo(ttft_ms=100, tpot_ms=50)))


@pytest.mark.parametrize(
    ("sequences", "seldom"), [((0.5, 0.9), True), ((0.5, 1.0), False), ((), True), ((0.5,), True)]
)
def test_requests_are_seldom_where_no_decoder_has_one_in_the_mean(sequences, seldom):
    decoders = tuple(Some(role=r, sequences=x) for r, x in zip(("mixed", "decode"), sequences, strict=False))
    prefill = Some(role="prefill", sequences=9.0)

    assert posed._seldom(Pool((*decoders, prefill), {})) is seldom


def test_a_trial_of_another_slo_changes_nothing_else(monkeypatch):
    world, own = World(monkeypatch, carried=2.0), asked(Slo(ttft_ms=100, tpot_ms=5), rate=4.0)

    assert not posed._Carries(own)(Slo(ttft_ms=299, tpot_ms=20))  # no candidate keeps it
    assert not posed._Carries(own)(Slo(ttft_ms=300, tpot_ms=20))  # but not at this rate
    assert posed._Carries(own)(Slo(ttft_ms=600, tpot_ms=40))
    assert all(replace(tried, workload=own.workload) == own for tried in world.pooled)
    assert own.workload.slo == Slo(ttft_ms=100, tpot_ms=5)

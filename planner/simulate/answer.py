"""A plan replayed: what was achieved beside what was predicted, and whether the limits were kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from planner.designs.shape import Floats
from planner.errors import InputError, nearest
from planner.inputs.traces import Trace
from planner.plans.schema import Band, Plan
from planner.simulate.arrivals import Drawn, drawn, traced
from planner.simulate.expected import expected
from planner.simulate.fleet import Fleet, Outcome, Rules, Site, Tell
from planner.simulate.groups import Servers
from planner.simulate.pools import Trouble
from planner.simulate.promises import Promise, Times, promises_of, times_of
from planner.simulate.routing import Routing, router


@dataclass(frozen=True)
class Overload:
    """Requests came faster than they ended, and more and more of them waited: so many `unfinished` when the
    last one came. Times then grow with the length of the replay."""

    came_rps: float
    ended_rps: float
    unfinished: int


@dataclass(frozen=True)
class Simulated:
    """What came of `requests`, of which `counted` (not those of a warm-up) are in the figures. `attained`:
    share of requests within all limits. Rates: what ended between the first counted arrival (the first end,
    where nothing ran before) and the last one, `span_s` apart. `planned_rps`: the plan's own load, which
    `predicted` and `expected` (percentiles by the plan's formulas; empty where those know means only) are
    for. `found`: share of prompt tokens found in caches, where a trace says what prompts share. `wires`: busy
    shares of declared links. `refused`: requests of the trace that are longer than the model takes.
    `unordered`: those put in order, and the first."""

    arrivals: str
    routing: str
    seed: int
    requests: int
    counted: int
    span_s: float
    rps: float
    out_tok_per_s: float
    ttft_ms: Times
    tpot_ms: Times
    e2e_ms: Times
    predicted: dict[str, Band]
    promises: dict[str, Promise]
    attained: float
    busy: dict[str, float]
    steps: int
    preempted: int
    outcome: Outcome
    planned_rps: float = 0.0
    expected: dict[str, Times] = field(default_factory=dict)
    overload: Overload | None = None
    found: float | None = None
    wires: dict[str, float] = field(default_factory=dict)
    refused: int = 0
    unordered: tuple[int, int] = (0, 0)

    @property
    def kept(self) -> bool:
        """Whether every limit was kept at its percentile, and the queue did not grow without end."""
        return self.overload is None and all(p.kept for p in self.promises.values())

    def as_json(self) -> dict[str, Any]:
        """The answer as documents have it, with the series by group."""
        nested = ("outcome", "predicted", "promises", "overload")
        own = {k: v for k, v in vars(self).items() if k not in nested}
        series = self.outcome.series
        return {
            **own,
            "kept": self.kept,
            "overload": asdict(self.overload) if self.overload else None,
            "predicted": {k: v.model_dump() for k, v in self.predicted.items()},
            "promises": {k: asdict(v) for k, v in self.promises.items()},
            "series": {
                "time_s": _listed(series.times_s),
                **{
                    name: {
                        "waiting": _listed(w),
                        "running": _listed(series.running[name]),
                        "kv": _listed(series.held[name]),
                    }
                    for name, w in series.waiting.items()
                },
            },
        }

    def rows(self) -> list[list[object]]:
        """The series as a table, its header first: a row a time, three columns a group."""
        s = self.outcome.series
        names = list(s.waiting)
        head: list[object] = [
            "time_s",
            *(f"{n}.{what}" for n in names for what in ("waiting", "running", "kv")),
        ]
        columns = [s.times_s, *(x[n] for n in names for x in (s.waiting, s.running, s.held))]
        rows: list[list[object]] = [[round(float(v), 6) for v in row] for row in zip(*columns, strict=True)]
        return [head, *rows]


@dataclass(frozen=True)
class Ask:
    """What to replay a plan with: a trace, or `requests` drawn at the plan's rate; `rate` in place of their
    own. `tell` hears how far it is."""

    trace: Trace | None = None
    rate: float | None = None
    requests: int | None = None
    seed: int = 0
    routing: Routing = "planned"
    trouble: Sequence[Trouble] = ()
    tell: Tell | None = None


def simulate(plan: Plan, ask: Ask) -> Simulated:
    """Replay `plan`. Raises InputError where it cannot be replayed."""
    servers = Servers(plan)
    _known(servers, ask.trouble)
    given = (
        traced(servers, ask.trace, ask.rate)
        if ask.trace is not None
        else drawn(servers, ask.requests, ask.rate, ask.seed)
    )
    joined = [way for ways in servers.ways for way in ways if way.second]
    wires = {(way.first, str(way.second)): servers.wire(way) for way in joined}
    sent = {way.first: servers.sent_bytes(way, given.load.requests.isl) for way in joined}
    groups = [servers.group(r) for r in plan.replicas]
    site = Site(groups, servers.ways, wires, sent)
    rules = Rules(lambda view: router(ask.routing, view), ask.trouble, tell=ask.tell)
    out = Fleet(site, given.load, rules).run()
    return _answer(servers, ask, out, given)


def _known(servers: Servers, trouble: Sequence[Trouble]) -> None:
    """Raises InputError where trouble is for a group that is not there."""
    ids = [r.id for r in servers.plan.replicas]
    for one in trouble:
        if one.group not in ids:
            near = ", ".join(f"`{n}`" for n in nearest(one.group, ids, 3))
            raise InputError(f"the plan has no group `{one.group}`", "--fail, --slow", f"nearest: {near}")


def _answer(servers: Servers, ask: Ask, out: Outcome, given: Drawn) -> Simulated:
    counted, in_flight = given.counted, given.load.in_flight
    ttft, tpot = 1e3 * out.ttft_s[counted], 1e3 * out.tpot_s[counted]
    e2e = 1e3 * (out.end_s - out.arrival_s)[counted]
    first_s, last_s = _running(out, counted)
    ended = (out.end_s > first_s) & (out.end_s <= last_s)
    span_s = max(last_s - first_s, 1e-9)
    kinds = given.load.bucket[counted] if ask.trace is None else np.zeros(len(ttft), dtype=int)
    promises, within = promises_of(servers.workload, {"ttft_ms": ttft, "tpot_ms": tpot, "e2e_ms": e2e}, kinds)
    p = servers.plan.predicted
    return Simulated(
        arrivals=_arrivals(servers, ask, in_flight),
        routing=ask.routing,
        seed=ask.seed,
        requests=len(out.end_s),
        counted=len(ttft),
        span_s=span_s,
        rps=float(ended.sum()) / span_s,
        out_tok_per_s=float(given.osl[ended].sum()) / span_s,
        ttft_ms=times_of(ttft),
        tpot_ms=times_of(tpot),
        e2e_ms=times_of(e2e),
        predicted={
            "ttft_ms": p.ttft_ms,
            "tpot_ms": p.tpot_ms,
            "rps": p.rps,
            "out_tok_per_s": p.out_tok_per_s,
        },
        promises=promises,
        attained=float(within.mean()),
        busy=dict(out.busy),
        steps=out.steps,
        preempted=out.preempted,
        outcome=out,
        planned_rps=p.rps.value,
        expected=expected(servers),
        overload=_overload(out) if in_flight is None else None,
        found=out.found,
        wires=dict(out.wires),
        refused=given.refused,
        unordered=ask.trace.unordered if ask.trace is not None else (0, 0),
    )


def _running(out: Outcome, counted: slice) -> tuple[float, float]:
    """Seconds between which as many requests end as come: from the first counted arrival, or from the first
    end where servers were empty until then, to the last counted arrival."""
    came_s = out.arrival_s[counted]
    first_s, last_s = float(came_s.min()), float(came_s.max())
    ended_s = float(out.end_s.min())
    return (ended_s if first_s < ended_s < last_s else first_s), last_s


GROWS, SCATTER = 0.05, 4.0
"""The queue grows where more of the second half of requests than this share is added to it, and more than so
many standard deviations of what is unfinished anyway."""


def _overload(out: Outcome) -> Overload | None:
    """Whether more and more requests were unfinished as they came: of open loops."""
    arrival_s, end_s = out.arrival_s, np.sort(out.end_s)
    n = len(arrival_s)
    half_s, last_s = float(arrival_s[n // 2]), float(arrival_s[-1])
    ended = np.searchsorted(end_s, [half_s, last_s], side="right")
    before, after = n // 2 - int(ended[0]), n - int(ended[1])
    waits = np.sum(list(out.series.waiting.values()), axis=0)
    quarters = [float(q.mean()) for q in np.array_split(waits[out.series.times_s <= last_s], 4) if len(q)]
    queued = len(quarters) == 4 and quarters[3] > 1.5 * quarters[1] + 1
    if not queued or after - before < max(GROWS * (n - n // 2), SCATTER * max(before, 1) ** 0.5):
        return None
    span_s = max(last_s - half_s, 1e-9)
    return Overload((n - n // 2) / span_s, float(ended[1] - ended[0]) / span_s, after)


def _arrivals(servers: Servers, ask: Ask, in_flight: int | None) -> str:
    """How requests came, in words."""
    if ask.trace is not None:
        rate = _rate(ask.rate or ask.trace.rate_rps)
        stretched = f", its times stretched to {rate}" if ask.rate else f" at {rate}"
        return f"the requests of {ask.trace.path}{stretched}"
    if in_flight is not None:
        return f"{in_flight:,} requests always in flight"
    per_s = ask.rate or servers.workload.rate_rps or servers.plan.predicted.rps.value
    return f"at random (Poisson), {_rate(per_s)}"


def _rate(rps: float) -> str:
    """Three digits, never as a power of ten."""
    return f"{float(f'{rps:.3g}'):,.12g} requests/s"


def _listed(values: Floats) -> list[float]:
    return [round(float(v), 6) for v in values]

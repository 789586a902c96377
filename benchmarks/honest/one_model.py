"""The planner's one model of a server, as this benchmark sees it: the only place that knows its doors.

`OneModel` is what is asked of it. `of(problem)` makes one; to follow the planner, only this file changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Literal, Protocol

import numpy as np

from benchmarks.honest.problems import Problem
from cluster_configs.schema import NodeClass, ResolvedCluster
from planner.api import with_loads
from planner.candidates.points import at_rate, prefilling
from planner.candidates.setup import Setup
from planner.cost.transfer import CHUNKED, WHOLE, Overlap, hidden_s, shared_s
from planner.designs.shape import Floats, StepTimes
from planner.plans.schema import Replica
from planner.problems.ways import route
from planner.question.asked import read
from planner.question.posed import pooled
from planner.replicas.pool import Pool
from planner.rules.pairs import Cached, Side, unpaired

Role = Literal["mixed", "prefill", "decode"]

SIZES = ("tp", "pp", "attn_dp", "moe_tp", "ep", "redundant", "cp")
"""That tell the designs of one class and engine apart."""


@dataclass(frozen=True)
class Design:
    """A replica on one class of nodes: `sizes` in the order of `SIZES`, `chunk` tokens of a step that the
    engine is told (0: its own default)."""

    node_class: str
    engine: str
    gpus: int
    sizes: tuple[int, ...]
    chunk: int = 0

    def __str__(self) -> str:
        named = zip(SIZES, self.sizes, strict=True)
        shown = [
            f"{name}{size}" for name, size in named if size != (name != "redundant") and name != "moe_tp"
        ]
        return f"{self.node_class} {self.engine} {' '.join(shown) or 'tp1'}"


@dataclass(frozen=True)
class Judged:
    """A replica under m loads of w buckets: times (m, w) [s] without caution and the TTFT that a limit is
    kept with, not finite where the load is too much; shares (m,) of its time and of its cache that are in
    use, 1 where the planner's rules allow no more."""

    ttft_s: Floats
    cautious_ttft_s: Floats
    tpot_s: Floats
    utilisation: Floats
    cache: Floats


class OneModel(Protocol):
    """What turns designs and loads into times. Loads are requests/s of one replica by bucket, (m, w)."""

    @property
    def classes(self) -> Mapping[str, NodeClass]:
        """Classes of nodes by id."""

    def designs(self, role: Role) -> tuple[Design, ...]:
        """All that the planner's space holds in a role."""

    def judge(self, design: Design, role: Role, load: Floats) -> Judged:
        """The replica under each of the loads. A decode replica's TTFT is 0, a prefill replica's TPOT."""

    def handed_s(
        self, first: Design, second: Design, load: Floats, each: tuple[Floats, Floats]
    ) -> Floats | None:
        """Seconds (m, w) from the end of a prompt on a prefill replica until its cache is at one that
        decodes, at the `load` of all such pairs together and at those of `each` end, of which others may
        have a part; infinite where links are full, None where no such pair can be."""

    def design_of(self, replica: Replica) -> Design | None:
        """The design of a plan's replica; None where its stages stand on several classes."""


def of(problem: Problem) -> OneModel:
    """The model for the problem's cluster, workload and percentile, whatever its limits are and budget is."""
    return _of(replace(problem.limited(None, None), most_gpus=None))


@lru_cache(maxsize=1)
def _of(loose: Problem) -> OneModel:
    options = {"engine": loose.engine, "risk": loose.risk, "objective": loose.objective}
    asked = with_loads(read(None, loose.model, loose.gpus, loose.workload, {}, options), None)
    pool, question = pooled(asked)
    return PoolModel(pool, question.cluster)


@dataclass(frozen=True)
class PoolModel:
    """By the setups of a pool of candidates."""

    pool: Pool
    cluster: ResolvedCluster

    @cached_property
    def classes(self) -> Mapping[str, NodeClass]:
        return {node.id: node for node in self.cluster.classes}

    @cached_property
    def _where(self) -> dict[Design, tuple[Setup, int]]:
        """Setup and index of every design that stands on one class and has room for the prompts."""
        found = {}
        for key, made in self.pool.made.items():
            s, name, engine, chunk = made.setup, key.where, key.engine, key.chunk
            if made.node is None or key.level or key.draft:
                continue
            for i in s.fitting.tolist():
                gpus = int(s.designs.gpus[i])
                if gpus <= self.classes[name].gpus:
                    sizes = tuple(int(getattr(s.designs, size)[i]) for size in SIZES)
                    found[Design(name, engine, gpus, sizes, chunk)] = (s, i)
        return found

    @cached_property
    def _by_role(self) -> dict[Role, tuple[Design, ...]]:
        roles: tuple[Role, ...] = ("mixed", "prefill", "decode")
        return {r: tuple(d for d, (s, i) in self._where.items() if s.holds[r][i].any()) for r in roles}

    def designs(self, role: Role) -> tuple[Design, ...]:
        return self._by_role[role]

    def design_of(self, replica: Replica) -> Design | None:
        names = {stage.node_class for stage in replica.stages}
        gpus = sum(stage.gpus for stage in replica.stages)
        r = replica
        sizes = (r.tp, r.pp, r.attn_dp, r.moe_tp, r.ep, r.redundant_experts, r.cp)
        design = Design(names.pop(), r.engine, gpus, sizes, r.max_batched_tokens or 0)
        return design if not names and design in self._where else None

    def judge(self, design: Design, role: Role, load: Floats) -> Judged:
        s, i = self._where[design]
        rates = load / design.sizes[SIZES.index("attn_dp")]
        ttft, wary, tpot = (np.zeros_like(rates) for _ in range(3))
        busy, held = np.zeros(len(rates)), np.zeros(len(rates))
        for k, rate in enumerate(rates):
            whole = max(float(rate.sum()), 1e-30)
            own = s.only(np.array([i]), rate / whole)
            only = own.does(role)
            prompts = only == "prefill" and (role == "prefill" or not (own.mix.osl > 1).any())
            slowest = float(own.slowest[0]) if prompts and own.promise.loop == "open" else 1.0
            with np.errstate(all="ignore"):
                at = at_rate(own, np.array([0]), np.array([whole]), only)
                slow = at_rate(own, np.array([0]), np.array([slowest * whole]), only)
            late = np.inf if (~s.holds[role][i] & (rate > 0)).any() else 0.0
            ttft[k], tpot[k] = at.ttft_s[0] + late, at.tpot_s[0] + late
            wary[k] = np.maximum(own.caution(only)[0, 0] * ttft[k], slowest * slow.ttft_s[0])
            beside = max((float(rate @ row[0]) for row in own.beside), default=0.0)
            busy[k] = float(at.utilisation[0]) / (s.busiest if only == "prefill" else 1.0)
            held[k] = max(float(rate @ at.kv_share[0]), beside)
        none = np.zeros_like(ttft)
        first = np.where(np.isinf(tpot), np.inf, none) if role == "decode" else ttft
        return Judged(first, wary, none if role == "prefill" else tpot, busy, held)

    def caution(self, design: Design, role: Role) -> tuple[float, float]:
        s, i = self._where[design]
        return float(s.caution(role)[0, i]), float(s.caution(role)[1, i])

    def handed_s(
        self, first: Design, second: Design, load: Floats, each: tuple[Floats, Floats]
    ) -> Floats | None:
        ends = self.classes[first.node_class], self.classes[second.node_class]
        way = route(*ends, self.cluster)
        if way is None or first.engine != second.engine:
            return None
        (s, i), (r, j) = self._where[first], self._where[second]
        if unpaired(self._side(first), self._side(second), Cached.of(s.model.card)) is not None:
            return None
        sent, _ = s.model.handed_bytes(s.designs.take(np.array([i])), s.mix.isl)
        fetched, copies = r.model.handed_bytes(r.designs.take(np.array([j])), s.mix.isl)
        moved = s.model.transfer_bytes(s.mix.isl) * copies[0]
        overlaps = self._overlaps(s, i, first.engine)
        nics = [n.nic_bytes_per_s for n in ends]
        found = np.empty_like(load)
        for row, rates in enumerate(load):
            used = [
                float(own[row] @ moved) / (d.gpus * nic)
                for own, d, nic in zip(each, (first, second), nics, strict=True)
            ]
            over = float(rates @ moved) / way.link.bytes_per_s if way.link else 0.0
            shares = (*(used if way.on_nic else (0.0, 0.0)), over)
            for w in range(load.shape[1]):
                alone = way.alone_s((sent[0, w] / nics[0], fetched[0, w] / nics[1]), float(moved[w]))
                seen = overlaps[w].seen_s(shared_s(zip(alone, shares, strict=True)))
                found[row, w] = way.latency_s + seen
        return found

    def _side(self, design: Design) -> Side:
        """What decides its partners."""
        size = dict(zip(SIZES, design.sizes, strict=True))
        shape = size["tp"], size["pp"], size["attn_dp"], size["cp"]
        used = self._where[design][0].model.precisions
        return Side.of(design.engine, self.classes[design.node_class].device, shape, used)

    def _overlaps(self, s: Setup, i: int, engine: str) -> list[Overlap]:
        """By bucket, what a transfer hides behind."""
        if engine not in CHUNKED:
            return [WHOLE] * len(s.mix.isl)
        hidden = hidden_s(self._prefill_step(s, i, 1), s.mix.new, s.mix.isl, s.token_budget)[0]
        last = s.model.last_share(s.mix.new, s.mix.isl, s.token_budget)
        return [Overlap(float(a), float(b)) for a, b in zip(last, hidden, strict=True)]

    def _prefill_step(self, s: Setup, i: int, rows: int) -> StepTimes:
        """The step of a server that only computes prompts, `rows` times."""
        points = prefilling(s, np.array([i]), np.array([0.5]))
        return StepTimes(*(np.repeat(x, rows) for x in vars(points.step).values()))

"""`--engine chains`: a plan whose nodes each hold some of the layers, and whose requests pass chains of them.

The front of throughput against latency comes from `solvers.placement_served`; of its plans the one that
serves most within the SLO is taken. Its link shares become chains (paths through the nodes, each with its
part of the requests), its nodes groups that hold the same layers. The bound is the closed form's; what a
replay serves was up to 15 % from it (`docs/placement.md`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from planner import __version__
from planner.asked import Asked, problem_of
from planner.candidates.ask import Ask
from planner.candidates.points import Mix, Promise
from planner.cost.memory import Memory, device_bytes, room_by_stage
from planner.cost.shape import like
from planner.errors import Infeasible, InputError
from planner.explain.rounding import ceil_to
from planner.plans import assemble, schema
from planner.problems import chains
from planner.problems.chains import Posed
from solvers import linear, placement_served, placement_served_bound
from solvers.linear import Limits
from solvers.placement_served import Served
from solvers.placement_shares import SINK, SOURCE

CLOSED_FORM = 0.15
"""Standard deviation of the log of replayed over predicted tokens/s, beside that of the steps."""

LEAST = 1e-4
"""Share of the requests below which a path is left out."""

SPACE = "stages of units that hold the same layers, in every order of regions, by requests in flight"


@dataclass(frozen=True)
class Path:
    """Units in order, and the part of all requests that passes them."""

    units: tuple[int, ...]
    share: float


def plan_chains(asked: Asked, limits: Limits, began: float) -> schema.Plan:
    """The plan that serves most within the SLO. Raises Infeasible, InputError."""
    if asked.objective != "throughput" or asked.workload.rate_rps is not None:
        raise InputError(
            "chains are planned for the most throughput",
            "--engine chains",
            "leave out --rate and --objective",
        )
    posed = pose(asked)
    front = [posed.eased(s) for s in placement_served.front(posed.service)] if posed else []
    if posed is None or not front:
        raise Infeasible(
            f"no chain of nodes holds {asked.card.name}, or there are more than {chains.MOST_UNITS} of them",
            hint="add nodes, or a checkpoint in a lower precision",
        )
    asked, served = _within(asked, front)
    bound = placement_served_bound.bound(posed.service, served.tokens_per_s)
    return Assembly(asked, posed, served).plan(bound, limits, began)


def pose(asked: Asked) -> Posed | None:
    """The numbers of the question."""
    from planner.cost.precision import precisions

    o, w = asked.options, asked.workload
    used = precisions(asked.card, o.precision, o.kv_precision)
    promise = Promise.of(w.slo, None)
    ask = Ask(asked.card, used, (chains.ENGINE,), w, promise, "throughput", calibration=asked.calibration)
    return chains.pose(asked.cluster, ask)


def _within(asked: Asked, front: Sequence[Served]) -> tuple[Asked, Served]:
    """Of the front what serves most within the SLO; a default limit that nothing keeps is relaxed."""
    slo = asked.workload.slo
    limits = {"ttft_ms": slo.ttft_ms or math.inf, "tpot_ms": slo.tpot_ms or math.inf}
    kept = [s for s in front if all(v <= limits[k] for k, v in _times_ms(s).items())]
    if kept:
        return asked, max(kept, key=lambda s: s.tokens_per_s)
    firm = {k: v for k, v in limits.items() if f"slo.{k}" not in asked.defaulted}
    nearest = min(front, key=lambda s: max(v / limits[k] for k, v in _times_ms(s).items()))
    able = [s for s in front if all(_times_ms(s)[k] <= v for k, v in firm.items())]
    if not able:
        best = ", ".join(f"{k.removesuffix('_ms').upper()} {v:.4g} ms" for k, v in _times_ms(nearest).items())
        hint = " ".join(f"--{k.replace('_', '-')} {ceil_to(v)}" for k, v in _times_ms(nearest).items())
        raise Infeasible(f"no chains keep the SLO; the nearest have {best}", hint=hint)
    chosen = placement_served.chosen(able)
    loose = {k: float(ceil_to(v)) for k, v in _times_ms(chosen).items() if v > limits[k]}
    words = ", ".join(f"{k.removesuffix('_ms').upper()} -> {v:g} ms" for k, v in loose.items())
    note = schema.PlanWarning(code="slo_relaxed", message=f"no chains meet the default SLO; relaxed: {words}")
    workload = asked.workload.model_copy(update={"slo": slo.model_copy(update=loose)})
    return replace(asked, workload=workload, warnings=[*asked.warnings, note]), chosen


def _times_ms(s: Served) -> dict[str, float]:
    return {"ttft_ms": 1e3 * s.prompt_s, "tpot_ms": 1e3 * s.decode_s}


def paths(served: Served) -> list[Path]:
    """The shares of links as few paths: the widest of what is left, again and again."""
    left, found = dict(served.shares), list[Path]()
    while True:
        path, share = _widest(left)
        if share <= LEAST:
            break
        for link in zip([SOURCE, *path], [*path, SINK], strict=True):
            left[link] -= share
        found.append(Path(tuple(path), share))
    total = sum(p.share for p in found)
    return [replace(p, share=p.share / total) for p in found]


def _widest(shares: Mapping[tuple[int, int], float]) -> tuple[list[int], float]:
    """The path from source to sink whose narrowest link is widest (Dijkstra by width)."""
    width, before, done = {SOURCE: math.inf}, dict[int, int](), set[int]()
    while open_ := width.keys() - done:
        at = max(open_, key=lambda i: (width[i], -i))
        done.add(at)
        for (a, b), share in shares.items():
            if a == at and min(width[a], share) > width.get(b, 0.0):
                width[b], before[b] = min(width[a], share), a
    path = list[int]()
    at = before.get(SINK, SOURCE)
    while at != SOURCE:
        path.insert(0, at)
        at = before[at]
    return path, width.get(SINK, 0.0) if path else 0.0


@dataclass(frozen=True)
class Assembly:
    """A chosen placement in the Plan's form."""

    asked: Asked
    posed: Posed
    served: Served

    @property
    def mix(self) -> Mix:
        return Mix.of(self.asked.workload)

    @property
    def rps(self) -> float:
        return self.served.tokens_per_s / self.mix.steps

    def plan(self, bound: float, limits: Limits, began: float) -> schema.Plan:
        names, groups = self._groups()
        nodes = {c.id: c for c in self.asked.cluster.classes}
        made = [self._replica(names[key], key, members) for key, members in groups.items()]
        routes = [schema.Route(bucket=i, share=1.0, chains=True) for i in range(len(self.mix.share))]
        hops = {
            i: schema.Hop(
                node=nodes[u.node_class].nodes[u.node],
                replica=names[u.node_class, self.served.intervals[i]],
                layers=self.served.intervals[i],
            )
            for i, u in enumerate(self.posed.units)
            if i in self.served.intervals
        }
        told = [
            schema.Chain(
                share=p.share,
                hops=[hops[i] for i in p.units],
                ttft_s=self.served.prompt_s,
                tpot_s=self.served.decode_s,
            )
            for p in paths(self.served)
        ]
        return schema.Plan(
            meshwright_version=__version__,
            problem=problem_of(self.asked),
            replicas=made,
            routing=routes,
            chains=told,
            predicted=self._predicted(made),
            proof=self._proof(bound / self.mix.steps, limits, began),
            warnings=[*self.asked.warnings, _RUNTIME, *self._idle()],
        )

    def _groups(
        self,
    ) -> tuple[dict[tuple[str, tuple[int, int]], str], dict[tuple[str, tuple[int, int]], list[int]]]:
        """Units by class and layers, and the name of each group, in the order of layers."""
        found: dict[tuple[str, tuple[int, int]], list[int]] = {}
        for i, layers in sorted(self.served.intervals.items(), key=lambda item: (item[1], item[0])):
            found.setdefault((self.posed.units[i].node_class, layers), []).append(i)
        return {key: f"c{n}" for n, key in enumerate(found, start=1)}, found

    def through(self, unit: int) -> float:
        """Part of all requests that passes a unit."""
        return sum(share for (_, to), share in self.served.shares.items() if to == unit)

    def _replica(self, name: str, key: tuple[str, tuple[int, int]], members: list[int]) -> schema.Replica:
        node = next(c for c in self.asked.cluster.classes if c.id == key[0])
        tp, (start, end) = self.posed.tp[node.id], key[1]
        share = max(self.through(i) for i in members)
        batch = max(1, math.ceil(self.served.in_flight * share - 1e-6))
        model, service = self.posed.models[node.id], self.posed.service
        decode = (end - start) * service.decode_s(node.id, float(batch)) + model.tuning.step_s
        prefill = (end - start) * service.prompt_s[node.id] + model.tuning.step_s
        memory, at = self._memory(node.id, key[1])
        used = model.precisions
        held = model.card.kinds and self._held_bytes(node.id, key[1])
        context = max(self.mix.context, 1.0)
        busy = self.rps * share * (self.mix.steps * decode / batch + prefill)
        return schema.Replica(
            id=name,
            role="chain",
            count=len(members),
            engine="chains",
            precision=schema.PrecisionUsed(weights=used.gemm, experts=used.experts, kv=used.kv),
            tp=tp,
            pp=1,
            attn_dp=1,
            moe_tp=tp,
            ep=1,
            stages=[
                schema.Stage(
                    device=node.device.name,
                    node_class=node.id,
                    nodes=sorted({node.nodes[self.posed.units[i].node] for i in members}),
                    gpus=tp,
                    tp=tp,
                    layers=key[1],
                )
            ],
            max_batch=batch,
            kv_tokens=math.floor(float(memory.kv_bytes[0, at]) / held * context) if held else 1e15,
            utilisation=busy,
            step=schema.Step(decode_s=decode, prefill_s=prefill, engine_s=model.tuning.step_s),
            memory=[
                schema.StageMemory(
                    stage=0,
                    weights_bytes=float(memory.weights_bytes[0, at]),
                    kv_bytes=float(memory.kv_bytes[0, at]),
                    activation_bytes=float(memory.activation_bytes[0, at]),
                    reserve_bytes=float(memory.reserve_bytes[0, at]),
                    capacity_bytes=float(memory.capacity_bytes[0, at]),
                )
            ],
            watts=self._watts(node.id, share, batch, busy),
        )

    def _memory(self, name: str, layers: tuple[int, int]) -> tuple[Memory, int]:
        """Of a unit as one stage of the whole model, and which stage that is."""
        model, (start, end), whole = self.posed.models[name], layers, len(self.asked.card.stack)
        ranges = [x for x in ((0, start), (start, end), (end, whole)) if x[0] < x[1]]
        designs, own = like(1, self.posed.tp[name], len(ranges)), device_bytes(model.node_class.device)
        budget = self.posed.token_budget[name]
        args = (self.asked.card, own, designs, model.precisions, chains.ENGINE, budget)
        return room_by_stage(*args, layers=ranges), ranges.index(layers)

    def _held_bytes(self, name: str, layers: tuple[int, int]) -> float:
        """Cache of a sequence at the mean context on one GPU of a unit."""
        from planner.cost.memory import kv_bytes_by_stage

        model, (start, end), whole = self.posed.models[name], layers, len(self.asked.card.stack)
        ranges = [x for x in ((0, start), (start, end), (end, whole)) if x[0] < x[1]]
        designs = like(1, self.posed.tp[name], len(ranges))
        tokens = np.array([[max(self.mix.context, 1.0)]])
        held = kv_bytes_by_stage(self.asked.card, designs, model.precisions, tokens, np.array(ranges))
        return float(held[0, 0, ranges.index(layers)])

    def _watts(self, name: str, share: float, batch: int, busy: float) -> float:
        model, mix = self.posed.models[name], self.mix
        one = like(1, self.posed.tp[name])
        prompts = batch * mix.prompt / max(mix.steps, 1.0)
        return float(model.watts(one, min(busy, 1.0), float(batch), mix.context, prompts, mix.prompt / 2)[0])

    def _predicted(self, made: Sequence[schema.Replica]) -> schema.Predicted:
        mix, s = self.mix, self.served
        out, tokens = self.rps * float(mix.osl @ mix.share), self.rps * float((mix.isl + mix.osl) @ mix.share)
        one = like(1, 1)
        known = [m.sigmas(one)[:, 0] for m in self.posed.models.values()]
        ttft, tpot = (float(np.hypot(x, CLOSED_FORM)) for x in np.max(known, axis=0))
        watts = sum(r.count * r.watts for r in made)
        used: dict[str, set[int]] = {}
        for i in s.intervals:
            used.setdefault(self.posed.units[i].node_class, set()).add(self.posed.units[i].node)
        usd = assemble.price(self.asked.cluster.classes, {g: len(n) for g, n in used.items()})
        band = assemble.band
        return schema.Predicted(
            out_tok_per_s=band(out, tpot),
            total_tok_per_s=band(tokens, tpot),
            rps=band(self.rps, tpot),
            ttft_ms=band(1e3 * s.prompt_s, ttft),
            tpot_ms=band(1e3 * s.decode_s, tpot),
            utilisation=band(max(r.utilisation for r in made), tpot),
            usd_per_hour=None if usd is None else band(usd, 0.0),
            usd_per_mtok=None if usd is None else band(usd / (out * 3600 / 1e6), tpot),
            watts=band(watts, 0.2),
            joules_per_tok=band(watts / out, math.hypot(tpot, 0.2)),
        )

    def _proof(self, bound: float, limits: Limits, began: float) -> schema.Proof:
        status = linear.judge(-self.rps, -bound, limits, "time_limit")
        return schema.Proof(
            objective=self.rps,
            bound=bound,
            gap=linear.gap(self.rps, bound),
            status=status if status in ("optimal", "within_gap") else "time_limit",
            seconds=time.perf_counter() - began,
            solver="HiGHS",
            seed=limits.seed,
            space=schema.Space(
                considered=len(self.posed.units), kept=len(self.served.intervals), complete=True, what=SPACE
            ),
            sense="max",
            unit="req/s",
        )

    def _idle(self) -> list[schema.PlanWarning]:
        """GPUs that hold no layers."""
        found = []
        for node in self.asked.cluster.classes:
            busy = sum(
                u.tp
                for i, u in enumerate(self.posed.units)
                if u.node_class == node.id and i in self.served.intervals
            )
            if left := node.gpus - busy:
                reason = "chains over them would serve no more"
                told = f"{left} of {node.gpus} {node.device.name} idle: {reason}"
                form = {
                    "code": "idle_gpus",
                    "message": told,
                    "class": node.id,
                    "count": left,
                    "reason": reason,
                }
                found.append(schema.PlanWarning.model_validate(form))
        return found


_RUNTIME = schema.PlanWarning(
    code="not_stock",
    message="no stock engine routes requests over nodes with some of the layers: Helix and Petals do",
)

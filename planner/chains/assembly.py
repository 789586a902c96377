"""Placed layers and their chains in the form of a Plan."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cluster_configs.schema import NodeClass
from planner.candidates.mix import Mix
from planner.cost.attention import Load
from planner.cost.memory import Memory, device_bytes, kv_bytes_by_stage, room_by_stage
from planner.designs.shape import like
from planner.plans import parts, schema
from planner.plans.bands import Edges, Totals, Way, band, chance
from planner.plans.predicted import idle, price
from planner.problems import chains
from planner.problems.chain_units import Posed
from planner.question.asked import Asked, problem_of
from planner.version import __version__
from solvers import linear
from solvers.linear import Limits
from solvers.placement.predict import Served, together

CLOSED_FORM = 0.15
"""Standard deviation of the log of replayed over predicted tokens/s, beside that of the steps."""


SPACE = "stages of units that hold the same layers, in every order of regions, by requests in flight"

LOOSE = "the bound is a closed form that no search tightens"
"""Why a gap is left."""

Held = tuple[str, tuple[int, int]]
"""A class, and the layers that a unit of it holds."""


@dataclass(frozen=True)
class Assembly:
    """A chosen placement in the Plan's form."""

    asked: Asked
    posed: Posed
    replicas: Sequence[Served]
    gone: frozenset[int] = frozenset()  # units that left

    @cached_property
    def served(self) -> Served:
        """All replicas together."""
        return together(self.replicas)

    @property
    def busy(self) -> Counter[str]:
        """GPUs that hold layers, by class."""
        held = [self.posed.units[i] for i in self.served.intervals]
        return sum((Counter({u.node_class: u.tp}) for u in held), Counter())

    @property
    def mix(self) -> Mix:
        return Mix.of(self.asked.workload)

    @property
    def rps(self) -> float:
        return self.served.tokens_per_s / self.mix.steps

    def plan(self, bound: float, limits: Limits, began: float) -> schema.Plan:
        """`bound` in tokens/s."""
        names, groups = self._groups()
        told = [chain for replica in self.replicas for chain in self._chains(replica, names)]
        made = [self._replica(names[key], key, members, told) for key, members in groups.items()]
        routes = [schema.Route(bucket=i, share=1.0, chains=True) for i in range(len(self.mix.share))]
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
    ) -> tuple[dict[Held, str], dict[Held, list[int]]]:
        """Units by class and layers, and the name of each group, in the order of layers."""
        found: dict[Held, list[int]] = {}
        for i, layers in sorted(self.served.intervals.items(), key=lambda item: (item[1], item[0])):
            found.setdefault((self.posed.units[i].node_class, layers), []).append(i)
        return {key: f"c{n}" for n, key in enumerate(found, start=1)}, found

    def _chains(self, replica: Served, names: Mapping[Held, str]) -> Iterator[schema.Chain]:
        """The chains of one replica; a chain's times are the replica's, longer or shorter as its own way
        is."""
        part = replica.tokens_per_s / self.served.tokens_per_s
        nodes = {c.id: c for c in self.asked.cluster.classes}
        for chain, ttft_s, tpot_s in self.posed.ways(replica):
            hops = []
            for i, layers in chain.hops:
                unit = self.posed.units[i]
                hops.append(
                    schema.Hop(
                        node=nodes[unit.node_class].nodes[unit.node],
                        replica=names[unit.node_class, replica.intervals[i]],
                        layers=layers,
                    )
                )
            yield schema.Chain(share=part * chain.share, hops=hops, ttft_s=ttft_s, tpot_s=tpot_s)

    def _in_flight(self, name: str, told: Sequence[schema.Chain]) -> float:
        """Requests on the busiest node of a group, by Little's law."""
        held: dict[str, float] = {}
        for chain in told:
            seconds = chain.ttft_s + self.mix.steps * chain.tpot_s
            for hop in chain.hops:
                if hop.replica == name:
                    held[hop.node] = held.get(hop.node, 0.0) + self.rps * chain.share * seconds
        return max(held.values(), default=0.0)

    def _copies(self, members: list[int]) -> int:
        """Units of a group on each of its nodes."""
        return len(members) // len({self.posed.units[i].node for i in members})

    @staticmethod
    def _through(served: Served, unit: int) -> float:
        """Part of the requests that passes a unit."""
        return sum(share for (_, to), share in served.shares.items() if to == unit)

    def _replica(
        self, name: str, key: Held, members: list[int], told: Sequence[schema.Chain]
    ) -> schema.Replica:
        node = next(c for c in self.asked.cluster.classes if c.id == key[0])
        tp, (start, end) = self.posed.tp[node.id], key[1]
        share = max(self._through(self.served, i) for i in members)
        batch = max(1, math.ceil(self._in_flight(name, told) / self._copies(members) - 1e-6))
        model, service = self.posed.models[node.id], self.posed.service
        decode = (end - start) * service.decode_s(node.id, float(batch)) + model.tuning.step_s
        if end == len(self.asked.card.stack):
            decode += float(model.layers.head_s(np.array([float(batch)]), like(1, tp))[0])
        prefill = (end - start) * service.prompt_s[node.id] + model.tuning.step_s
        memory, at = self._memory(node.id, key[1])
        held = self._held_bytes(node.id, key[1])
        context = max(self.mix.context, 1.0)
        busy = self.rps * share * (self.mix.steps * decode / batch + prefill)
        return schema.Replica(
            id=name,
            role="chain",
            count=len(members),
            engine="chains",
            precision=parts.precision(model.precisions),
            tp=tp,
            pp=1,
            attn_dp=1,
            moe_tp=tp,
            ep=1,
            stages=[parts.stage(node, sorted({self.posed.units[i].node for i in members}), tp, key[1])],
            max_batch=batch,
            kv_tokens=math.floor(float(memory.kv_bytes[0, at]) / held * context) if held else 1e15,
            utilisation=busy,
            step=schema.Step(decode_s=decode, prefill_s=prefill, engine_s=model.tuning.step_s),
            memory=[parts.stage_memory(memory, at, 0)],
            watts=self._watts(node.id, batch, busy),
        )

    def _memory(self, name: str, layers: tuple[int, int]) -> tuple[Memory, int]:
        """Memory of a unit as one stage of the whole model, and which stage that is."""
        model, ranges = self.posed.models[name], self._ranges(layers)
        designs, own = like(1, self.posed.tp[name], len(ranges)), device_bytes(model.node_class.device)
        budget = self.posed.token_budget[name]
        args = (self.asked.card, own, designs, model.precisions, chains.ENGINE, budget)
        return room_by_stage(*args, layers=ranges), ranges.index(layers)

    def _ranges(self, layers: tuple[int, int]) -> list[tuple[int, int]]:
        """The model in stages of which `layers` are one."""
        (start, end), whole = layers, len(self.asked.card.stack)
        return [x for x in ((0, start), (start, end), (end, whole)) if x[0] < x[1]]

    def _held_bytes(self, name: str, layers: tuple[int, int]) -> float:
        """Cache of a sequence at the mean context on one GPU of a unit."""
        model, ranges = self.posed.models[name], self._ranges(layers)
        designs = like(1, self.posed.tp[name], len(ranges))
        tokens = np.array([[max(self.mix.context, 1.0)]])
        held = kv_bytes_by_stage(
            self.asked.card, designs, model.precisions, chains.ENGINE, tokens, np.array(ranges)
        )
        return float(held[0, 0, ranges.index(layers)])

    def _watts(self, name: str, batch: int, busy: float) -> float:
        model, mix = self.posed.models[name], self.mix
        one = like(1, self.posed.tp[name])
        prompts = batch * mix.prompt / max(mix.steps, 1.0)
        return float(
            model.watts(one, Load.of(float(batch), mix.context, prompts, mix.prompt / 2), min(busy, 1.0))[0]
        )

    def _predicted(self, made: Sequence[schema.Replica]) -> schema.Predicted:
        """Limits speak of the mean over all chains, and so does the chance that they are kept."""
        mix, s = self.mix, self.served
        out, tokens = self.rps * float(mix.osl @ mix.share), self.rps * float((mix.isl + mix.osl) @ mix.share)
        one = like(1, 1)
        known = [m.sigmas(one)[:, 0] for m in self.posed.models.values()]
        ttft, tpot = (float(np.hypot(x, CLOSED_FORM)) for x in np.max(known, axis=0))
        units = {(self.posed.units[i].node_class, self.posed.units[i].node) for i in s.intervals}
        classes, slo = self.asked.cluster.classes, self.asked.workload.slo
        watts = sum(r.count * r.watts for r in made) + idle(classes, self.busy)
        usd = price(classes, Counter(g for g, _ in units))
        first_ms, each_ms = 1e3 * s.prompt_s, 1e3 * s.decode_s
        return Totals(self.rps, out, tokens, usd, watts, Edges.of(tpot)).predicted(
            band(first_ms, ttft),
            band(each_ms, tpot),
            band(max(r.utilisation for r in made), tpot),
            (
                chance(slo.ttft_ms, [Way(1.0, first_ms, ttft)]),
                chance(slo.tpot_ms, [Way(1.0, each_ms, tpot)]),
            ),
        )

    def _proof(self, bound: float, limits: Limits, began: float) -> schema.Proof:
        status = linear.judge(self.rps, bound, limits, "time_limit")
        return schema.Proof(
            objective=self.rps,
            bound=bound,
            gap=linear.gap(self.rps, bound),
            status=status if status in ("optimal", "within_gap") else "not_closed",
            why="" if status in ("optimal", "within_gap") else LOOSE,
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
        units = self.posed.units

        def why(node: NodeClass, left: int) -> str:
            if any(units[i].node_class == node.id for i in self.gone):
                return "nodes have left"
            if all(u.node_class != node.id for u in units):
                return "too small for any layer"
            return "chains over them would serve no more"

        return parts.idle(self.asked.cluster.classes, self.busy, why)


_RUNTIME = schema.PlanWarning(
    code="not_stock",
    message="no stock engine routes requests over nodes with some of the layers: Helix and Petals do",
)

"""The replica groups of a plan as servers that can be replayed, from the Plan alone.

A server is one rank group of a replica (attention dp has several). Its step: `planner.simulate.steps`. A
server has the plan's room (`kv_tokens`), its limit on sequences (`max_batch`, what the launch line says) and
the tokens of a step that its engine takes.

A prefill server sends the KV cache of a prompt over its own NICs, the declared link between both places and
the decode server's NICs, or over both servers' links inside a scale-up domain.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Device, ResolvedCluster, declared_link
from model_zoo.schema import ModelCard
from planner.cost.model import CostModel
from planner.cost.reserve import counted_tokens_per_step
from planner.cost.transfer import START_S, inside_bytes_per_s, nic_bytes_per_s, stays_inside
from planner.cost.unequal import UnequalModel
from planner.designs.precision import served
from planner.designs.shape import Designs, Stage, Staging, designs_of
from planner.engines import named
from planner.errors import InputError
from planner.inputs.workload import Workload
from planner.operating.requests import Requests, computed
from planner.plans.schema import Plan, Replica
from planner.simulate.links import Wire
from planner.simulate.pools import Group
from planner.simulate.requests import Role, Settings, StepCosts
from planner.simulate.routing import Way
from planner.simulate.steps import Leveled, alone_s, leveled

NOT_MEASURED = "plan with `--model` and without `--profile`"


@dataclass(frozen=True)
class OwnStep:
    """A server's step, with the model, requests and tokens of a step (`budget`) it was made for."""

    model: CostModel
    asked: Requests
    budget: int
    leveled: Leveled


class Servers:
    """A plan opened up. Raises InputError where it cannot be replayed: chains, a profile's own figures."""

    def __init__(self, plan: Plan) -> None:
        problem = plan.problem
        if plan.chains:
            text = "a plan of chains is not simulated: its requests pass many nodes, each with its own queue"
            raise InputError(text, "plan", "simulate a plan without `--engine chains`")
        measured = next((r.id for r in plan.replicas if r.engine == "measured"), None)
        if not problem.model or measured:
            text = "a plan of measured replicas is not simulated: a table of what they sustain says no steps"
            raise InputError(text, f"replica {measured}" if measured else "problem.model", NOT_MEASURED)
        apart = next((r for r in plan.replicas if r.role in ("attention", "ffn")), None)
        if apart is not None:
            text = f"`{apart.id}` computes attention apart from FFNs, which is not simulated"
            raise InputError(text, "replicas", "simulate a plan of whole replicas")
        if not plan.replicas:
            raise InputError("the plan has no replicas", "replicas")
        devices = {name: Device.model_validate(form) for name, form in problem.devices.items()}
        self.plan = plan
        self.cluster: ResolvedCluster = resolve(Cluster.model_validate(problem.cluster), devices=devices)
        self.classes = {node.id: node for node in self.cluster.classes}
        self.card = ModelCard.model_validate(problem.model)
        self.workload = Workload.model_validate(problem.workload)
        self.isl = np.array([b.isl for b in self.workload.buckets], dtype=float)
        self.osl = np.array([b.osl for b in self.workload.buckets], dtype=float)

    @cached_property
    def ways(self) -> list[list[Way]]:
        """Of each bucket, as the plan routes it."""
        found: list[list[Way]] = [[] for _ in self.workload.buckets]
        for r in self.plan.routing:
            first = r.replica or r.prefill
            if first is not None and r.share > 0:
                found[r.bucket].append(Way(r.share, first, r.decode))
        return found

    def new(self, isl: np.ndarray, bucket: np.ndarray, group: str | None = None) -> np.ndarray:
        """Prompt tokens that a server computes on average, of requests in their buckets (n,): not those in
        its prefix cache."""
        kept = next((r.kept for r in self.plan.replicas if r.id == group and r.kept), None)
        found = isl * self.workload.prefix_hit
        if kept is not None:
            found = isl * np.minimum(np.array(kept.found_tokens)[bucket] / self.isl[bucket], 1.0)
        return computed(isl, found)

    @cached_property
    def rates(self) -> Mapping[str, np.ndarray]:
        """Requests/s of each bucket that the plan sends to each group, (w,)."""
        shares = np.array(self.workload.shares)
        rate = self.plan.predicted.rps.value * shares
        found = {r.id: np.zeros(len(shares)) for r in self.plan.replicas}
        for bucket, ways in enumerate(self.ways):
            for way in ways:
                for group in {way.first, way.second} - {None}:
                    found[str(group)][bucket] += rate[bucket] * way.share
        return found

    def own_step(self, replica: Replica) -> OwnStep:
        """The step of a group's servers at the plan's load, and what it was made of."""
        model, designs = self.model(replica)
        rate = self.rates[replica.id] / (replica.count * replica.attn_dp)
        budget, asked = replica.max_batched_tokens or self._budget(replica), self._asked(replica, rate)
        made = leveled(replica, model, designs, asked, rate, budget, self.workload.loop)
        return OwnStep(model, asked, budget, made)

    def group(self, replica: Replica) -> Group:
        """The servers of one replica group."""
        own, ranks = self.own_step(replica), replica.attn_dp
        role: Role = replica.role if replica.role in ("prefill", "decode") else "mixed"
        before_s = 0.0 if role == "decode" else self.plan.predicted.ttft_ms.value / 1e3
        rules = Settings(
            token_budget=own.budget,
            max_sequences=max(replica.max_batch / ranks, 1.0),
            kv_tokens=max(replica.kv_tokens / ranks, 1.0),
            reserved_osl=self.longest if named(replica.engine).admits_whole else None,
        )
        return Group(
            id=replica.id,
            role=role,
            servers=replica.count * ranks,
            step=self._costs(replica, own, rules),
            rules=rules,
            request_s=0.0 if role == "decode" else own.model.tuning.request_s,
            text_token_s=0.0 if role == "decode" else own.model.tuning.text_token_s,
            emitted=replica.emitted,
            rps=float(self.rates[replica.id].sum()),
            stay_s=before_s + own.leveled.mean_s * float(own.asked.decodes[0]),
            beside_tokens=self._beside_tokens(replica, own.model),
        )

    def _beside_tokens(self, replica: Replica, model: CostModel) -> float:
        """Of idle cache that one of its servers keeps outside GPU memory."""
        if replica.kept is None or replica.kept.place == "hbm":
            return 0.0
        one, two = model.transfer_bytes(np.array([1e4, 2e4]))
        return float(replica.kept.bytes / ((two - one) / 1e4) / replica.attn_dp)

    def _costs(self, replica: Replica, own: OwnStep, rules: Settings) -> StepCosts:
        """Its step, by number of sequences where the cost model says so itself."""
        costs = StepCosts.of(own.leveled.step)
        outside = any(t.replica == replica.id and t.what != "cache" for t in self.plan.tiers)
        if (
            own.leveled.mean_s <= 0
            or replica.draft is not None
            or outside
            or not np.isfinite(rules.max_sequences)
        ):
            return costs
        model, designs = self.model(replica)
        by_sequences = alone_s(own.leveled, model, designs, own.asked, rules.max_sequences)
        return replace(costs, alone_s=by_sequences)

    def _asked(self, replica: Replica, rate: np.ndarray) -> Requests:
        """What comes to one server at its `rate` (w,)."""
        total = max(float(rate.sum()), 1e-12)
        share = rate / total if rate.sum() > 0 else np.array(self.workload.shares)
        new = self.new(self.isl, np.arange(len(self.isl)), replica.id)
        return Requests(new[None], self.isl[None], self.osl[None], share[None], replica.emitted)

    def model(self, replica: Replica) -> tuple[CostModel, Designs]:
        """The cost model of a group's servers, and its design."""
        used = replica.precision
        precisions = served(self.card, used.weights, used.experts, used.kv)
        first = self.classes[replica.stages[0].node_class]
        alike = {(s.node_class, s.tp) for s in replica.stages}
        if len(alike) > 1:
            names = list(dict.fromkeys(s.node_class for s in replica.stages))
            staging: Staging = tuple(Stage(s.node_class, s.tp, s.layers) for s in replica.stages)
            classes = [self.classes[name] for name in names]
            unlike = UnequalModel(
                self.card, classes, self.cluster.links, [staging], replica.engine, precisions
            )
            return unlike, designs_of([staging])
        sizes = (replica.tp, replica.pp, replica.attn_dp, replica.moe_tp, replica.ep)
        designs = Designs(*(np.array([x]) for x in (*sizes, replica.redundant_experts, replica.cp)))
        model = CostModel(self.card, first, replica.engine, precisions)
        told = replica.power_limit_watts
        return model if told is None else model.limited(told), designs

    @property
    def longest(self) -> int:
        """Tokens of the longest answer."""
        return self.workload.max_osl or max(b.osl for b in self.workload.buckets)

    def _budget(self, replica: Replica) -> int:
        devices = [self.classes[s.node_class].device for s in replica.stages]
        return counted_tokens_per_step(replica.engine, devices)

    def wire(self, way: Way) -> Wire:
        """How a prompt's cache goes this way. Raises InputError where nothing joins both ends."""
        groups = {r.id: r for r in self.plan.replicas}
        one, two = groups[way.first], groups[str(way.second)]
        a, b = (self.classes[r.stages[0].node_class] for r in (one, two))
        link, times = declared_link(self.cluster.links, a, b), self._times(way)
        nics = _gpus(one) * nic_bytes_per_s(a), _gpus(two) * nic_bytes_per_s(b)
        if stays_inside(a, b):
            inside = _gpus(one) * inside_bytes_per_s(a), _gpus(two) * inside_bytes_per_s(a)
            return Wire(*inside, START_S, times=times)
        if link is None and a.zone != b.zone:
            text = f"no link joins `{one.id}` and `{two.id}`, which share requests"
            raise InputError(text, "problem.cluster.links", "add the link between their zones")
        if link is None:
            return Wire(*nics, START_S, times=times)
        up = (a.zone, a.id) <= (b.zone, b.id)
        name = " to ".join(link.between if up else reversed(link.between))
        return Wire(*nics, START_S + link.latency_s, name, link.bytes_per_s, times)

    def _times(self, way: Way) -> float:
        """The plan's bytes/s between two groups over those of whole caches at its rate."""
        ends = (way.first, way.second)
        routes = [r for r in self.plan.routing if (r.prefill, r.decode) == ends and r.kv_gb_per_s]
        buckets = [r.bucket for r in routes]
        if not routes:
            return 1.0
        rate = self.plan.predicted.rps.value * np.array([r.share for r in routes])
        rate = rate * np.array(self.workload.shares)[buckets]
        told = sum(1e9 * (r.kv_gb_per_s or 0.0) for r in routes)
        return told / max(float(rate @ self.sent_bytes(way, self.isl[buckets])), 1e-9)

    def sent_bytes(self, way: Way, isl: np.ndarray) -> np.ndarray:
        """Bytes of the caches of prompts of `isl` tokens (n,)."""
        model, _ = self.model(next(r for r in self.plan.replicas if r.id == way.first))
        known = np.unique(isl)
        return np.asarray(model.transfer_bytes(known)[np.searchsorted(known, isl)])


def _gpus(replica: Replica) -> int:
    """GPUs of a rank group of a replica."""
    return sum(s.tp for s in replica.stages) * replica.cp

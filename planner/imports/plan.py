"""A deployment that was read → the Plan it is, its designs on their own GPUs timed by the one model, and how
far it is from the best plan of the same question."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from cluster_configs.reading import from_gpus, resolve
from cluster_configs.schema import Cluster, Node, NodeClass, ResolvedCluster
from model_zoo import catalog
from planner import api
from planner.candidates.ask import Ask
from planner.errors import Infeasible, InputError, placed
from planner.imports.deployment import Deployment, Group
from planner.imports.parts import Only, parts, told_sequences
from planner.plans.schema import Plan, Replica
from planner.question.asked import read
from planner.reading.units import counted
from planner.replicas.pool import Pool
from planner.rules.designs import why_invalid
from solvers.linear import Limits

FLAGS: Final[Mapping[str, Mapping[str, str]]] = {
    "vllm": {
        "tp": "--tensor-parallel-size",
        "pp": "--pipeline-parallel-size",
        "dp": "--data-parallel-size",
        "ep": "--enable-expert-parallel",
        "sequences": "--max-num-seqs",
    },
    "sglang": {
        "tp": "--tp-size",
        "pp": "--pp-size",
        "dp": "--attn-dp-size",
        "ep": "--ep-size",
        "sequences": "--max-running-requests",
    },
    "trtllm": {
        "tp": "--tp_size",
        "pp": "--pp_size",
        "dp": "--enable_attention_dp",
        "ep": "--ep_size",
        "sequences": "--max_batch_size",
    },
    "llama.cpp": {"pp": "-ts", "sequences": "--parallel"},
}


def devices_of(deployment: Deployment, cluster: ResolvedCluster) -> tuple[ResolvedCluster, dict[str, str]]:
    """A cluster of just the GPUs that the deployment takes, a class of nodes for each of its groups, so that
    each has its own; and the class in `cluster` that each of these is of. Raises InputError where the cluster
    has too few."""
    nodes, homes, free = list[Node](), dict[str, str](), {n.id: n.gpus for n in cluster.classes}
    for i, g in enumerate(deployment.groups, 1):
        need = g.replicas * g.each
        home = next((n for n in cluster.classes if free[n.id] >= need), None)
        if home is None:
            there = ", ".join(f"{free[n.id]} {n.device.name}" for n in cluster.classes)
            raise InputError(f"the deployment takes {need} GPUs of one class, there are {there}")
        free[home.id] -= need
        size = home.gpus_per_node
        for count, gpus in ((need // size, size), (1, need % size)):
            if count and gpus:
                name = f"{g.server.role}-{i}" + ("-rest" if gpus < size and need > size else "")
                nodes.append(_part_of(home, name, count, gpus))
                homes[name] = home.id
    devices = {n.device.name: n.device for n in cluster.classes}
    return resolve(Cluster(name="imported", nodes=nodes), devices=devices), homes


def _part_of(home: NodeClass, name: str, count: int, gpus: int) -> Node:
    """`count` nodes of a class with `gpus` of its GPUs each, and their part of what a node pays and draws."""
    price, cap, part = home.price_usd_per_hour, home.power_cap_watts, gpus / home.gpus_per_node
    node = Node(
        name=name,
        count=count,
        device=home.device.name,
        gpus_per_node=gpus,
        power_cap_watts=cap and cap * part,
        scale_up_gpus=home.scale_up_gpus if part == 1 else min(home.scale_up_gpus, gpus),
        intra_gb_per_s=home.intra_bytes_per_s / 1e9,
        peer_to_peer=home.peer_to_peer,
        nic_gb_per_s=home.nic_bytes_per_s / 1e9,
        nic=home.nic,
        spot=home.spot,
        availability=home.availability,
        host=home.host,
        tiers=list(home.tiers),
    )
    return node.model_copy(update={"price_usd_per_hour": None if price is None else price * part})


def as_given(text: str, homes: Mapping[str, str]) -> str:
    """`text` with classes under the ids that their user knows.

    >>> as_given("tp8 on mixed-1, not on mixed-10", {"mixed-1": "rack-a"})
    'tp8 on rack-a, not on mixed-10'
    """
    ours = "|".join(re.escape(name) for name in sorted(homes, key=len, reverse=True))
    return re.sub(rf"(?<![\w-])({ours})(?!\w)", lambda m: homes[m[0]], text)


SWITCHES: Final = ("--enable-expert-parallel", "--enable_attention_dp")
"""Flags that take no number."""


@dataclass(frozen=True)
class OneKind:
    """Keeps of a pool what one engine's servers of one kind may be: both phases, nothing kept or drafted."""

    engine: str

    def __call__(self, pool: Pool, ask: Ask, cluster: ResolvedCluster) -> Pool:
        left = (c for c in pool.candidates if (c.role, c.engine) == ("mixed", self.engine))
        return replace(pool, candidates=tuple(c for c in left if not c.design.stages))


@dataclass(frozen=True)
class Imported:
    """A deployment as a Plan, the best plan for the same GPUs and question, the best `near` it (one kind of
    server, with its engine), and what is to be told."""

    deployment: Deployment
    plan: Plan
    best: Plan
    near: Plan | None
    notes: tuple[str, ...]

    def gain(self, other: Plan) -> float:
        """By what share of the deployment's objective another plan is better; 0 where it is not."""
        own, theirs = self.plan.proof.own, other.proof.own
        more = theirs / own - 1 if other.proof.sense == "max" else 1 - theirs / own
        return max(more, 0.0)

    @property
    def loss(self) -> float:
        """The share of the best plan's objective that the deployment gives away; 0 where it is as good."""
        own, best = self.plan.proof.own, self.best.proof.own
        lost = (best - own) / best if self.best.proof.sense == "max" else (own - best) / best
        return max(lost, 0.0)

    @property
    def changes(self) -> list[str]:
        """Flags that make the deployment's one kind of server the best near it."""
        if self.near is None or len(self.near.replicas) != 1 or len(self.plan.replicas) != 1:
            return []
        own, best = self.plan.replicas[0], self.near.replicas[0]
        names = FLAGS[own.engine]
        now, then = (_told_sizes(r) for r in (own, best))
        said = [f"{names[k]} {now[k]} -> {then[k]}" for k in now if k in names and now[k] != then[k]]
        said += self._more_sequences(best)
        return said + ([f"servers {own.count} -> {best.count}"] if own.count != best.count else [])

    def _more_sequences(self, best: Replica) -> list[str]:
        """The flag that lets a server decode as many sequences as `best`, where the command's is less."""
        told = told_sequences(self.deployment.groups[0].server)
        needed = best.max_batch if best.engine == "sglang" else math.ceil(best.max_batch / best.attn_dp)
        if not 0 < told < needed:
            return []
        return [f"{FLAGS[best.engine]['sequences']} {told} -> {needed}"]


def _told_sizes(r: Replica) -> dict[str, object]:
    """Sizes of a replica as the flags of its engine take them: SGLang's and TensorRT-LLM's tp is of all ranks
    of a stage, and two flags are switches."""
    ranks = r.tp * (r.attn_dp if r.engine in ("sglang", "trtllm") else 1)
    sizes: dict[str, object] = {"tp": ranks, "pp": r.pp, "dp": r.attn_dp, "ep": r.ep}
    for name, flag in FLAGS[r.engine].items():
        if flag in SWITCHES:
            sizes[name] = "on" if sizes[name] != 1 else "off"
    return sizes


def imported(
    deployment: Deployment,
    cluster: ResolvedCluster | None,
    gpus: str | None,
    model: str | None,
    question: Mapping[str, Any],
) -> Imported:
    """The Plan of a deployment on the GPUs of `cluster` or `gpus`, and the best one there. Raises InputError,
    Infeasible."""
    began = time.perf_counter()
    card, notes = catalog.find(model or _only_model(deployment))
    there = cluster or from_gpus(gpus or _usual(deployment))
    own = tuple(parts(deployment, card))
    for part in own:
        d = part.design
        sizes = (d.tp, d.pp, d.attn_dp, d.moe_tp, d.ep)
        if reason := why_invalid(card, part.engine, *sizes, cp=d.cp):
            raise InputError(f"{part.engine} does not start {card.name} so: {reason}", "the command")
    engines = {p.engine for p in own}
    engine = engines.pop() if len(engines) == 1 else "any"
    options = {**_told(deployment), **{k: v for k, v in question.items() if v is not None}}
    loads = {k: options.pop(k, None) for k in ("isl", "osl", "rate", "ttft_ms", "tpot_ms", "percentile")}
    workload = options.pop("workload", "chat")
    limits = Limits(gap=float(options.get("gap", 0.01)), seconds=float(options.get("time_limit_s", 60.0)))
    asked = partial(read, model=card, gpus=None, workload=workload, loads=loads)
    with placed("--gpus" if cluster is None else "--cluster"):
        taken, homes = devices_of(deployment, there)
    ours = asked(taken, options={**options, "engine": engine, "simple": 0.0})
    try:
        plan = api.planned(replace(ours, only=Only(own)), limits, began, explain=False)
    except Infeasible as error:
        said, hint = (as_given(text, homes) for text in (error.message, error.hint or ""))
        raise Infeasible(f"as deployed: {said}", hint=hint) from None
    near = None
    if len(own) == 1 and own[0].role == "mixed":
        alike = asked(there, options={**options, "engine": engine, "simple": 0.99})
        near = api.planned(replace(alike, only=OneKind(engine)), limits, time.perf_counter(), explain=False)
    best = api.plan(there, card, workload=workload, explain=False, **loads, **options)
    return Imported(deployment, plan, best, near, tuple(notes))


def _only_model(deployment: Deployment) -> str:
    """The model that all servers have. Raises InputError where they have several, or none is named."""
    names = list(dict.fromkeys(str(m) for g in deployment.groups if (m := g.server.facts["model"])))
    if not names:
        raise InputError("which model does it serve? The command does not say", hint="add --model")
    if len(names) > 1:
        hint = "read the files of each by themselves, or add --model where they are one"
        raise InputError(f"it starts several models: {', '.join(names)}", hint=hint)
    return names[0]


def _usual(deployment: Deployment) -> str:
    """GPUs by the device that the deployment names. Raises InputError where it names none."""
    kind = next(
        (g.server.facts["accelerator"] for g in deployment.groups if "accelerator" in g.server.facts), None
    )
    if kind is None:
        hint = f"--gpus {deployment.gpus}xH100"
        raise InputError(
            f"which {deployment.gpus} GPUs does it run on? The command does not say", "--gpus", hint
        )
    return f"{deployment.gpus}x{kind}"


def _told(deployment: Deployment) -> dict[str, Any]:
    """Precisions that the command sets itself."""
    facts, found = deployment.groups[0].server.facts, dict[str, Any]()
    if str(facts.get("kv_cache_dtype", "")).startswith("fp8"):
        found["kv_precision"] = "fp8"
    if facts.get("quantization") == "fp8":
        found["precision"] = "fp8"
    return found


def group_words(g: Group) -> str:
    """A group in a line."""
    f = g.server.facts
    sizes = [f"{k} {f[k]}" for k in ("tp", "pp", "dp", "attn_dp", "ep", "cp") if f.get(k) not in (None, 1)]
    own = f"{g.replicas} x {g.server.role} {', '.join(sizes) or 'one GPU'}"
    return f"{own} with {g.server.engine}, {counted(g.each, 'GPU')} each"

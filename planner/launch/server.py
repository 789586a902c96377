"""One replica of a plan as what is started: the sizes and limits that every engine's command line says."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from cluster_configs.unlike import machines
from model_zoo.schema import ModelCard, MoeFfn
from planner.engines import named
from planner.plans.schema import Plan, Replica, Stage, Tiered

ROOM = 2
"""Times the workload's longest request that a server admits at most: real lengths spread."""

BLOCK = 1024
"""Tokens to a multiple of which that length is rounded up."""


DRAFT_HEAD = "$DRAFT_HEAD"
DEEPEP = "DeepEP and NVSHMEM are to be installed with the engine: experts of other nodes are sent to by them"


@dataclass(frozen=True)
class Server:
    """A group's replica, with the plan that it is of."""

    plan: Plan
    replica: Replica

    @property
    def model(self) -> str:
        """The id that was asked for."""
        problem = self.plan.problem
        return problem.model_id or str(problem.model.get("hf_id") or problem.model["name"])

    @cached_property
    def gpus(self) -> int:
        """GPUs of one replica."""
        return sum(stage.gpus for stage in self.replica.stages)

    @cached_property
    def node_gpus(self) -> int:
        """GPUs of a node of the first stage's class."""
        stage = self.replica.stages[0]
        return node_sizes(self.plan)[stage.node_class]

    @property
    def nodes(self) -> int:
        """Nodes that one replica stands on."""
        return len(self.by_node)

    @cached_property
    def by_node(self) -> list[int]:
        """GPUs of one replica on each node; all kinds of GPU of a node are one, each class has its own."""
        held, found, sizes = Counter[str](), Counter[str](), node_sizes(self.plan)
        for stage in self.replica.stages:
            held[stage.node_class] += stage.gpus
        for name, left in held.items():
            size = left if "/" in name else sizes[name]
            for i, start in enumerate(range(0, left, size)):
                found[machine_of(name) if "/" in name else f"{name}-{i}"] += min(size, left - start)
        return list(found.values())

    @property
    def generation(self) -> str:
        """Of the first stage's devices."""
        return str(self.plan.problem.devices[self.replica.stages[0].device].get("generation"))

    @property
    def expert_kernels(self) -> str:
        """The family of kernels that the plan asks the engine for, blank for the engine's own choice."""
        experts = str(self.replica.precision.experts)
        alone, ranks = named(self.replica.engine).families(self.generation, experts)
        return ranks if self.replica.attn_dp > 1 else alone

    @property
    def float_router(self) -> bool:
        """Whether the engine holds the model's routers of experts in 32 bits."""
        engine = named(self.replica.engine)
        return self.card.float_router and engine.float_router(self.card.architecture) is not None

    @property
    def layers(self) -> list[int]:
        """Layers of each stage."""
        return [b - a for a, b in (stage.layers for stage in self.replica.stages)]

    @cached_property
    def max_len(self) -> int:
        """Tokens of a request that the server admits: `ROOM` times the longest of the workload, at most what
        the model takes, and what one rank's cache holds."""
        w, card = self.plan.problem.workload, self.plan.problem.model
        longest = max(b["isl"] + max(b["osl"], w.get("max_osl") or 0) for b in w["buckets"])
        wanted = math.ceil(ROOM * longest / BLOCK) * BLOCK
        held = self.replica.kv_tokens / self.replica.attn_dp
        most, least = min(wanted, card["max_context"]), min(longest, card["max_context"])
        return int(max(min(most, held) if held > 0 else most, least))

    @property
    def sequences(self) -> int:
        """In flight on one attention-dp rank."""
        return math.ceil(self.replica.max_batch / self.replica.attn_dp)

    @property
    def default_tokens(self) -> int:
        """Tokens of a step that its engine takes on the device where it is told none."""
        device = self.plan.problem.devices[self.replica.stages[0].device]
        return named(self.replica.engine).tokens_per_step(device["memory_gb"] * 1e9 / 2**30, device["name"])

    @property
    def pool_share(self) -> float:
        """Weights and cache as a share of a GPU's memory, on the fullest stage."""
        parts = [m for m in self.replica.memory if m.capacity_bytes]
        return max(((m.weights_bytes + m.kv_bytes) / m.capacity_bytes for m in parts), default=0.0)

    @property
    def prefix_cache(self) -> bool:
        """Whether prompts that begin alike are looked for: where the workload says that there are any."""
        w = self.plan.problem.workload
        return bool(w.get("prefix_hit") or w.get("reuse") or w.get("idle") or self.replica.kept)

    @property
    def kept_bytes(self) -> float:
        """Idle cache of one replica that the engine copies beside its GPUs; what only rests in GPU memory is
        the engine's prefix cache alone."""
        kept = self.replica.kept
        return kept.bytes if kept and kept.place != "hbm" else 0.0

    @property
    def draft_option(self) -> str:
        """What asks the engine for its drafter; empty without one. A trained head's checkpoint is left to
        fill in."""
        return self.replica.draft.option.replace("HEAD", DRAFT_HEAD) if self.replica.draft else ""

    @property
    def kv(self) -> str:
        return self.replica.precision.kv

    @property
    def lowered(self) -> str | None:
        """The precision of weights, where one was asked for that is not the checkpoint's own."""
        return self.replica.precision.weights if self.plan.problem.options.get("precision") else None

    @property
    def quantised(self) -> list[str]:
        """Notes on the checkpoint: engines make fp8 of 16-bit weights themselves, nothing else."""
        if self.lowered in (None, "bf16", "fp8"):
            return []
        return [
            f"weights are counted in {self.lowered}: name a checkpoint that has them in place of {self.model}"
        ]

    @cached_property
    def beside(self) -> list[Tiered]:
        """Its weights that lie beside the GPUs."""
        return [t for t in self.plan.tiers if t.replica == self.replica.id and t.what != "cache"]

    @cached_property
    def peers(self) -> list[Replica]:
        """Groups on the other side of its prefill/decode pairs."""
        routes = [r for r in self.plan.routing if self.replica.id in (r.prefill, r.decode)]
        names = {x for r in routes for x in (r.prefill, r.decode)} - {self.replica.id}
        return [r for r in self.plan.replicas if r.id in names]

    @property
    def piped_prefill(self) -> bool:
        """Whether either side of its pairs prefills in a pipeline."""
        return any(r.role == "prefill" and r.pp > 1 for r in [self.replica, *self.peers])

    @property
    def peers_over_pcie(self) -> bool:
        """Whether either side stands on nodes that are said to have peer-to-peer over PCIe."""
        problem = self.plan.problem
        told = {
            node.get("name") or node["device"]
            for node in problem.cluster["nodes"]
            if node.get("peer_to_peer")
            and problem.devices.get(node.get("device", ""), {}).get("intra_link") == "pcie"
        }
        return any(s.node_class in told for r in [self.replica, *self.peers] for s in r.stages)

    @cached_property
    def card(self) -> ModelCard:
        return ModelCard.model_validate(self.plan.problem.model)

    @property
    def experts(self) -> int:
        """Experts of a layer; 0 without any."""
        return max((ffn.experts for ffn in self.card.ffns.values() if isinstance(ffn, MoeFfn)), default=0)

    @property
    def moe(self) -> bool:
        return self.experts > 0

    @property
    def sends_wide(self) -> bool:
        """Whether tokens go by DeepEP to experts beyond a scale-up domain (planner/cost/exchange.py)."""
        r, stage = self.replica, self.replica.stages[0]
        nodes = self.plan.problem.cluster["nodes"]
        own: dict[str, Any] = next((n for n in nodes if n.get("name") == machine_of(stage.node_class)), {})
        domain = int(own.get("scale_up_gpus") or self.node_gpus)
        whole = r.ep == r.tp * r.attn_dp * r.cp > domain and r.attn_dp * r.cp > 1
        return whole and r.ep > 1 and self.generation in named(r.engine).sends_wide

    def why_not(self) -> str | None:
        """Why its engine does not start it as it comes; None where it does."""
        r = self.replica
        if r.role == "chain":
            return "no stock engine routes requests over nodes with some of the layers: Helix and Petals do"
        if r.role in ("attention", "ffn") or any(s.layers == (0, 0) for s in r.stages):
            return "no stock engine runs attention and FFNs on different GPUs"
        if len({s.tp for s in r.stages}) > 1:
            return "no stock engine has stages of unlike tp"
        if r.engine != "llama.cpp" and len(set(self.by_node)) > 1:
            on = " and ".join(map(str, self.by_node))
            ray = "; under Ray it does not (--distributed-executor-backend ray)" if r.engine == "vllm" else ""
            return f"its nodes have {on} of its GPUs, and {r.engine} starts as many ranks on each{ray}"
        if self.plan.problem.calibration.get("profile"):
            return "a design of your own table: how it is started is not in it"
        return None


def node_sizes(plan: Plan) -> dict[str, int]:
    """GPUs of a node by class."""
    devices: dict[str, dict[str, Any]] = plan.problem.devices
    found = dict[str, int]()
    for name, kinds in kinds_of(plan).items():
        found |= {f"{name}/{device}": count for device, count in kinds.items()}
    for node in plan.problem.cluster["nodes"]:
        if node.get("gpus"):
            continue
        name, device = node.get("name") or node["device"], node["device"]
        found[name] = int(node.get("gpus_per_node") or devices.get(device, {}).get("gpus_per_node", 1))
    return found


def vendor_of(plan: Plan, stage: Stage) -> str:
    """Who makes the GPUs of a stage."""
    return str(plan.problem.devices[stage.device].get("vendor", "nvidia"))


def kinds_of(plan: Plan) -> dict[str, dict[str, int]]:
    """GPUs by kind of each node that has several kinds, in their order: how many there are of each."""
    return {
        name: {gpu["device"]: int(gpu.get("count") or 1) for gpu in node["gpus"]}
        for node in plan.problem.cluster["nodes"]
        if node.get("gpus")
        for name in machines(node["name"], int(node.get("count") or 1))
    }


def machine_of(node: str) -> str:
    """The machine that a node's name stands for: parts of one with unlike GPUs are "pc/rtx-4090-0"."""
    return node.split("/")[0]

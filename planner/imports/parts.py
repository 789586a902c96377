"""The replicas that a deployment's servers are, as the planner counts them, and a pool of just these."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Final

from cluster_configs.schema import ResolvedCluster
from model_zoo.schema import ModelCard
from planner.candidates.ask import Ask
from planner.candidates.candidate import Design
from planner.errors import InputError
from planner.imports.deployment import Deployment, Role, Server
from planner.replicas.again import among, anew
from planner.replicas.alike import ROLES
from planner.replicas.pool import Pool
from planner.rules.designs import DEPTHS

SEQUENCES: Final = ("max_num_seqs", "max_running_requests", "max_batch_size", "parallel")
"""Facts of a server that limit the sequences it decodes at once: SGLang's of all attention-dp ranks together,
the others' of each."""


@dataclass(frozen=True)
class Part:
    """Equal replicas of a deployment: how many, what each is, and how many sequences one may decode at once,
    None where the command leaves that to the engine."""

    role: Role
    engine: str
    design: Design
    count: int
    most_sequences: int | None = None

    @property
    def most_a_rank(self) -> float:
        """The same of one attention-dp rank: it serves at least one."""
        most = math.inf if self.most_sequences is None else self.most_sequences
        return max(most / self.design.attn_dp, 1.0)


def parts(deployment: Deployment, card: ModelCard) -> list[Part]:
    """Its replicas as the planner counts them: servers of a dense model side by side are so many replicas."""
    return [
        Part(g.server.role, g.server.engine, design, g.replicas * count, most_sequences(g.server, design))
        for g in deployment.groups
        for design, count in [design_of(g.server, card)]
    ]


def design_of(s: Server, card: ModelCard) -> tuple[Design, int]:
    """The design of one replica, and how many of them a server is."""
    f, moe = s.facts, card.moe
    tp, pp, dp, ep, cp = (int(f.get(name) or 1) for name in ("tp", "pp", "dp", "ep", "cp"))
    if s.engine == "llama.cpp":
        return Design(pp=s.gpus), 1
    if s.engine == "vllm":
        if not moe:
            return Design(tp=tp, pp=pp, moe_tp=tp * cp, cp=cp), dp
        ranks = tp * dp * cp
        return Design(tp, pp, dp, 1 if ep > 1 else ranks, ranks if ep > 1 else 1, cp=cp), 1
    attn = int(f.get("attn_dp") or 1)
    replicas = dp if s.engine == "sglang" and not f.get("attn_dp") else 1
    return Design(tp // attn, pp, attn, tp // ep, ep, cp=cp), replicas


def told_sequences(s: Server) -> int:
    """The limit as the command has it; below 1 where it says nothing, or llama.cpp's -1: as the engine
    likes."""
    return next((int(s.facts[name]) for name in SEQUENCES if name in s.facts), 0)


def most_sequences(s: Server, design: Design) -> int | None:
    """Sequences that one replica may decode at once, where the command says so."""
    told = told_sequences(s)
    if told < 1:
        return None
    return told if s.engine == "sglang" else told * design.attn_dp


@dataclass(frozen=True)
class Only:
    """Keeps of a pool the designs of a deployment alone."""

    parts: tuple[Part, ...]

    def __call__(self, pool: Pool, ask: Ask, cluster: ResolvedCluster) -> Pool:
        engines = {p.engine for p in self.parts}
        own = replace(pool, made={k: m for k, m in pool.made.items() if k.engine in engines and m.plain})
        parts = list(enumerate(self.parts, 1))
        most = {n.id: p.most_a_rank for n in cluster.classes for i, p in parts if _stands(n.id, p, i)}
        told = replace(ask, most_sequences=most)
        self._planned(own)
        found = anew(own, cluster.classes, told, ROLES, designs=[p.design for p in self.parts])
        left = tuple(c for c in found.candidates if any(_is(c, p, i) for i, p in parts))
        keys = {c.key for c in left} or found.made.keys()  # of none the setups tell why
        return replace(found, candidates=left, made={k: m for k, m in found.made.items() if k in keys})

    def _planned(self, pool: Pool) -> None:
        """Raises InputError where a part is a layout that is not among those of its engine in `pool`."""
        for i, p in enumerate(self.parts, 1):
            of_engine = (m for m in pool.made.values() if m.key.engine == p.engine)
            there = [m for m in of_engine if _stands(m.key.where, p, i)]
            if there and not any(len(among(m.setup, [p.design])) for m in there):
                depths = ", ".join(map(str, DEPTHS))
                raise InputError(
                    f"{p.design} is no layout that is planned here: what it serves is not known",
                    "the command",
                    f"pipelines have one of {depths} stages, tp stays within a node, and a replica takes "
                    "whole nodes or a power of two of a node's GPUs",
                )


def _stands(class_id: str, p: Part, i: int) -> bool:
    """Whether a class of `devices_of` is of part `i`."""
    return class_id.rsplit("-rest", 1)[0] == f"{p.role}-{i}"


def _is(c: Any, p: Part, i: int) -> bool:
    return bool(_stands(c.node_class, p, i) and (c.role, c.engine, c.design) == (p.role, p.engine, p.design))

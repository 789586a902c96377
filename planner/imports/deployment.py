"""A server as its command line tells it, whatever its engine; a deployment: its servers, how many of each,
and the facts of the whole."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from planner.imports.flags import Line

ROLE_FACTS = ("tp", "pp", "dp", "ep", "attn_dp", "kv_role", "kv_connector")
"""Facts of a server that are told by role."""


@dataclass(frozen=True)
class Group:
    """`replicas` equal servers; `most`: where their number may grow by itself. `gpus` of one as the manifest
    counts them, where it does; `facts`: what the manifest says of them beside the command."""

    server: Server
    replicas: int = 1
    most: int | None = None
    gpus: int | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def each(self) -> int:
        """GPUs of one server."""
        return self.gpus or self.server.gpus


@dataclass(frozen=True)
class Deployment:
    """`kind`: what was read ("command", "dynamo", …); `warnings`: what contradicts itself or is left open."""

    kind: str
    groups: tuple[Group, ...]
    warnings: tuple[str, ...] = ()
    facts_: Mapping[str, Any] = field(default_factory=dict)

    @property
    def gpus(self) -> int:
        """All that its servers stand on."""
        return sum(g.replicas * g.each for g in self.groups)

    @property
    def facts(self) -> dict[str, Any]:
        """Facts of the whole: those of its server where all are alike; by role where they are not."""
        servers = [g.server for g in self.groups]
        first = servers[0].facts
        same = {k: v for k, v in first.items() if all(s.facts.get(k) == v for s in servers[1:])}
        sizes = {k: same.get(k, 1) for k in ("tp", "pp", "dp")}
        told: dict[str, Any] = {"model": first.get("model"), **sizes, "ep": same.get("ep"), **same}
        told |= {"gpus": self.gpus, "max_model_len": same.get("max_model_len")}
        one = len(self.groups) == 1 and self.groups[0].replicas == 1
        told["nodes"] = first["nodes"] if one else math.ceil(self.gpus / NODE_GPUS)
        roles = dict.fromkeys(s.role for s in servers)
        if len(servers) > 1 and set(roles) != {"mixed"}:
            told["roles"] = {g.server.role: _of_role(g) for g in self.groups}
            told.pop("kv_role", None)
        elif one and servers[0].role != "mixed":
            told["role"] = servers[0].role
        if servers[0].gpus_here not in (told["gpus"], told["gpus"] // max(told["nodes"], 1)):
            told["gpus_this_command"] = servers[0].gpus_here
        return {**told, "engine": servers[0].engine, "kind": self.kind, **self.facts_}


def _of_role(g: Group) -> dict[str, Any]:
    """What is said of the servers of one role."""
    known = {k: g.server.facts[k] for k in ROLE_FACTS if g.server.facts.get(k) is not None}
    return {"replicas": g.replicas, "gpus": g.each, **known, **g.facts}


def joined(kind: str, servers: Sequence[Server]) -> Deployment:
    """Commands as one deployment: those of further nodes belong to the server that they help to start, and
    equal ones are replicas."""
    groups: dict[tuple[Any, ...], list[Server]] = {}
    for s in servers:
        groups.setdefault(s.together, []).append(s)
    found, facts = list[Group](), dict[str, Any]()
    for members in groups.values():
        heads = [s for s in members if not s.secondary] or members[:1]
        several = len(members) > len(heads)
        ranked = [s for s in heads if s.facts.get("dp_rank") is not None]
        replicas = 1 if ranked else len(heads)
        if several:
            facts["one_deployment"] = True
        found.append(Group(heads[0], replicas))
    return Deployment(kind, tuple(found), (), facts)


NIXL = ("NixlConnector", "NixlPushConnector")
"""Connectors of vLLM that may stand on either side of a pair."""


def named(s: Server, name: str) -> Server:
    """A server whose connector leaves its role open has that in its file's name, if there is one."""
    if s.role != "mixed" or s.facts.get("kv_connector") not in (*NIXL, TRANSCEIVER):
        return s
    roles: list[Role] = [r for r in ("prefill", "decode") if r in name.lower()]
    return replace(s, role=roles[0]) if len(roles) == 1 else s


NODE_GPUS = 8
"""GPUs of a node where nothing says how many there are."""

TRANSCEIVER = "cache_transceiver"
"""As TensorRT-LLM's way to hand caches over is called here."""

Role = Literal["mixed", "prefill", "decode"]
KV_ROLES: Mapping[str, Role] = {"kv_producer": "prefill", "kv_consumer": "decode"}


@dataclass(frozen=True)
class Server:
    """`facts`: under the names that people use for them; `gpus_here`: those of this command alone, where
    several start one server; `notes`: what else is to be told of the line."""

    engine: str
    line: Line
    facts: dict[str, Any]
    role: Role = "mixed"
    env: Mapping[str, str] = field(default_factory=dict)
    gpus_here: int = 1
    secondary: bool = False  # a further node of a server that another command starts
    notes: tuple[str, ...] = ()

    @property
    def gpus(self) -> int:
        return int(self.facts["gpus"])

    @property
    def together(self) -> tuple[Any, ...]:
        """What commands of one server have in common."""
        names = ("model", "tp", "pp", "dp", "ep")
        return (self.engine, self.role, *(self.facts.get(name) for name in names))

"""A server as its command line tells it, whatever its engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from planner.imports.flags import Line

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

"""What it takes to come from one plan to another."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Sources:
    """Bytes that GPUs take by where the nearest copy of them is: on a GPU that the scale-up link reaches, on
    a node that the NICs reach, behind a declared link that is faster than a disk, or only in storage. What
    several GPUs of a domain take from outside crosses its border once and is near for the others."""

    near: float = 0.0
    far: float = 0.0
    link: float = 0.0
    storage: float = 0.0

    @property
    def total(self) -> float:
        return self.near + self.far + self.link + self.storage

    def __add__(self, other: Sources) -> Sources:
        return Sources(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


@dataclass(frozen=True)
class Port:
    """What carries bytes at a rate, in words, and the seconds that it takes at least."""

    what: str
    seconds: float = 0.0


@dataclass(frozen=True)
class Row:
    """What the GPUs of a scale-up domain take: its nodes, and how many GPUs take anything."""

    nodes: tuple[str, ...]
    gpus: int
    taken: Sources


@dataclass(frozen=True)
class Serving:
    """What goes on meanwhile: requests/s of the servers that are left alone at the load that the plan before
    gives them, as a share of all, and how busy the busiest of them is (0: not told)."""

    rps: float
    share: float
    utilisation: float


@dataclass(frozen=True)
class Servers:
    """Servers by what becomes of them: `kept` as they are, `restarted` with other settings and the same
    weights on the same GPUs; of the plan before all others are `stopped`, of the plan after `started`."""

    kept: int
    restarted: int
    stopped: int
    started: int


@dataclass(frozen=True)
class Migration:
    """From one plan to another on the nodes that both name.

    `held_bytes` lie on the right GPU already, `taken` are loaded, `rows` by domain, most first. `slowest`:
    the port that needs most seconds; where each byte comes from its nearest copy, nothing is quicker.
    `reloaded`: the same where every server that starts reads all of its weights from its node's storage, as
    engines do unless told otherwise. `dropped_requests`, `dropped_kv_bytes`: in flight on servers that stop
    or start again, on average, and their cache. `gone`: nodes with servers that the plan after does not know.
    `whole`: groups whose weights are not told apart matrix by matrix and count as a whole.
    """

    servers: Servers
    held_bytes: float
    taken: Sources
    rows: tuple[Row, ...]
    slowest: Port
    reloaded: Port
    serving: Serving
    dropped_requests: float
    dropped_kv_bytes: float
    gone: tuple[str, ...] = ()
    whole: tuple[str, ...] = ()

    @property
    def nothing(self) -> bool:
        """Whether all stays as it is."""
        s = self.servers
        return not (s.restarted or s.stopped or s.started)

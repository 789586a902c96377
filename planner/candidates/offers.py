"""Operating points as candidates: what a whole replica (attn_dp servers) uses of itself for one request/s of
each bucket, its watts, what it adds to a pair's TTFT.

Dominated points go before anything is made of them: of ten thousand a hundred stay.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cluster_configs.schema import NodeClass
from planner.candidates.candidate import Candidate, Design
from planner.candidates.dominance import Counts, Needs, spared, survivors
from planner.candidates.points import Points, Role, Setup, draw, rounded_up
from planner.cost.compute import distinct
from planner.cost.shape import Designs, Floats, StagedDesigns, Staging, StepTimes
from planner.cost.transfer import CHUNKED, Overlap, hidden_s

RESOURCES = ("busy", "kv", "tokens", "idle", "loads", "stores")
"""Shares of a replica's time, of its KV room, of the tokens that its steps can take; where idle cache is kept
beside the GPUs, of the room there and of the rates at which it is loaded and stored."""


@dataclass(frozen=True)
class Handed:
    """A prompt's KV cache from prefill to decode, (m, w): seconds through the NIC of the rank that has most
    of it, copies that the ranks keep, seconds of compute its sending hides behind; (w,): the share sent
    last."""

    s: Floats
    copies: Floats
    hidden_s: Floats
    last: Floats

    @staticmethod
    def of(s: Setup, designs: Designs, points: Points, engine: str, role: Role, nic: float) -> Handed:
        """Of points in one role; nothing of those that do both phases."""
        none = np.zeros((len(designs), len(s.mix.isl)))
        if role == "mixed":
            return Handed(none, none + 1, none, np.ones(len(s.mix.isl)))
        sent, copies = s.model.handed_bytes(designs, s.mix.isl)
        if role == "decode" or engine not in CHUNKED:
            return Handed(sent / nic, copies, none, np.ones(len(s.mix.isl)))
        hidden = hidden_s(points.step, s.mix.new, s.mix.isl, s.token_budget)
        return Handed(sent / nic, copies, hidden, s.model.last_share(s.mix.new, s.mix.isl, s.token_budget))

    def overlaps(self, i: int, served: list[int]) -> dict[str, Overlap]:
        """Of point `i` the buckets of which something is sent before the prompt is done."""
        last = self.last
        return {str(w): Overlap(float(last[w]), float(self.hidden_s[i, w])) for w in served if last[w] < 1}


@dataclass(frozen=True)
class Offer:
    """m points of one setup in one role that serve some bucket.

    `use` (m, resources, w) infinite where a bucket is not served; `watts` of a replica and `late_s` (m,);
    `handed` what becomes of a prompt's KV cache; `focus` the only bucket they were made for.
    """

    setup: Setup
    node: NodeClass | None  # None: stages on several classes
    engine: str
    role: Role
    focus: int | None
    points: Points
    designs: Designs
    use: Floats
    watts: Floats
    late_s: Floats
    handed: Handed
    chunk: int = 0

    @staticmethod
    def of(
        points: Points,
        s: Setup,
        node: NodeClass | None,
        engine: str,
        role: Role,
        focus: int | None,
        chunk: int = 0,
    ) -> Offer:
        """What of `points` keeps the promise somewhere and the class's power cap."""
        watts, gpus = draw(s, points, role), s.designs.gpus[points.index]
        homes = [home for home, _ in s.model.by_class(s.designs)]
        caps = [n.power_cap_watts / n.gpus_per_node for n in homes if n.power_cap_watts is not None]
        cap = min(caps, default=np.inf)
        serves = points.meets & (s.mix.share > 0)
        able = np.flatnonzero(serves.any(axis=1) & (watts / gpus <= cap)).astype(np.int64)
        points, serves, gpus = points.take(able), serves[able], gpus[able]
        designs = s.designs.take(points.index)
        use = np.where(serves[:, None, :], _use(points, designs, role, s), np.inf)
        late = rounded_up(points, s.promise, s.caution, role)
        handed = Handed.of(s, designs, points, engine, role, min(n.nic_bytes_per_s for n in homes))
        return Offer(s, node, engine, role, focus, points, designs, use, watts[able], late, handed, chunk)

    def __len__(self) -> int:
        return len(self.watts)

    @property
    def joined(self) -> NDArray[np.bool_]:
        """Spans nodes within one scale-up domain."""
        gpus = self.designs.gpus
        if self.node is None:
            return self.setup.model.needs_domain(self.designs)
        return np.asarray((gpus > self.node.gpus_per_node) & (gpus <= self.node.scale_up_gpus))

    def candidates(self, counts: Counts) -> list[Candidate]:
        """Those that no other point of the offer makes pointless."""
        needs = self._needs(counts)
        if self.node is not None:
            kept = spared(needs, self.node.gpus_per_node, self.designs.redundant > 0)
            return [self._candidate(i) for i in kept]
        kept = []
        for design in distinct(self.points.index):  # other stages stand elsewhere
            own = np.flatnonzero(self.points.index == design)
            kept += own[survivors(needs.take(own), int(needs.gpus[own[0]]))].tolist()
        return [self._candidate(i) for i in sorted(kept)]

    def _needs(self, counts: Counts) -> Needs:
        none, tpot = np.zeros(len(self)), self._tpot_s()
        slow = self.points.ttft_s + tpot[:, None] if counts.latency else np.zeros_like(self.points.ttft_s)
        served = np.isfinite(self.use[:, 0])
        handoff = np.where(served, self.handed.s, 0.0).max(axis=1, initial=0.0)
        pairs = self.role != "mixed"
        return Needs(
            gpus=self.designs.gpus,
            joined=self.joined,
            use=self.use,
            slow=slow,
            watts=self.watts if counts.watts else none,
            late=self.late_s if pairs else none,
            handoff=handoff if pairs else none,
            hidden=self.handed.hidden_s,
            copies=self.handed.copies.max(axis=1, initial=1.0),
        )

    def _tpot_s(self) -> Floats:
        """Of the slowest bucket, (m,)."""
        return self.points.tpot_s.max(axis=1) if self.role != "prefill" else np.zeros(len(self))

    def _candidate(self, i: int) -> Candidate:
        d, gpus = self.designs, int(self.designs.gpus[i])
        stages = self.setup.model.stagings[d.which[i]] if isinstance(d, StagedDesigns) else ()
        tp, pp, attn_dp, moe_tp, ep, copies, cp = (
            int(x[i]) for x in (d.tp, d.pp, d.attn_dp, d.moe_tp, d.ep, d.redundant, d.cp)
        )
        design = Design(tp, pp, attn_dp, moe_tp, ep, stages, copies, cp)
        where = self.node.id if self.node is not None else _blocks(stages)
        served = np.flatnonzero(np.isfinite(self.use[i, 0])).tolist()
        sequences = float(self.points.sequences[i])
        keep = self.setup.keep
        tag = ("" if self.focus is None else f" bucket {self.focus}") + (f" keep {keep.name}" if keep else "")
        tag += f" chunks {self.chunk}" if self.chunk else ""
        return Candidate(
            id=f"{where}|{self.engine}|{self.role}|{design}|batch {sequences:.6g}{tag}",
            role=self.role,
            node_class=where,
            engine=self.engine,
            design=design,
            gpus=gpus,
            use=self._rows(i, served),
            watts=float(self.watts[i]),
            batch=max(1, round(sequences * design.attn_dp)),
            step=StepTimes(*(x[i : i + 1] for x in vars(self.points.step).values())),
            tpot_s=float(self._tpot_s()[i]),
            ttft_s={str(w): float(self.points.ttft_s[i, w]) for w in served},
            precisions=self.setup.model.precisions,
            late_s=float(self.late_s[i]),
            handoff_s={str(w): float(self.handed.s[i, w]) for w in served},
            copies={str(w): float(self.handed.copies[i, w]) for w in served} if self.role == "decode" else {},
            overlap=self.handed.overlaps(i, served),
            hop_bytes=self._hop_bytes(i, served) if stages else {},
            joined=bool(self.joined[i]),
            label=str(design),
            chunk=self.chunk,
            level=keep.number if keep else 0,
        )

    def _hop_bytes(self, i: int, served: list[int]) -> dict[str, float]:
        """Activations of a request of each bucket: its new prompt tokens and all it decodes."""
        mix, each = self.setup.mix, self.setup.model.hop_bytes(self.designs)[i]
        new = mix.new * (self.role != "decode")
        return {str(w): float(each * (new[w] + mix.osl[w] - 1)) for w in served}

    def _rows(self, i: int, served: list[int]) -> dict[str, dict[str, float]]:
        """`use` by resource and bucket; rows that the first always exceeds are left out."""
        rows = self.use[i][:, served]
        tight = [0, *(j for j in range(1, len(rows)) if (rows[j] > rows[0]).any())]
        return {RESOURCES[j]: {str(w): float(u) for w, u in zip(served, rows[j], strict=True)} for j in tight}


def _blocks(stages: Staging) -> str:
    """Classes and GPUs side by side, however they are ordered."""
    return " + ".join(
        f"{n} x {name}:{tp}"
        for (name, tp), n in sorted(Counter((s.node_class, s.tp) for s in stages).items())
    )


def _use(points: Points, designs: Designs, role: Role, s: Setup) -> Floats:
    """Shares of a replica's resources that one request/s of each bucket fills, (m, resources, w)."""
    rows = [points.work_s / points.load[:, None], points.kv_share]
    if role != "prefill":
        tokens = s.mix.osl - 1 + (s.mix.new if role == "mixed" else 0.0)
        rows.append(tokens * points.tpot_s / s.token_budget)
    elif len(s.beside):
        rows.append(np.zeros_like(points.kv_share))
    rows += [row[points.index] for row in s.beside]
    return np.asarray(np.stack(rows, axis=1) / designs.attn_dp[:, None, None])

"""Operating points as candidates: what a whole replica (attn_dp servers) uses of itself for one request/s of
each bucket, its watts, what it adds to a pair's TTFT.

Dominated points go before anything is made of them: of ten thousand a hundred stay.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cluster_configs.schema import NodeClass
from planner.candidates.candidate import Candidate, Design, Key
from planner.candidates.columns import Columns
from planner.candidates.dominance import spared, survivors
from planner.candidates.loaded import Loaded
from planner.candidates.needs import Counts, Needs, grown
from planner.candidates.pairing import Pairing
from planner.candidates.points import Points, draw
from planner.candidates.setup import Role, Setup
from planner.candidates.tangents import lighter, tangents
from planner.cost.transfer import CHUNKED, Overlap, hidden_s, nic_bytes_per_s
from planner.designs.shape import Designs, Floats, Ints, StagedDesigns, Staging, StepTimes, distinct
from planner.drafts.model import draft_of, handed
from planner.rules.pairs import Side

RESOURCES = ("busy", "kv", "tokens", "idle", "loads", "stores")
"""Shares of a replica's time, of its KV room, of the tokens that its steps can take; where idle cache is kept
beside the GPUs, of the room there and of the rates at which it is loaded and stored."""

ROUNDING = 1e-9
"""Relative: a GPU at its limit draws just that."""


@dataclass(frozen=True)
class Standing:
    """Where columns are offered: class (None: stages on several), the key of their setup, and the partners of
    each side of a pair."""

    node: NodeClass | None
    key: Key
    pairing: Pairing | None = None

    def sides(self, s: Setup, index: Ints) -> list[Side]:
        """What decides the partners in a pair of each design of `index` on the class."""
        assert self.node is not None
        designs, used = s.designs.take(index), s.model.precisions
        shapes = zip(
            *(x.tolist() for x in (designs.tp, designs.pp, designs.attn_dp, designs.cp)), strict=True
        )
        return [Side.of(self.key.engine, self.node.device, shape, used, handed(s.model)) for shape in shapes]

    def able(self, role: Role, s: Setup, index: Ints) -> Ints:
        """The designs of `index` that may take `role`."""
        if role == "mixed" or self.pairing is None or self.node is None:
            return index
        sides = self.sides(s, index)
        return index[[(role, side) in self.pairing.keys for side in sides]]


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
        """What becomes of the cache of points in one role; nothing where they do both phases."""
        none = np.zeros((len(designs), len(s.mix.isl)))
        if role == "mixed":
            return Handed(none, none + 1, none, np.ones(len(s.mix.isl)))
        sent, copies = s.model.handed_bytes(designs, s.mix.isl)
        if role == "decode" or engine not in CHUNKED:
            return Handed(sent / nic, copies, none, np.ones(len(s.mix.isl)))
        hidden = hidden_s(points.step, s.mix.new, s.mix.isl, s.token_budget)
        return Handed(sent / nic, copies, hidden, s.model.last_share(s.mix.new, s.mix.isl, s.token_budget))

    def overlaps(self, i: int, served: list[int]) -> dict[str, Overlap]:
        """Buckets of which point `i` sends something before the prompt is done, and how much."""
        last = self.last
        return {str(w): Overlap(float(last[w]), float(self.hidden_s[i, w])) for w in served if last[w] < 1}


@dataclass(frozen=True)
class Offer:
    """m columns of one setup in one role that serve some bucket.

    `use`, `least` (m, resources, w) of a replica, infinite where a bucket is not served; `watts` of a replica
    and `late_s` (m,); `handed` what becomes of a prompt's KV cache; `focus` the only bucket they
    were made for.
    """

    setup: Setup
    at: Standing
    role: Role
    focus: int | None
    points: Points
    designs: Designs
    use: Floats
    least: Floats
    watts: Floats
    late_s: Floats
    handed: Handed

    @staticmethod
    def of(columns: Columns, s: Setup, at: Standing, role: Role, focus: int | None) -> Offer:
        """What of `columns` keeps the power caps of the classes that it stands on."""
        points, homes = columns.points, s.model.by_class(s.designs)
        watts, most = draw(s, points, role), np.full(len(s.designs), np.inf)
        for home, gpus in homes:
            if home.power_cap_watts is not None:
                each = home.power_cap_watts / home.gpus_per_node
                most = np.where(gpus > 0, np.minimum(most, each * (1 + ROUNDING)), most)
        serves = np.isfinite(columns.least[:, 0]).any(axis=1)
        keeps = watts <= (s.designs.gpus * most)[points.index]
        able = np.flatnonzero(serves & keeps).astype(np.int64)
        columns, watts = columns.take(able), watts[able]
        points, designs = columns.points, s.designs.take(columns.points.index)
        ranks = designs.attn_dp[:, None, None]
        late = np.where(np.isfinite(columns.within_s), columns.within_s, 0.0)
        handed = Handed.of(s, designs, points, at.key.engine, role, min(nic_bytes_per_s(n) for n, _ in homes))
        return Offer(
            *(s, at, role, focus, points, designs),
            *(columns.use / ranks, columns.least / ranks, watts, late, handed),
        )

    def loaded(self, chosen: Ints) -> Loaded:
        """Some of its columns, to be asked what they cost at other loads."""
        p, role = self.points.take(chosen), self.setup.does(self.role)
        use = self.least[chosen].max(axis=1)
        load = p.load if role == "prefill" else p.sequences
        ranks = self.designs.attn_dp[chosen].astype(np.float64)
        return Loaded(self.setup, role, p.index, load, np.where(np.isfinite(use), use, 0.0), ranks)

    def __len__(self) -> int:
        return len(self.watts)

    @property
    def joined(self) -> NDArray[np.bool_]:
        """Spans nodes within one scale-up domain."""
        gpus = self.designs.gpus
        if self.at.node is None:
            return self.setup.model.needs_domain(self.designs)
        return np.asarray((gpus > self.at.node.gpus_per_node) & (gpus <= self.at.node.scale_up_gpus))

    def candidates(self, counts: Counts) -> list[Candidate]:
        """Candidates that no other point of the offer makes pointless, with the lines of what grows with
        their load."""
        if counts.grows is None or not len(self):
            return [self._candidate(i) for i in self._kept(self._needs(counts, None))]
        light = lighter(self.loaded(np.arange(len(self))), counts.grows)
        kept = self._kept(self._needs(counts, light))
        if counts.grows == "waits":
            each = [tuple(tuple(row) for row in light[i].tolist()) for i in kept]
            return [replace(self._candidate(i), lighter=rows) for i, rows in zip(kept, each, strict=True)]
        lines, made = tangents(self.loaded(np.array(kept)), counts.grows), []
        for k, i in enumerate(kept):
            c, own = self._candidate(i), tuple(tuple(row) for row in light[i].tolist())
            made.append(replace(c, lighter=own, tangents=lines.named(k, [int(w) for w in c.ttft_s])))
        return made

    def _kept(self, needs: Needs) -> list[int]:
        if self.at.node is not None:
            return [i for own in self._alike() for i in self._spared(needs, own)]
        kept = []
        for design in distinct(self.points.index):  # other stages stand elsewhere
            own = np.flatnonzero(self.points.index == design)
            kept += own[survivors(needs.take(own), int(needs.gpus[own[0]]))].tolist()
        return sorted(kept)

    def _spared(self, needs: Needs, own: Ints) -> list[int]:
        """Members of `own` that none of the others makes pointless."""
        assert self.at.node is not None
        copied = self.designs.redundant[own] > 0
        return [int(own[i]) for i in spared(needs.take(own), self.at.node.gpus_per_node, copied)]

    def _alike(self) -> list[Ints]:
        """Columns by what decides their partners."""
        if self.role == "mixed" or self.at.pairing is None or self.at.node is None:
            return [np.arange(len(self))]
        sides = self.at.sides(self.setup, self.points.index)
        keys = np.array([self.at.pairing.keys[self.role, side] for side in sides])
        return [np.flatnonzero(keys == key) for key in dict.fromkeys(keys.tolist())]

    def _needs(self, counts: Counts, light: Floats | None) -> Needs:
        none, tpot = np.zeros(len(self)), self._tpot_s()
        sent = np.where(np.isfinite(self.least[:, 0]), self.handed.s, 0.0)
        handoff, pairs = sent.max(axis=1, initial=0.0), self.role != "mixed"
        seconds = self.points.ttft_s + (self.setup.mix.osl - 1) * tpot[:, None]
        slow, watts = grown(counts, seconds[:, None], self.watts, light, (sent, self.handed.hidden_s))
        return Needs(
            gpus=self.designs.gpus,
            joined=self.joined,
            use=self.use,
            least=self.least,
            slow=slow,
            watts=watts,
            late=self.late_s if pairs else none,
            handoff=handoff if pairs else none,
            hidden=self.handed.hidden_s,
            copies=self.handed.copies.max(axis=1, initial=1.0),
        )

    def _tpot_s(self) -> Floats:
        """TPOT of the slowest bucket, (m,)."""
        return self.points.tpot_s.max(axis=1) if self.role != "prefill" else np.zeros(len(self))

    def _candidate(self, i: int) -> Candidate:
        d, gpus = self.designs, int(self.designs.gpus[i])
        stages = self.setup.model.stagings[d.which[i]] if isinstance(d, StagedDesigns) else ()
        tp, pp, attn_dp, moe_tp, ep, copies, cp = (
            int(x[i]) for x in (d.tp, d.pp, d.attn_dp, d.moe_tp, d.ep, d.redundant, d.cp)
        )
        design = Design(tp, pp, attn_dp, moe_tp, ep, stages, copies, cp)
        node, key, pairing = self.at.node, self.at.key, self.at.pairing
        one = self.points.index[i : i + 1]
        side = None if self.role == "mixed" or node is None else self.at.sides(self.setup, one)[0]
        where = node.id if node is not None else _blocks(stages)
        served = np.flatnonzero(np.isfinite(self.use[i, 0])).tolist()
        might = np.flatnonzero(np.isfinite(self.least[i, 0])).tolist()
        sequences = float(self.points.sequences[i])
        keep = self.setup.keep
        tag = ("" if self.focus is None else f" bucket {self.focus}") + (f" keep {keep.name}" if keep else "")
        draft = draft_of(self.setup.model)
        tag += f" chunks {key.chunk}" if key.chunk else ""
        tag += f" {draft.name}" if draft else ""
        tag += f" at {key.power:g} W" if key.power else ""
        tag += f" within {1e3 * self.late_s[i]:.6g} ms" if self.late_s[i] else ""
        return Candidate(
            id=f"{where}|{key.engine}|{self.role}|{design}|batch {sequences:.6g}{tag}",
            role=self.role,
            node_class=where,
            engine=key.engine,
            design=design,
            gpus=gpus,
            use=_named(self.use[i], served),
            least=_named(self.least[i], might),
            watts=float(self.watts[i]),
            batch=max(1, round(sequences * design.attn_dp)),
            step=StepTimes(*(x[i : i + 1] for x in vars(self.points.step).values())),
            tpot_s=float(self._tpot_s()[i]),
            ttft_s={str(w): float(self.points.ttft_s[i, w]) for w in might},
            precisions=self.setup.model.precisions,
            late_s=float(self.late_s[i]),
            side=side,
            pairs_as=pairing.keys[self.role, side] if pairing and side else "",
            handoff_s={str(w): float(self.handed.s[i, w]) for w in might},
            copies={str(w): float(self.handed.copies[i, w]) for w in might} if self.role == "decode" else {},
            overlap=self.handed.overlaps(i, might),
            hop_bytes=self._hop_bytes(i, might) if stages else {},
            joined=bool(self.joined[i]),
            busy=float(self.points.load[i]) if self.setup.does(self.role) == "prefill" else 0.0,
            sequences=sequences,
            label=f"{design} with {draft.name}" if draft else str(design),
            key=key,
            emitted=self.setup.mix.emitted if self.role == "decode" else 1.0,
        )

    def _hop_bytes(self, i: int, served: list[int]) -> dict[str, float]:
        """Activations of a request of each bucket: its new prompt tokens and all it decodes."""
        mix, each = self.setup.mix, self.setup.model.hop_bytes(self.designs)[i]
        new = mix.new * (self.role != "decode")
        return {str(w): float(each * (new[w] + mix.osl[w] - 1)) for w in served}


def _named(rows: Floats, served: list[int]) -> dict[str, dict[str, float]]:
    """Rows (resources, w) by resource and bucket; those that the first always exceeds are left out."""
    own = rows[:, served]
    tight = [0, *(j for j in range(1, len(own)) if (own[j] > own[0]).any())] if served else []
    return {RESOURCES[j]: {str(w): float(u) for w, u in zip(served, own[j], strict=True)} for j in tight}


def _blocks(stages: Staging) -> str:
    """Classes and GPUs side by side, however they are ordered."""
    return " + ".join(
        f"{n} x {name}:{tp}"
        for (name, tp), n in sorted(Counter((s.node_class, s.tp) for s in stages).items())
    )

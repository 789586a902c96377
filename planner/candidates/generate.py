"""All replica designs worth a column: engine-valid layouts of each node class, at their operating points,
dominated ones dropped.

Space: for each class x engine: every (tp, pp, attn_dp, moe_tp, ep) that the engine accepts for the model
(`engine_rules`), up to
`MOST_GPUS` GPUs a replica, of the usual sizes (`usual_sizes`), and one node more than the class has (so that
"one more node" is priced in the same space); roles mixed, prefill,
decode. Loads are continuous: a column stands at the largest load that keeps the SLO (`columns.py`), a side
of a prefill/decode pair at one for each edge of the TTFT promise (`edges.py`).

Where a bucket's prompts are long: with context parallelism (cp), too, and in chunks of the best size
(`chunks.py`). Where prompts are met again: each design of one class at several levels of keeping idle
cache (`keep.py`), too, in the engine's own chunks.
With `Ask.offload` replicas whose weights lie partly in host memory, in place of all these (`offload.py`).

Where several classes reach each other, beside these: mixed replicas whose stages stand on two or three of
them, as the engine allows (`ask.STOCK`), the most promising of all (`unequal.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from cluster_configs.schema import ClusterLink, NodeClass
from planner.candidates import afd, drafts, unequal, uneven_tp
from planner.candidates.ask import Ask, serving, usual_sizes
from planner.candidates.candidate import Candidate
from planner.candidates.chunks import chunked
from planner.candidates.columns import Columns, alone, decoding, prefilling
from planner.candidates.dominance import Counts, undominated
from planner.candidates.edges import NO_EDGES, Edges
from planner.candidates.offers import Offer, Standing
from planner.candidates.pairing import Pairing
from planner.candidates.setup import Mix, Role, Setup
from planner.candidates.unequal import Shortlist
from planner.cost.model import CostModel
from planner.cost.shape import Designs, Ints, designs_of
from planner.cost.unequal import UnequalModel
from planner.cost.uneven_tp import Shard
from planner.device_rules import balances
from planner.engine_rules import valid_designs

MOST_GPUS = 144
"""Largest replica offered: two racks of 72."""

ROLES: tuple[Role, ...] = ("mixed", "prefill", "decode")

KEEPING: tuple[Role, ...] = ("mixed", "prefill")
"""Roles in which idle cache is of use: those that compute prompts."""

UNEQUAL, UNEVEN, APART = "unequal", "uneven", "apart"
"""In place of a class where the stages of a replica stand on several, or the GPUs of a tp group."""

OVER_NODES = "over nodes from "
"""Before the class of the first node, where a replica has weights in the memory of several."""


@dataclass(frozen=True)
class Pool:
    """Candidates of the whole cluster, how many were considered, and what they were."""

    candidates: tuple[Candidate, ...]
    setups: dict[tuple[str, str, int], Setup]  # by class, engine and tokens of a step that it is told, or 0
    considered: int
    fitting: int  # designs whose weights fit
    edges: Edges = NO_EDGES
    pairing: Pairing | None = None
    unequal: Mapping[str, int] = field(default_factory=dict)  # stagings that were ranked, by engine
    kept: Mapping[tuple[str, str, int], Setup] = field(default_factory=dict)  # by class, engine and level
    drafted: Mapping[tuple[str, str, int, str], Setup] = field(default_factory=dict)  # and by what drafts

    def setup(self, c: Candidate) -> Setup:
        """That `c` is a design of."""
        stages = c.design.stages
        if c.design.on_nodes:
            return self.setups[OVER_NODES + c.design.stages[-1].node_class, c.engine, 0]
        if c.level:
            return self.kept[c.node_class, c.engine, c.level]
        if c.draft:
            return self.drafted[c.node_class, c.engine, c.chunk, c.draft]
        if c.design.offloads:
            return self.setups[c.node_class, c.engine, 0]
        several = UNEVEN if stages and isinstance(stages[0], Shard) else UNEQUAL
        where = c.node_class if not stages else APART if c.design.layout else several
        return self.setups[where, c.engine, c.chunk]


def generate(
    classes: Sequence[NodeClass],
    ask: Ask,
    one_more: bool = True,
    links: Sequence[ClusterLink] = (),
    given: Pool | None = None,
    edges: Edges | None = None,
) -> Pool:
    """All candidates for all classes; `ids` are unique and say what they are. `given`: a pool for the same
    `ask` with less freedom, whose candidates on one class stay, and those of engines that gain none. `edges`:
    of prefill/decode pairs, those to begin with unless told."""
    edges = edges or (given.edges if given else Edges.of(ask.promise))
    mixing = ask.mixing
    found = [c for c in given.candidates if c.engine not in mixing or not c.design.stages] if given else []
    setups = dict(given.setups) if given else {}
    considered, fitting = (given.considered, given.fitting) if given else (0, 0)
    kept = dict(given.kept) if given else {}
    drafted = dict(given.drafted) if given else {}
    counts = Counts.of(ask.objective.goal, ask.watts_limited)
    made = _setups(classes, ask, one_more) if given is None else []
    variants = [(node, engine, own) for node, engine, s in made for own in drafts.of(s, node, engine, ask)]
    pairing = given.pairing if given else _pairing([*made, *variants], ask)
    roles: Sequence[Role] = ("mixed",) if ask.offload else ROLES
    for node, engine, s in made:
        considered += len(s.designs)
        fitting += len(s.fitting)
        for chunk, own, fits, some in chunked(s, engine, ask, roles):
            setups[node.id, engine, chunk] = own
            for offer in offers(own, fits, some, ask.standing(node, engine, pairing, chunk), edges):
                considered += len(offer)
                found += offer.candidates(counts)
        for level in ask.keeping(node, engine):
            at = keeping(s, node, level)
            assert at.keep is not None
            kept[node.id, engine, at.keep.number] = at
            for offer in offers(at, at.fitting, KEEPING, ask.standing(node, engine, pairing), edges):
                considered += len(offer)
                found += offer.candidates(counts)
    for node, engine, s in variants:
        considered += len(s.designs)
        for chunk, own, fits, some in chunked(s, engine, ask, drafts.roles(s)):
            drafted[node.id, engine, chunk, drafts.name(own)] = own
            for offer in offers(own, fits, some, ask.standing(node, engine, pairing, chunk), edges):
                considered += len(offer)
                found += offer.candidates(counts)
    for name, own in over_nodes(classes, links, ask) if ask.offload else ():
        considered, fitting = considered + len(own.designs), fitting + len(own.fitting)
        setups[OVER_NODES + name, own.model.engine, 0] = own
        for offer in offers(own, own.fitting, ("mixed",), ask.standing(None, own.model.engine), edges):
            considered += len(offer)
            found += offer.candidates(counts)
    ranked = dict[str, int]()
    for engine in mixing if len(classes) > 1 and not ask.offload else ():
        able = [n for n in classes if engine in serving(n, ask)]
        kinds = unequal.shortlist(able, links, ask, engine)
        ranked[engine] = kinds.ranked
        several = {UNEQUAL: _unequal_setup(kinds, links, engine, ask) if kinds.stagings else None}
        if ask.freedom and ask.freedom.shares:
            several[UNEVEN] = uneven_tp.setup(able, links, engine, ask)
        for name, staged in several.items():
            if staged is None:
                continue
            fits = staged.fitting
            considered, fitting = considered + len(staged.designs), fitting + len(fits)
            setups[name, engine, 0] = staged
            for offer in offers(staged, fits, ("mixed",), ask.standing(None, engine), edges):
                considered += len(offer)
                found += offer.candidates(counts)
        considered += kinds.ranked - len(kinds.stagings)
    for engine in mixing if ask.freedom and ask.freedom.apart else ():
        able = [n for n in classes if engine in serving(n, ask)]
        best = afd.shortlist(able, links, ask, engine, afd.worth(able, found, ask))
        considered += best.ranked
        if best.layouts:
            apart = setups[APART, engine, 0] = afd.setup(able, best.layouts, links, engine, ask)
            fits = apart.fitting
            for offer in offers(apart, fits, ("decode",), ask.standing(None, engine), edges):
                found += offer.candidates(counts)
    phases = {(c.role, c.engine) for c in found}
    whole = [c for c in found if c.role == "mixed" or {("prefill", c.engine), ("decode", c.engine)} <= phases]
    sizes = {node.id: node.gpus_per_node for node in classes}
    left = tuple(_left(whole, sizes, counts))
    return Pool(left, setups, considered, fitting, edges, pairing, ranked, kept, drafted)


def _setups(classes: Sequence[NodeClass], ask: Ask, one_more: bool) -> list[tuple[NodeClass, str, Setup]]:
    """Of every class and engine that has designs."""
    made = []
    for node in classes:
        for engine in offloading(node, ask) if ask.offload else serving(node, ask):
            s = offloaded(node, engine, ask) if ask.offload else setup(node, engine, ask, one_more)
            if s is not None:
                made.append((node, engine, s))
    return made


def _pairing(made: Sequence[tuple[NodeClass, str, Setup]], ask: Ask) -> Pairing:
    """Of all designs that have room."""
    sides = [
        side
        for node, engine, s in made
        for side in (ask.standing(node, engine).sides(s, s.fitting) if not ask.offload else ())
    ]
    return Pairing.of(ask.card, sides)


def finer(pool: Pool, classes: Sequence[NodeClass], ask: Ask, edges: Edges) -> Pool:
    """The pool with columns of pairs at further `edges` too."""
    added = Edges(
        tuple(e for e in edges.prefill if e not in pool.edges.prefill),
        tuple(e for e in edges.decode if e not in pool.edges.decode),
    )
    roles: list[Role] = [r for r, own in (("prefill", added.prefill), ("decode", added.decode)) if own]  # type: ignore[misc]
    nodes, counts = {n.id: n for n in classes}, Counts.of(ask.objective.goal, ask.watts_limited)
    found, considered = list[Candidate](), pool.considered
    engines = {c.engine for c in pool.candidates if c.role != "mixed"}
    drafted = [(key[:3], s) for key, s in pool.drafted.items()]
    for (where, engine, chunk), s in [*pool.setups.items(), *pool.kept.items(), *drafted]:
        if where not in nodes or engine not in engines:
            continue
        told = 0 if s.keep else chunk
        some = [r for r in roles if (s.keep is None or r in KEEPING) and r in drafts.roles(s)]
        for offer in offers(
            s, s.fitting, some, ask.standing(nodes[where], engine, pool.pairing, told), added
        ):
            considered += len(offer)
            found += offer.candidates(counts)
    sizes = {node.id: node.gpus_per_node for node in classes}
    more = _left([*pool.candidates, *found], sizes, counts)
    return replace(pool, candidates=tuple(more), considered=considered, edges=edges)


def _left(found: Sequence[Candidate], sizes: Mapping[str, int], counts: Counts) -> list[Candidate]:
    """Those that none makes pointless, and of those that keep no idle cache and draft nothing the ones that
    none of their own does: what is served without is looked for, too."""
    left = undominated(found, sizes, counts)
    if not any(c.level or c.draft for c in found):
        return left
    alone = undominated([c for c in found if not (c.level or c.draft)], sizes, counts)
    chosen = {c.id for c in [*alone, *left]}
    return [c for c in found if c.id in chosen]


def keeping(s: Setup, node: NodeClass, level: Ask) -> Setup:
    """The setup's designs at a level of keeping idle cache."""
    return level.setup(s.model, s.designs, [node])


def offloading(node: NodeClass, ask: Ask) -> list[str]:
    """Engines that serve the model on the class with a part of it in host memory."""
    from planner.candidates import offload  # here, not above: most plans need none of it

    return offload.engines(node, ask)


def offloaded(node: NodeClass, engine: str, ask: Ask) -> Setup | None:
    """The placements of one engine on one class with a part of the model in host memory."""
    from planner.candidates import offload

    return offload.setup(node, engine, ask)


def over_nodes(
    classes: Sequence[NodeClass], links: Sequence[ClusterLink], ask: Ask
) -> Iterator[tuple[str, Setup]]:
    """Placements over several nodes with parts of the model in their host memories, by the first node's
    class."""
    from planner.candidates import rpc

    return rpc.setups(classes, links, ask)


def stands(designs: Designs, node: NodeClass) -> NDArray[np.bool_]:
    """True where no tensor-parallel group straddles two nodes, or two scale-up domains inside one: stages of
    a replica of several nodes fill nodes evenly, and tp divides what it is packed into.

    In nodes of 3, tp 2 x pp 3 over two nodes would split its middle stage; tp 8 on NVL72 spans two nodes of
    one domain.
    """
    whole, unit = node.gpus_per_node, min(node.gpus_per_node, node.scale_up_gpus)
    stage = designs.gpus // designs.pp
    even = (whole % stage == 0) | (stage % whole == 0)
    aligned = np.where(designs.tp <= unit, unit % designs.tp == 0, designs.tp % whole == 0)
    inside = (designs.gpus <= whole) & (unit == whole)
    halves = (unit == whole) | (unit % np.minimum(designs.gpus, unit) == 0)
    return np.asarray((inside | (even & aligned)) & halves)


def setup(node: NodeClass, engine: str, ask: Ask, one_more: bool) -> Setup | None:
    """The designs of one engine on one class, with their memory; None where the engine accepts none."""
    most = min(node.gpus + (node.gpus_per_node if one_more else 0), MOST_GPUS)
    copies = balances(node.device, engine, ask.precisions.experts)
    own = (ask.card, engine, most, most, node.scale_up_gpus, ask.precisions, copies)
    designs = valid_designs(*own, ask.context_groups)
    standing = stands(designs, node)
    offered = usual_sizes(designs.gpus, node.gpus_per_node) & standing
    left_out = int(standing.sum() - offered.sum())
    designs = designs.take(np.flatnonzero(offered))
    if len(designs) == 0:
        return None
    model = CostModel(ask.card, node, engine, ask.precisions, ask.calibration)
    return replace(ask.setup(model, designs, [node]), left_out=left_out)


def _unequal_setup(kinds: Shortlist, links: Sequence[ClusterLink], engine: str, ask: Ask) -> Setup:
    """The stagings of one engine, with their memory."""
    model = UnequalModel(
        ask.card, kinds.classes, links, kinds.stagings, engine, ask.precisions, ask.calibration
    )
    return ask.setup(model, designs_of(kinds.stagings), kinds.classes)


def offers(s: Setup, fits: Ints, roles: Sequence[Role], at: Standing, edges: Edges) -> Iterator[Offer]:
    """Columns of the designs `fits` in every role: under the workload's mix, and for single buckets alone
    where there are several."""
    for focus in (None, *alone(s)) if len(fits) else ():
        own = s if focus is None else replace(s, mix=_only(s.mix, focus))
        for role, columns in _columns(own, fits, roles, at, edges):
            if focus is None or role != "decode":
                yield Offer.of(columns, own, at, role, focus)


def _only(mix: Mix, w: int) -> Mix:
    share = np.zeros_like(mix.share)
    share[w] = 1.0
    return replace(mix, share=share)


def _columns(
    s: Setup, fits: Ints, roles: Sequence[Role], at: Standing, edges: Edges
) -> Iterator[tuple[Role, Columns]]:
    """Columns in every role that there is."""
    if s.mix.steps == 0:
        if "mixed" in roles:
            yield "mixed", prefilling(s, fits, np.array([s.promise.ttft_s]))
        return
    whole: list[tuple[Role, float]] = [("mixed", s.promise.tpot_s)] if "mixed" in roles else []
    steps: list[tuple[Role, float]] = [("decode", min(e, s.promise.tpot_s)) for e in edges.decode]
    steps = steps if "decode" in roles else []
    some = at.able("decode", s, fits)
    apart = [(fits, whole), (some, steps)]
    for index, asked in [(fits, whole + steps)] if len(some) == len(fits) else apart:
        if len(index) and asked:
            yield from decoding(s, index, asked)
    first = at.able("prefill", s, fits)
    if "prefill" in roles and edges.prefill and len(first):
        yield "prefill", prefilling(s, first, np.array(edges.prefill))

"""All replica designs worth a column: engine-valid layouts of each node class, at their operating points,
dominated ones dropped.

Space: for each class x engine: every (tp, pp, attn_dp, moe_tp, ep) that the engine accepts for the model
(`engine_rules`), up to
`MOST_GPUS` GPUs a replica, of the usual sizes (`usual_sizes`), and one node more than the class has (so that
"one more node" is priced in the same space); roles mixed, prefill,
decode. Batch: for one bucket the largest that keeps SLO and KV room is enough for throughput, dollars and
GPUs (its rate is the highest
of that design, `points`); for several buckets, watts and latency a grid below it, too, each under the
workload's mix and for
each bucket alone.

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
from planner.candidates import afd, unequal, uneven_tp
from planner.candidates.ask import Ask, serving, usual_sizes
from planner.candidates.candidate import Candidate
from planner.candidates.chunks import chunked
from planner.candidates.dominance import Counts, undominated
from planner.candidates.largest import largest
from planner.candidates.offers import Offer
from planner.candidates.points import LEVELS, Mix, Points, Role, Setup, batched, prefilling
from planner.candidates.unequal import Shortlist
from planner.cost.model import CostModel
from planner.cost.shape import Designs, Floats, Ints, designs_of
from planner.cost.unequal import UnequalModel
from planner.cost.uneven_tp import Shard
from planner.engine_rules import valid_designs
from planner.inputs.options import Objective

MOST_GPUS = 144
"""Largest replica offered: two racks of 72."""

ROLES: tuple[Role, ...] = ("mixed", "prefill", "decode")

KEEPING: tuple[Role, ...] = ("mixed", "prefill")
"""Roles in which idle cache is of use: those that compute prompts."""

UNEQUAL, UNEVEN, APART = "unequal", "uneven", "apart"
"""In place of a class where the stages of a replica stand on several, or the GPUs of a tp group."""

OVER_NODES = "over nodes from "
"""Before the class of the first node, where a replica has weights in the memory of several."""

GRID = np.array(sorted({float(round(2 ** (i / 2))) for i in range(21)}))
"""Batches offered beside the largest, the same for every SLO, so that a looser one only adds points."""


@dataclass(frozen=True)
class Pool:
    """Candidates of the whole cluster, how many were considered, and what they were."""

    candidates: tuple[Candidate, ...]
    setups: dict[tuple[str, str, int], Setup]  # by class, engine and tokens of a step that it is told, or 0
    considered: int
    fitting: int  # designs whose weights fit
    unequal: Mapping[str, int] = field(default_factory=dict)  # stagings that were ranked, by engine
    kept: Mapping[tuple[str, str, int], Setup] = field(default_factory=dict)  # by class, engine and level

    def setup(self, c: Candidate) -> Setup:
        """That `c` is a design of."""
        stages = c.design.stages
        if c.design.on_nodes:
            return self.setups[OVER_NODES + c.design.stages[-1].node_class, c.engine, 0]
        if c.level:
            return self.kept[c.node_class, c.engine, c.level]
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
) -> Pool:
    """All candidates for all classes; `ids` are unique and say what they are. `given`: a pool for the same
    `ask` with less freedom, whose candidates on one class stay, and those of engines that gain none."""
    mixing = ask.mixing
    found = [c for c in given.candidates if c.engine not in mixing or not c.design.stages] if given else []
    setups = dict(given.setups) if given else {}
    considered, fitting = (given.considered, given.fitting) if given else (0, 0)
    kept = dict(given.kept) if given else {}
    counts = Counts(latency=ask.objective == "latency", watts=ask.objective == "energy" or ask.watts_limited)
    for node in classes if given is None else ():
        for engine in offloading(node, ask) if ask.offload else serving(node, ask):
            s = offloaded(node, engine, ask) if ask.offload else setup(node, engine, ask, one_more)
            if s is None:
                continue
            considered += len(s.designs)
            fitting += len(s.fitting)
            roles: Sequence[Role] = ("mixed",) if ask.offload else ROLES
            for chunk, own, fits, some in chunked(s, engine, ask, roles):
                setups[node.id, engine, chunk] = own
                for offer in offers(own, node, engine, fits, ask, some, chunk):
                    considered += len(offer)
                    found += offer.candidates(counts)
            for level in ask.keeping(node, engine):
                at = keeping(s, node, level)
                assert at.keep is not None
                kept[node.id, engine, at.keep.number] = at
                for offer in offers(at, node, engine, at.fitting, level, KEEPING):
                    considered += len(offer)
                    found += offer.candidates(counts)
    for name, s in over_nodes(classes, links, ask) if ask.offload else ():
        considered, fitting = considered + len(s.designs), fitting + len(s.fitting)
        setups[OVER_NODES + name, s.model.engine, 0] = s
        for offer in offers(s, None, s.model.engine, s.fitting, ask, ("mixed",)):
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
        for name, s in several.items():
            if s is None:
                continue
            fits = s.fitting
            considered, fitting = considered + len(s.designs), fitting + len(fits)
            setups[name, engine, 0] = s
            for offer in offers(s, None, engine, fits, ask, ("mixed",)):
                considered += len(offer)
                found += offer.candidates(counts)
        considered += kinds.ranked - len(kinds.stagings)
    for engine in mixing if ask.freedom and ask.freedom.apart else ():
        able = [n for n in classes if engine in serving(n, ask)]
        best = afd.shortlist(able, links, ask, engine, afd.worth(able, found, ask))
        considered += best.ranked
        if best.layouts:
            s = setups[APART, engine, 0] = afd.setup(able, best.layouts, links, engine, ask)
            fits = s.fitting
            for offer in offers(s, None, engine, fits, ask, ("decode",)):
                found += offer.candidates(counts)
    phases = {(c.role, c.engine) for c in found}
    whole = [c for c in found if c.role == "mixed" or {("prefill", c.engine), ("decode", c.engine)} <= phases]
    sizes = {node.id: node.gpus_per_node for node in classes}
    return Pool(tuple(_left(whole, sizes, counts)), setups, considered, fitting, ranked, kept)


def _left(found: Sequence[Candidate], sizes: Mapping[str, int], counts: Counts) -> list[Candidate]:
    """Those that none makes pointless, and of those that keep no idle cache the ones that none of their own
    does: what is served without is looked for, too."""
    left = undominated(found, sizes, counts)
    if not any(c.level for c in found):
        return left
    alone = undominated([c for c in found if not c.level], sizes, counts)
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
    own = (ask.card, engine, most, most, node.scale_up_gpus, ask.precisions, True)
    designs = valid_designs(*own, ask.context_groups)
    offered = usual_sizes(designs.gpus, node.gpus_per_node) & stands(designs, node)
    designs = designs.take(np.flatnonzero(offered))
    if len(designs) == 0:
        return None
    model = CostModel(ask.card, node, engine, ask.precisions, ask.calibration)
    return ask.setup(model, designs, [node])


def _unequal_setup(kinds: Shortlist, links: Sequence[ClusterLink], engine: str, ask: Ask) -> Setup:
    """The stagings of one engine, with their memory."""
    model = UnequalModel(
        ask.card, kinds.classes, links, kinds.stagings, engine, ask.precisions, ask.calibration
    )
    return ask.setup(model, designs_of(kinds.stagings), kinds.classes)


def offers(
    s: Setup,
    node: NodeClass | None,
    engine: str,
    fits: Ints,
    ask: Ask,
    roles: Sequence[Role] = ROLES,
    chunk: int = 0,
) -> Iterator[Offer]:
    """Points of every role and focus: the workload's mix, and each bucket alone where there are several (not
    at levels of keeping cache, of which there are many). Without a `node`: of stages on several classes,
    which do both phases. `chunk`: that the engine is told."""
    w = len(s.mix.share)
    alone = 1 < w <= 4 and ask.objective != "latency" and s.keep is None
    focuses: list[int | None] = [None, *range(w)] if alone else [None]
    for focus in focuses:
        at = s if focus is None else replace(s, mix=_only(s.mix, focus))
        for role, points in _points(at, fits, focus, ask, roles):
            yield Offer.of(points, at, node, engine, role, focus, chunk)


def _only(mix: Mix, w: int) -> Mix:
    share = np.zeros_like(mix.share)
    share[w] = 1.0
    return replace(mix, share=share)


def _points(
    s: Setup, fits: Ints, focus: int | None, ask: Ask, only: Sequence[Role]
) -> Iterator[tuple[Role, Points]]:
    """Operating points of the designs `fits` in every role that the focus has; `split`: by phase, too."""
    if s.mix.steps == 0:
        if "mixed" in only:
            yield "mixed", prefilling(s, fits, LEVELS)
        return
    # decoding has no queue whose wait depends on the mix
    roles: list[Role] = [r for r in only if r == "mixed" or (r == "decode" and focus is None)]
    most = dict(zip(roles, largest(s, fits, roles), strict=True))
    if "mixed" in roles:
        yield "mixed", _decoding(s, fits, most["mixed"], "mixed", ask)
    if "prefill" in only:
        yield "prefill", prefilling(s, fits, LEVELS)
    if "decode" in roles:
        yield "decode", _decoding(s, fits, most["decode"], "decode", ask)


def _decoding(s: Setup, fits: Ints, most: Floats, role: Role, ask: Ask) -> Points:
    """Points at the largest batch of each design, and below it where smaller ones may matter."""
    alive = most > 0
    index, batch = fits[alive], most[alive]
    grid = _grid(s.mix, ask.objective)
    row, column = np.nonzero(grid[None, :] < batch[:, None])
    index = np.concatenate([index, index[row]])
    batch = np.concatenate([batch, grid[column]])
    return batched(s, index, batch, role)


def _grid(mix: Mix, objective: Objective) -> Floats:
    """Batches below the largest that may be worth a column: none for one bucket, where the rate never falls
    with
    the batch; where watts or latency count, doublings or quadruplings are near enough."""
    if objective in ("energy", "latency"):
        return GRID[:: 4 if objective == "latency" else 2]
    return GRID if np.count_nonzero(mix.share) > 1 else GRID[:0]

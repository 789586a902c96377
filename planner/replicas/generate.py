"""All replica designs worth a column: every kind of replica (`KINDS`) and its variants (`VARIANTS`), at their
operating points, dominated ones dropped.

Loads are continuous: a column stands at the largest load that keeps the SLO (`columns.py`), a side of a
prefill/decode pair at one for each edge of the TTFT promise (`edges.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from cluster_configs.schema import ClusterLink, NodeClass
from planner.candidates import deadline
from planner.candidates.ask import Ask, serving
from planner.candidates.candidate import Candidate, Key
from planner.candidates.columns import Columns, alone, decoding, prefilling
from planner.candidates.dominance import undominated
from planner.candidates.offers import Offer, Standing
from planner.candidates.pairing import Edges, Pairing
from planner.candidates.setup import Made, Role, Setup
from planner.designs.shape import Ints
from planner.errors import OutOfTime
from planner.replicas import KINDS
from planner.replicas.kind import Space
from planner.replicas.pool import Pool
from planner.variants import VARIANTS, Variant

SETUPS_SHARE, PAIRING_SHARE = 0.7, 0.5
"""Of the time that is left, for the setups of all classes, and then for which of their designs are pairs."""

PIECE = 8_000
"""Designs x buckets² that are looked at together."""


def generate(
    classes: Sequence[NodeClass],
    ask: Ask,
    one_more: bool = True,
    links: Sequence[ClusterLink] = (),
    given: Pool | None = None,
    edges: Edges | None = None,
) -> Pool:
    """All candidates for all classes; their ids are unique and say what they are. `given`: a pool for the
    same `ask` with less freedom, whose candidates on one class stay, and those of engines that gain none.
    `edges`: of prefill/decode pairs, those to begin with unless told. Raises OutOfTime where the deadline
    passed before there was any."""
    edges = edges or (given.edges if given else Edges.of(ask.promise))
    space = Space(classes, links, ask, one_more)
    if given is None:
        first, cut = list[Made](), False
        pairing: Pairing | None = None
        with deadline.share(SETUPS_SHARE):
            try:
                for kind in (kind for kind in KINDS if not kind.several):
                    first += varied(kind.made(space), ask, VARIANTS)
            except OutOfTime:
                cut = True
        with deadline.share(PAIRING_SHARE):
            try:
                pairing = _pairing(first, ask)
            except OutOfTime:
                pairing, cut = Pairing(), True
        found, columns, late, seen = offered(first, ask, pairing, edges)
        unseen = _unseen(classes, ask, seen, None if cut else {m.key for m in first}) if late or cut else ()
        late = late or cut
    else:
        first, pairing, columns, late = list(given.made.values()), given.pairing, given.columns, given.late
        unseen = given.unseen
        found = [c for c in given.candidates if c.engine not in ask.mixing or not c.design.stages]
    made = {own.key: own for own in first}
    for kind in (kind for kind in KINDS if kind.several and not late):
        own = list(varied(kind.made(replace(space, found=found)), ask, VARIANTS))
        more, looked, late, _ = offered(own, ask, pairing, edges)
        made, found, columns = made | {m.key: m for m in own}, found + more, columns + looked
    phases = {(c.role, c.engine) for c in found}
    whole = [c for c in found if c.role == "mixed" or {("prefill", c.engine), ("decode", c.engine)} <= phases]
    if late and not whole:
        raise deadline.late()
    return Pool(tuple(_left(whole, classes, ask)), made, columns, edges, pairing, late, unseen)


def _unseen(
    classes: Sequence[NodeClass], ask: Ask, seen: Collection[Key], there: Collection[Key] | None
) -> tuple[tuple[str, str], ...]:
    """Classes with the engines of which no replica was looked at, of those that are `there`; None: not all
    are known."""
    looked, known = ({(k.where, k.engine) for k in keys or ()} for keys in (seen, there))
    every = [(node.id, engine) for node in classes for engine in serving(node, ask)]
    return tuple(one for one in every if one not in looked and (there is None or one in known))


def varied(made: Iterable[Made], ask: Ask, variants: Collection[Variant]) -> Iterator[Made]:
    """Setups, and what each of the variants makes of them."""
    for own in made:
        every = [own]
        for variant in variants:
            every = [further for one in every for further in variant(one, ask)]
        yield from every


def offered(
    made: Iterable[Made], ask: Ask, pairing: Pairing | None, edges: Edges
) -> tuple[list[Candidate], int, bool, set[Key]]:
    """The candidates of setups, how many operating points were looked at, whether the deadline passed before
    all of them were, and of which setups some were."""
    found, looked, seen = list[Candidate](), 0, set[Key]()
    try:
        for own, index, roles in _in_turns(made):
            for offer in _offers(own.setup, index, roles, Standing(own.node, own.key, pairing), edges):
                looked += len(offer)
                seen.add(own.key)
                found += offer.candidates(ask.counts)
            seen.add(own.key)
    except OutOfTime:
        return found, looked, True, seen
    return found, looked, False, seen


def _in_turns(made: Iterable[Made]) -> Iterator[tuple[Made, Ints, Sequence[Role]]]:
    """Designs of setups with the roles that they are offered in; where they are many, in pieces of few and
    large replicas alike, the first of every setup before the second of any: where time is short something of
    all of them has been looked at."""
    parts = [(own, index, roles) for own in made for index, roles in own.parts]
    counts = [-(-len(index) * len(own.setup.mix.share) ** 2 // PIECE) for own, index, _ in parts]
    for turn in range(max(counts, default=0)):
        for (own, index, roles), count in zip(parts, counts, strict=True):
            if turn < count:
                yield own, index[turn::count], roles


def every_offered(
    made: Iterable[Made], ask: Ask, pairing: Pairing | None, edges: Edges
) -> tuple[list[Candidate], int]:
    """Like `offered`, but raises OutOfTime beyond the deadline."""
    found, looked, late, _ = offered(made, ask, pairing, edges)
    if late:
        raise deadline.late()
    return found, looked


def finer(pool: Pool, ask: Ask, edges: Edges) -> Pool:
    """The pool with columns of pairs at further `edges` too. Raises OutOfTime."""
    added = Edges(
        tuple(e for e in edges.prefill if e not in pool.edges.prefill),
        tuple(e for e in edges.decode if e not in pool.edges.decode),
    )
    roles: list[Role] = [r for r, own in (("prefill", added.prefill), ("decode", added.decode)) if own]  # type: ignore[misc]
    engines = {c.engine for c in pool.candidates if c.role != "mixed"}
    able = [m for m in pool.made.values() if m.node is not None and m.key.engine in engines]
    found, looked = every_offered((m.only(roles) for m in able), ask, pool.pairing, added)
    classes = list({m.node.id: m.node for m in able if m.node}.values())
    left = _left([*pool.candidates, *found], classes, ask)
    return replace(pool, candidates=tuple(left), columns=pool.columns + looked, edges=edges)


def _left(found: Sequence[Candidate], classes: Sequence[NodeClass], ask: Ask) -> list[Candidate]:
    """Candidates that none makes pointless, and beside them the best without idle cache and without drafts:
    what is served without is looked for, too."""
    sizes, counts = {node.id: node.gpus_per_node for node in classes}, ask.counts
    left = undominated(found, sizes, counts)
    if not any(c.level or c.draft for c in found):
        return left
    alone = undominated([c for c in found if not (c.level or c.draft)], sizes, counts)
    chosen = {c.id for c in [*alone, *left]}
    return [c for c in found if c.id in chosen]


def _pairing(made: Sequence[Made], ask: Ask) -> Pairing:
    """Which designs on one class that have room may be a pair, drafts included."""
    own = [m for m in made if m.node is not None and not (m.key.chunk or m.key.level or m.key.power)]
    return Pairing.of(
        ask.card, (side for m in own for side in Standing(m.node, m.key).sides(m.setup, m.setup.fitting))
    )


def _offers(s: Setup, fits: Ints, roles: Sequence[Role], at: Standing, edges: Edges) -> Iterator[Offer]:
    """Columns of the designs `fits` in every role: under the workload's mix, and for single buckets alone
    where there are several."""
    for focus in (None, *alone(s)) if len(fits) else ():
        own = s if focus is None else replace(s, mix=s.mix.only(focus))
        for role, columns in _columns(own, fits, roles, at, edges):
            if focus is None or role != "decode":
                yield Offer.of(columns, own, at, role, focus)


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

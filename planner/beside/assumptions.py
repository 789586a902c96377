"""What the figures that nobody told decide: the plan's own kinds of replica, served again with each moved.

Rates of links are as the devices' makers name them, and experts' loads follow a law, unless somebody says
otherwise. A trial takes each against the plan by as much as it is off now and then: a switch that is shared,
a cable of the generation before. Only the designs that the plan has are made again, in whatever number is
best then, and limits stay as they are; a plan that is made anew may lose less.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from cluster_configs.schema import NodeClass
from planner.beside.planned import Planned
from planner.candidates.candidate import Candidate, Key
from planner.candidates.setup import Role
from planner.plans.found import Found
from planner.plans.schema import Assumption
from planner.problems.balance import Balanced
from planner.question.asked import Asked
from planner.question.posed import ask_of, pooled
from planner.replicas.again import anew
from planner.replicas.pool import Pool
from planner.search.find import find
from planner.search.shortlists import unserved

LEAST = 0.05
"""Share of the objective from which on an assumption is decisive."""

LESS = 0.5
"""Share of a rate that was not told at which the plan is tried again."""

PRICES = "cluster.nodes.price_usd_per_hour"

DEARER = 1.25
"""Times a price that was not told, of one class of nodes in use beside others: of all of them it is plain."""

MORE = 2.0
"""Times the unevenness of experts' loads that was assumed."""


class Uneven(Balanced):
    """Experts' loads `MORE` times as uneven as the law says."""

    def in_order(self, experts: int, ep: int) -> float:
        return 1 + MORE * (super().in_order(experts, ep) - 1)


@dataclass(frozen=True)
class Trial:
    """An assumption, by its name in `problem.defaulted`; what is tried in its place, in words."""

    name: str
    what: str
    asked: Asked


def assumptions(planned: Planned) -> Iterator[Assumption]:
    """Those whose trial loses `LEAST` of the plan's objective or more; `objective` None where the plan's
    kinds of replica do not serve then."""
    tried = list(trials(planned))
    each = replace(planned.limits, seconds=planned.limits.seconds / max(len(tried), 1))
    for trial in tried:
        rival = again(replace(planned, limits=each), trial.asked)
        if rival is None or rival.solution.status == "infeasible":
            yield Assumption(name=trial.name, what=trial.what, objective=None, loss=None)
            continue
        objective = planned.known(rival.solution)
        if objective is None:
            continue
        loss = -planned.fleet.gain(objective)
        if loss >= LEAST:
            yield Assumption(name=trial.name, what=trial.what, objective=objective, loss=loss)


def trials(planned: Planned) -> Iterator[Trial]:
    """What may matter to this plan, and was not told."""
    asked, made = planned.asked, planned.made
    for words, field, matters in RATES:
        name = f"cluster.nodes.{field}"
        if name in asked.cluster.defaulted and matters(planned):
            slower = partial(_slower, field=field)
            yield Trial(name, f"links {words} at half their rate", _with(asked, slower))
    used = {node.id for g in made for node in asked.cluster.classes if g.candidate.node_class == node.id}
    if PRICES in asked.cluster.defaulted and _paid(asked) and len(used) > 1:
        for name in sorted(used):
            dearer = partial(_dearer, name=name)
            yield Trial(PRICES, f"{name} nodes {100 * DEARER - 100:.0f} % dearer", _with(asked, dearer))
    wide = any(g.candidate.design.ep > 1 for g in made)
    if wide and asked.calibration.popularity.tokens is None:
        uneven = replace(asked, calibration=replace(asked.calibration, popularity=Uneven()))
        yield Trial("expert loads", "experts' loads twice as uneven as assumed", uneven)


def again(planned: Planned, asked: Asked) -> Found | None:
    """The best fleet of the plan's kinds of replica for what is asked now; None where they serve nothing."""
    kinds = Kinds(planned.found)
    if kinds.plain and not asked.offload:
        own, classes = kinds.stems(planned.found.pool), asked.cluster.classes
        pool = anew(own, classes, ask_of(asked), levels=kinds.levels, designs=kinds.designs)
        question = replace(planned.question, cluster=asked.cluster)
    else:
        pool, question = pooled(asked)
    pool = kinds.kept(pool)
    if unserved(question.state(pool, "bound")):
        return None
    return find(question, pool, planned.limits)


class Kinds:
    """The kinds of replica of a fleet: who they are, whatever they carry."""

    def __init__(self, found: Found) -> None:
        used = [found.candidates[c] for c in found.solution.replicas]
        self.names = {_name(c) for c in used}
        self.levels = {c.level for c in used} - {0}
        self.designs = {c.design for c in used}
        self.plain = all(c.key.kind == "alike" and not c.design.stages for c in used)

    def stems(self, pool: Pool) -> Pool:
        """The pool with what these kinds are made from alone."""
        stems = {Key(key.where, key.engine, chunk=key.chunk) for _, key, _ in self.names}
        return replace(pool, made={key: m for key, m in pool.made.items() if key in stems})

    def kept(self, pool: Pool) -> Pool:
        """The pool with candidates of these kinds alone."""
        left = tuple(c for c in pool.candidates if _name(c) in self.names)
        keys = {c.key for c in left}
        return replace(pool, candidates=left, made={k: m for k, m in pool.made.items() if k in keys})


def _name(c: Candidate) -> tuple[Role, Key, Hashable]:
    """Role, setup and design; unlike stages by what they stand on: order and layers follow the rates."""
    return c.role, c.key, tuple(sorted(str(getattr(s, "where", s)) for s in c.design.stages)) or c.design


def _with(asked: Asked, change: Callable[[NodeClass], NodeClass]) -> Asked:
    """What is asked of the cluster with every class changed."""
    classes = tuple(map(change, asked.cluster.classes))
    return replace(asked, cluster=replace(asked.cluster, classes=classes))


def _slower(node: NodeClass, field: str) -> NodeClass:
    rate = field.replace("_gb_per_s", "_bytes_per_s")
    return replace(node, **{rate: LESS * getattr(node, rate)})


def _dearer(node: NodeClass, name: str) -> NodeClass:
    if node.id != name:
        return node
    return replace(node, price_usd_per_hour=DEARER * (node.price_usd_per_hour or 0.0))


def _paid(asked: Asked) -> bool:
    """Whether the plan depends on what nodes cost."""
    return asked.objective.name == "cost" or asked.options.budget.usd_per_hour is not None


def _joined(planned: Planned) -> bool:
    """Whether replicas have several GPUs."""
    return any(g.candidate.gpus > 1 for g in planned.made)


def _apart(planned: Planned) -> bool:
    """Whether replicas stand on several nodes, or hand caches to others."""
    size = {node.id: node.gpus_per_node for node in planned.asked.cluster.classes}
    return any(
        g.candidate.role != "mixed" or g.candidate.gpus > size.get(g.candidate.node_class, 0)
        for g in planned.made
    )


RATES: tuple[tuple[str, str, Callable[[Planned], bool]], ...] = (
    ("inside nodes", "intra_gb_per_s", _joined),
    ("between nodes", "nic_gb_per_s", _apart),
)
"""Words, the field of nodes, and whether it can matter to a fleet."""

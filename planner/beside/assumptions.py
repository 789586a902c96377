"""What the figures that nobody told decide: the plan's own kinds of replica, served again with each moved.

Rates of links are as the devices' makers name them, and experts' loads follow a law, unless somebody says
otherwise. A trial takes each against the plan by as much as it is off now and then: a switch that is shared,
a cable of the generation before. Only the designs that the plan has are made again, in whatever number is
best then, and limits stay as they are; a plan that is made anew may lose less.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

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
    asked, used = planned.asked, [g.candidate for g in planned.made]
    nodes, told = {node.id: node for node in asked.cluster.classes}, asked.cluster.defaulted

    joined = any(c.gpus > 1 for c in used)
    apart = any(
        c.role != "mixed" or c.node_class not in nodes or c.gpus > nodes[c.node_class].gpus_per_node
        for c in used
    )
    for words, rate, matters in (("inside nodes", "intra", joined), ("between nodes", "nic", apart)):
        name, field = f"cluster.nodes.{rate}_gb_per_s", f"{rate}_bytes_per_s"
        if name in told and matters:
            slower = (replace(node, **{field: LESS * getattr(node, field)}) for node in nodes.values())
            yield Trial(name, f"links {words} at half their rate", _on(asked, slower))

    stood_on = sorted({c.node_class for c in used} & nodes.keys())
    paid = asked.objective.name == "cost" or asked.options.budget.usd_per_hour is not None
    for name in stood_on if PRICES in told and paid and len(stood_on) > 1 else ():
        dearer = replace(nodes[name], price_usd_per_hour=DEARER * (nodes[name].price_usd_per_hour or 0.0))
        what = f"{name} nodes {100 * DEARER - 100:.0f} % dearer"
        yield Trial(PRICES, what, _on(asked, (nodes | {name: dearer}).values()))

    if any(c.design.ep > 1 for c in used) and asked.calibration.popularity.tokens is None:
        uneven = replace(asked, calibration=replace(asked.calibration, popularity=Uneven()))
        yield Trial("expert loads", "experts' loads twice as uneven as assumed", uneven)


def _on(asked: Asked, classes: Iterable[NodeClass]) -> Asked:
    """What is asked, of these classes of nodes in place of its own."""
    return replace(asked, cluster=replace(asked.cluster, classes=tuple(classes)))


def again(planned: Planned, asked: Asked) -> Found | None:
    """The best fleet of the plan's kinds of replica for what is asked now; None where they serve nothing."""
    found, pool = planned.found, planned.found.pool
    used = [found.candidates[c] for c in found.solution.replicas]
    if all(c.key.kind == "alike" for c in used) and not asked.offload:
        stems = {Key(c.key.where, c.key.engine, chunk=c.key.chunk) for c in used}
        own = replace(pool, made={key: m for key, m in pool.made.items() if key in stems})
        levels, designs = {c.level for c in used} - {0}, {c.design for c in used}
        pool = anew(own, asked.cluster.classes, ask_of(asked), levels=levels, designs=designs)
        question = replace(planned.question, cluster=asked.cluster)
    else:
        pool, question = pooled(asked)
    pool = of_kinds(used, pool)
    if unserved(question.state(pool, "bound")):
        return None
    return find(question, pool, planned.limits)


def of_kinds(used: Sequence[Candidate], pool: Pool) -> Pool:
    """The pool with candidates of the same kinds alone: in role, setup and design, unlike stages by what they
    stand on, as order and layers follow the rates."""

    def kind(c: Candidate) -> tuple[Role, Key, Hashable]:
        return c.role, c.key, tuple(sorted(stage.where for stage in c.design.stages)) or c.design

    kinds = {kind(c) for c in used}
    left = tuple(c for c in pool.candidates if kind(c) in kinds)
    keys = {c.key for c in left}
    return replace(pool, candidates=left, made={k: m for k, m in pool.made.items() if k in keys})

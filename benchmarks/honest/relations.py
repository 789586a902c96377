"""Pairs of problems of which one is easier: the harder one's plan never beats the easier one's bound."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from benchmarks.honest.answers import Answer, Comparison, Effort, ask, figure
from benchmarks.honest.problems import LIGHT_RPS, Problem, Rng
from cluster_configs import devices
from cluster_configs.reading import from_gpus

OWN = "a plan's own figure against its own bound"
FEWER = "a part of the cluster"
ENGINE = "one engine alone"
BUDGET = "a budget of GPUs"
TRAFFIC = "more traffic"
RATE = "0.98 of the largest rate under random arrivals"
LARGEST = "a rate that is served, against the bound on the largest"
SURVIVES = "a fleet that survives lost nodes, against one that need not"
SURVIVES_MORE = "a fleet whose rest serves all after a loss, against half"
DRAFTS = "a fleet without drafts, against one that may draft"
ACCEPTED = "drafts of which fewer are accepted"

AT = 0.98
"""Of the largest rate, what must be served, too."""

ENGINES = ("vllm", "sglang", "trtllm")
MORE = (1.02, 1.6)
"""Times the traffic."""

ACCEPTANCE = (0.8, 0.4)
"""Shares of drafted tokens that are accepted."""

Harder = tuple[str, Problem] | None
"""How a problem is harder than another, and the problem; None where that way is not open."""


def own(answer: Answer) -> Iterator[Comparison]:
    """A plan is a fleet, too."""
    if answer.value is not None:
        yield from Comparison.of(OWN, answer, answer.value, answer.problem.command)


def harder(easy: Answer, effort: Effort, rng: Rng, count: int) -> Iterator[Comparison]:
    """The answer against those of `count` problems that are harder, each in another way."""
    ways = [found for way in (_fewer, _engine, _budget, _traffic) if (found := way(easy.problem, rng))]
    for i in rng.permutation(len(ways))[:count]:
        kind, problem = ways[i]
        answer = ask(problem, effort)
        if answer.value is not None and not _beyond_space(easy, answer):
            yield from Comparison.of(kind, easy, answer.value, problem.command)


def _beyond_space(easy: Answer, answer: Answer) -> bool:
    """Whether the harder problem's fleet has replicas over several classes, of which the easier one's proof
    says that it left some out."""
    if easy.plan is None or easy.plan.proof.space.complete or answer.plan is None:
        return False
    return any(len({stage.node_class for stage in r.stages}) > 1 for r in answer.plan.replicas)


def _fewer(problem: Problem, rng: Rng) -> Harder:
    """Without one kind of GPU, or with half as many of one; where nodes are paid for, only whole ones. Not
    where watts are minimised: GPUs at rest draw some."""
    if problem.objective == "energy":
        return None
    i = int(rng.integers(len(problem.entries)))
    count, device = problem.entries[i]
    before, after = problem.entries[:i], problem.entries[i + 1 :]
    half = count // 2
    cut = half > 0 and (problem.objective != "cost" or half % devices.find(device).gpus_per_node == 0)
    if cut and (rng.random() < 0.5 or not before + after):
        return FEWER, replace(problem, entries=(*before, (half, device), *after))
    return (FEWER, replace(problem, entries=before + after)) if before + after else None


def _engine(problem: Problem, rng: Rng) -> Harder:
    if problem.engine != "any":
        return None
    return ENGINE, replace(problem, engine=ENGINES[int(rng.integers(len(ENGINES)))])


def _budget(problem: Problem, rng: Rng) -> Harder:
    most = sum(count for count, _ in problem.entries)
    return (BUDGET, replace(problem, most_gpus=int(rng.integers(1, most)))) if most > 1 else None


def _traffic(problem: Problem, rng: Rng) -> Harder:
    """Where limits are on means: more load never makes a mean shorter, a percentile of TPOT it may
    (`planner.queueing`)."""
    if problem.rate is None or problem.objective == "throughput" or problem.slo.percentile != "mean":
        return None
    return TRAFFIC, replace(problem, rate=problem.rate * float(rng.uniform(*MORE)))


def insured(easy: Answer, effort: Effort) -> Iterator[Comparison]:
    """The answer, and that to half the traffic after any lost node, against a fleet whose rest serves all."""
    if sum(node.node_count for node in from_gpus(easy.problem.gpus).classes) < 2:
        return
    half, whole = (ask(replace(easy.problem, survive=text), effort) for text in ("node:50%", "node"))
    for kind, claim, found in ((SURVIVES, easy, half), (SURVIVES_MORE, half, whole)):
        if found.value is not None and not _beyond_space(claim, found):
            yield from Comparison.of(kind, claim, found.value, found.problem.command)


def drafted(easy: Answer, effort: Effort) -> Iterator[Comparison]:
    """The answers with drafts of which many, and fewer, are accepted, against the fleet without any."""
    many, few = (ask(replace(easy.problem, acceptance=p), effort) for p in ACCEPTANCE)
    for kind, claim, found in ((DRAFTS, few, easy), (ACCEPTED, many, few)):
        if found.value is not None and not _beyond_space(claim, found):
            yield from Comparison.of(kind, claim, found.value, found.problem.command)


def largest(problem: Problem, effort: Effort) -> Answer:
    """The largest rate under random arrivals, within the problem's limits."""
    return ask(replace(problem, objective="throughput", rate=LIGHT_RPS), effort)


def served(most: Answer, goal: Problem, effort: Effort) -> Iterator[Comparison]:
    """A little less than the largest rate found, asked for: it is served, for no more than that fleet takes.
    Not where a percentile of TPOT is limited: with less load it may be longer (`planner.queueing`)."""
    if most.plan is None or most.value is None:
        return
    if goal.slo.percentile != "mean" and goal.slo.tpot_ms is not None:
        return
    asked = replace(goal, rate=AT * most.value)
    taken = figure(most.plan, asked)
    yield from Comparison.of(RATE, ask(asked, effort), taken, most.problem.command)


def rates(most: Answer, others: Sequence[Answer]) -> Iterator[Comparison]:
    """Rates that plans serve within the same limits: none above the bound on the largest."""
    for answer in others:
        if answer.plan is not None and answer.problem.rate and answer.problem.slo == most.problem.slo:
            rate = answer.plan.predicted.rps.value
            yield from Comparison.of(LARGEST, most, rate, answer.problem.command)

"""Pipelined drafting: what a pipeline with few requests would gain from drafts that fill its stages.

One sequence keeps one of S stages busy at a time. PipeInfer (arXiv:2407.11798) lets a drafter on a host of
its own go on while the model verifies: every stage's time t a further drafted token enters the pipeline, and
what follows a rejected one is cancelled. With each token accepted with probability p, on average p / (1 - p)
tokens come at that pace, then the one in the rejected one's place takes the whole way of S t:

    seconds a token = t (S + p / (1 - p)) / (1 + p / (1 - p)) = t (p + S (1 - p))

No engine starts it as it comes, so it is an estimate: drafting is assumed to keep pace with a stage, a token
more in a stage to take no time, and one sequence to be in each replica.
"""

from __future__ import annotations

from planner.beside.planned import Planned
from planner.beside.rivals import estimated, gains
from planner.plans.found import Group
from planner.plans.schema import Alternative
from planner.question.posed import ask_of

WHAT = "drafts that fill the pipeline (PipeInfer)"


def token_s(step_s: float, stages: int, acceptance: float) -> float:
    """Seconds of a sequence's token where a step takes `step_s` through all stages.

    >>> token_s(0.4, 4, 0.0), round(token_s(0.4, 4, 0.5), 3), token_s(0.4, 4, 1.0)
    (0.4, 0.25, 0.1)
    """
    return step_s / stages * (acceptance + stages * (1 - acceptance))


def pipelined_drafts(planned: Planned) -> list[Alternative]:
    """What drafts in the stages of a pipeline would bring, where drafts were asked for and every replica is a
    pipeline that its requests do not fill; none that gains little. For plans of the most requests, and of the
    least latency."""
    drafts, made = ask_of(planned.asked).drafts, planned.made
    soon = planned.asked.objective.spends == "latency"
    if not drafts or not all(_idles(g) for g in made) or not (soon or planned.open_ended):
        return []
    alone = [(g.count, *_alone(g, drafts[0].acceptance)) for g in made]
    rate = sum(count / seconds for count, seconds, _ in alone)
    theirs = sum(count for count, *_ in alone) / rate if soon else rate
    if not gains(planned.fleet, theirs):
        return []
    tpot_ms = 1e3 * max(each for *_, each in alone)
    why = f"TPOT {tpot_ms:,.0f} ms with one request in a replica at a time; no engine starts it as it comes"
    return [estimated(WHAT, planned.fleet, theirs, why)]


def _stages(g: Group) -> int:
    design = g.candidate.design
    return len(design.on_nodes) or design.pp


def _idles(g: Group) -> bool:
    """Whether a pipeline has fewer sequences than stages."""
    return g.candidate.role == "mixed" and _stages(g) > 1 and g.operation.sequences < _stages(g)


def _alone(g: Group, acceptance: float) -> tuple[float, float]:
    """Seconds of a request alone in a replica, and of its tokens, means over what the group serves."""
    op, mix = g.operation, g.setup.mix
    share = op.rate / op.rate.sum()
    each = token_s(op.decode_s, _stages(g), acceptance)
    return op.prefill_s + float(share @ (mix.osl - 1)) * each, each

"""Why a fleet is worse than the plan, in the terms of what is asked for, and never against the verdict: a
figure is shown only where it differs the way the objectives do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from planner.explain.limits import binding, label
from planner.inputs.options import Objective
from planner.plans.found import Found, Group, groups, paths
from solvers.linear import EXACT

NAMED = 4
"""Replica groups of a fleet that are named."""


def describe(made: Sequence[Group]) -> str:
    """A fleet in short: "4 x tp2 h100-sxm (vllm)", prefill and decode marked."""
    parts = []
    for g in made[:NAMED]:
        device = "" if g.candidate.design.stages else f" {g.setup.model.node_class.device.name}"
        parts.append(f"{g.count} x {label(g)}{device} ({g.candidate.engine})")
    return " + ".join(parts) + (" + …" if len(made) > NAMED else "")


def why(best: Found, rival: Found) -> str:
    """What makes the difference, and of a worse rival what holds it back; nothing between equals."""
    ours, theirs = best.solution.objective, rival.solution.objective
    assert ours is not None
    assert theirs is not None
    worse = ours - theirs if best.objective == "throughput" else theirs - ours
    if abs(worse) <= EXACT * abs(ours):
        return ""
    other = groups(rival)
    said = [TERMS[best.objective](rival, best, worse > 0), binding(rival, other) if worse > 0 else None]
    return "; ".join(words for words in said if words)


def _throughput(rival: Found, best: Found, worse: bool) -> str:
    """Requests of a GPU in use, where that says the same as the verdict; else GPUs that are not used."""
    a, b = _gpus(rival), _gpus(best)
    each = rival.solution.rate / a, best.solution.rate / b
    if (each[0] < each[1]) == worse:
        return f"{each[0]:.3g} against {each[1]:.3g} req/s a GPU in use"
    return f"{a:,} against {b:,} GPUs in use" if (a < b) == worse else ""


def _gpus(found: Found) -> int:
    """GPUs of the replicas that serve something."""
    return sum(g.count * g.candidate.gpus for g in groups(found))


def _cost(rival: Found, best: Found, worse: bool) -> str:
    """Dollars of a million output tokens: those of all nodes in use, whole."""
    a, b = (1e6 / 3600 * _each_token(found) for found in (rival, best))
    nodes = [sum(found.solution.nodes.values()) for found in (rival, best)]
    many = f" ({nodes[0]:,} against {nodes[1]:,})" if (nodes[0] > nodes[1]) == worse else ""
    return f"${a:.3g} against ${b:.3g} a million output tokens, whole nodes paid{many}"


def _energy(rival: Found, best: Found, worse: bool) -> str:
    return f"{_each_token(rival):.3g} against {_each_token(best):.3g} J an output token"


def _each_token(found: Found) -> float:
    """What is minimised [1/s], of one output token a second."""
    w, s = found.workload, found.solution
    osl = sum(b.osl * share for b, share in zip(w.buckets, w.shares, strict=True))
    return (s.objective or 0.0) / (s.rate * osl)


def _fewest(rival: Found, best: Found, worse: bool) -> str:
    a, b = (found.solution.rate / (found.solution.objective or 1.0) for found in (rival, best))
    return f"{a:.3g} against {b:.3g} req/s a GPU"


def _latency(rival: Found, best: Found, worse: bool) -> str:
    """Mean times of all requests that differ as the verdict does."""
    names = ("s to the first token", "s a further token")
    both = zip(names, _times_s(rival), _times_s(best), strict=True)
    return ", ".join(f"{a:.3g} against {b:.3g} {name}" for name, a, b in both if a != b and (a > b) == worse)


def _times_s(found: Found) -> tuple[float, float]:
    """TTFT and TPOT [s], mean over requests."""
    ways = paths(found, groups(found))
    rate = sum(p.rate for p in ways)
    return sum(p.rate * p.ttft_s for p in ways) / rate, sum(p.rate * p.tpot_s for p in ways) / rate


TERMS: Mapping[Objective, Callable[[Found, Found, bool], str]] = {
    "throughput": _throughput,
    "cost": _cost,
    "energy": _energy,
    "gpus": _fewest,
    "latency": _latency,
}
"""A rival's objective against the plan's, in the terms of one request, token or GPU."""

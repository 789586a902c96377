"""How near a fleet is to its limits at its real load, and the groups that answer later than promised."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from planner.plans.found import Found, Group, Path, all_pairs, busy, operate_anew, paths
from solvers.fleet.idle import draw_of

SLACK = 1e-6
"""Share of a limit by which it may be exceeded: rounding."""


@dataclass(frozen=True)
class Late:
    """A replica group that answers `bucket` too late at its real mix; at `share` of its traffic it would
    not."""

    candidate: str
    bucket: str
    share: float


def strain(found: Found, made: Sequence[Group], factor: float = 1.0) -> float:
    """The largest share of a limit that any group or path takes with `factor` of the traffic; infinite where
    a group is given more than it can carry."""
    if factor != 1.0:
        found = scaled(found, factor)
        made = [operate_anew(g, factor) for g in made]
    worst = max(fullness(g) for g in made)
    if not np.isfinite(worst) or any(not np.isfinite(g.operation.sequences) for g in made):
        return float("inf")
    worst = max(worst, *_used(found, paths(found, made)))
    if most := found.problem.budget.get("watts"):
        worst = max(worst, watts(found, made) / most)
    nic = busy(found, all_pairs(found, made))
    return max(worst, *nic.values()) if nic else worst


def _used(found: Found, ways: Sequence[Path]) -> Iterator[float]:
    """Shares of the limits that each path takes, or all of a bucket together."""
    if found.together:
        yield from used_together(found, ways).values()
        return
    for path in ways:
        yield from _of_limits(found, path)


def used_together(found: Found, ways: Sequence[Path]) -> dict[tuple[int, int], float]:
    """Shares of the limits on TTFT (0) and TPOT (1) that the requests of each bucket take in the mean,
    whatever way they take, each with its own caution: what errors have in common moves all ways alike."""
    sums: dict[tuple[int, int], tuple[float, float]] = {}
    for path in ways:
        for kind, own in enumerate(_of_limits(found, path)):
            rate, waiting = sums.get((kind, path.bucket), (0.0, 0.0))
            sums[kind, path.bucket] = rate + path.rate, waiting + path.rate * own
    return {key: waiting / rate for key, (rate, waiting) in sums.items()}


def _of_limits(found: Found, path: Path) -> list[float]:
    """Shares of the limits on TTFT and, where there are tokens after the first, on TPOT that a path takes."""
    promise = path.first.setup.promise
    used = [path.cautious_ttft_s / promise.ttft_s]
    if found.workload.buckets[path.bucket].osl > 1:
        used.append(path.tpot_s * path.decoder.caution[1] / promise.tpot_s)
    return used


def scaled(found: Found, factor: float) -> Found:
    """This fleet with `factor` of its traffic."""
    s = found.solution
    flows = {key: factor * v for key, v in s.flows.items()}
    pairs = {key: factor * v for key, v in s.pair_flows.items()}
    rate = factor * s.rate
    others = {link: factor * share for link, share in found.others.items()}
    scaled_ = replace(s, flows=flows, pair_flows=pairs, rate=rate, objective=rate)
    return replace(found, solution=scaled_, others=others)


def fullness(g: Group) -> float:
    """The fullest resource of a group as a share of what it may be: a server that only prefills has its rule
    of operation."""
    return g.operation.utilisation / (g.setup.busiest if g.operation.does == "prefill" else 1.0)


def watts(found: Found, made: Sequence[Group]) -> float:
    """Watts of all GPUs: replicas at their real load, and those that idle."""
    used = {g.candidate.id: g.count for g in made}
    return sum(g.count * g.operation.watts for g in made) + draw_of(found.problem, used)


def exact_value(found: Found, made: Sequence[Group]) -> float:
    """The objective as the one model has it at the real load: watts and latency are the program's lower
    bounds until then."""
    s = found.solution
    assert s.objective is not None
    if found.objective.spends == "watts":
        return watts(found, made)
    if found.objective.spends == "gpus":  # of replicas that serve something: the others are not run
        return float(sum(g.count * g.candidate.gpus for g in made))
    if found.objective.spends != "latency":
        return s.objective
    return latency_s(found, made)


def latency_s(found: Found, made: Sequence[Group]) -> float:
    """Mean seconds from a request's arrival to its last token."""
    osl = [b.osl for b in found.workload.buckets]
    ways = paths(found, made)
    waits = sum(p.rate * (p.ttft_s + (osl[p.bucket] - 1) * p.tpot_s) for p in ways)
    return waits / sum(p.rate for p in ways)


def broken(found: Found, made: Sequence[Group], slack: float = SLACK) -> list[Late]:
    """Groups whose real mix answers later than promised by more than `slack`, or fills more than their KV
    room:
    to be loaded less and solved again; the worst first."""
    full = [g for g in made if fullness(g) > 1 + slack]
    late = [Late(g.candidate.id, next(iter(g.served)), _carried(g)) for g in full]
    for path in paths(found, made):
        if path.first in full or path.decoder in full or _keeps(found, path, 1 + slack):
            continue  # what is over full has no times to judge
        guilty = path.decoder if _in_time(path, 1 + slack) else path.first
        late.append(Late(guilty.candidate.id, str(path.bucket), _bearable(found, path, guilty)))
    return sorted(late, key=lambda bad: bad.share)


def _in_time(path: Path, slack: float) -> bool:
    """The first token: by the prefill side's caution."""
    return path.cautious_ttft_s <= path.first.setup.promise.ttft_s * slack


def _keeps(found: Found, path: Path, slack: float) -> bool:
    """Both limits; the time between tokens by the decode side's caution."""
    promised = path.decoder.setup.promise.tpot_s * slack
    decodes = found.workload.buckets[path.bucket].osl > 1
    return _in_time(path, slack) and (not decodes or path.tpot_s * path.decoder.caution[1] <= promised)


def _carried(full: Group) -> float:
    """The largest share of its traffic that a group carries."""
    return _largest(lambda share: fullness(operate_anew(full, share)) <= 1.0)


def _bearable(found: Found, path: Path, guilty: Group) -> float:
    """The largest share of the guilty group's traffic at which the path keeps its promise; 0: at none."""
    i, was = path.bucket, guilty.operation

    def good(share: float) -> bool:
        now = operate_anew(guilty, share)
        op = now.operation
        ttft = path.ttft_s - was.ttft_s[i] + op.ttft_s[i] if np.isfinite(was.ttft_s[i]) else op.ttft_s[i]
        tpot = op.tpot_s[i] if guilty.candidate.role != "prefill" else path.tpot_s
        first = now if guilty is path.first else path.first
        return _keeps(found, replace(path, first=first, ttft_s=float(ttft), tpot_s=float(tpot)), 1.0)

    return _largest(good)


def _largest(good: Callable[[float], bool]) -> float:
    """The largest share of 1 that is good, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(7):
        middle = (low + high) / 2
        low, high = (middle, high) if good(middle) else (low, middle)
    return low

"""What else the table allows, what it loses, and why: from the fleet problem alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from planner.beside.reasons import Fleet
from planner.beside.rivals import Rival, lost, told
from planner.candidates.candidate import Candidate
from planner.plans.found import Found
from planner.plans.schema import Alternative
from solvers import fleet
from solvers.fleet.types import FleetProblem, FleetSolution
from solvers.linear import Limits

MOST = 3
"""Designs that are left out, one after the other."""


def rivals(found: Found, limits: Limits) -> list[Alternative]:
    """The other way to treat the phases where the table has both; the best without each chosen design."""
    designs = found.candidates
    chosen = sorted(found.solution.replicas, key=lambda c: -found.solution.replicas[c] * designs[c].gpus)
    labels = list(dict.fromkeys(designs[c].label for c in chosen))[:MOST]
    each = replace(limits, seconds=limits.seconds / (len(labels) + 1))
    made: list[Alternative] = []
    if len({c.role == "mixed" for c in designs.values()}) == 2:
        split = any(designs[c].role != "mixed" for c in chosen)
        what = "no prefill/decode split" if split else "prefill/decode split"
        made.append(_without(found, what, lambda c: (c.role == "mixed") == split, each))
    made += [_without(found, f"without {label}", _other_than(label), each) for label in labels]
    return made


def _other_than(label: str) -> Callable[[Candidate], bool]:
    return lambda c: c.label != label


def _without(found: Found, what: str, keep: Callable[[Candidate], bool], limits: Limits) -> Alternative:
    """The best fleet of the candidates that stay."""
    kept = {c for c, candidate in found.candidates.items() if keep(candidate)}
    problem, best = of_columns(found.problem, kept), Fleet(found)

    def solve() -> Found | None:
        return replace(found, solution=_serving(fleet.solve(problem, limits))) if kept else None

    rival = Rival.of(solve)
    if rival.fleet is None:
        return told(best, rival, what, "the other designs of the table do not carry the load")
    s, gained = rival.fleet.found.solution, best.gain(rival.fleet.objective)
    theirs, ours = _per_gpu(found, s), _per_gpu(found, found.solution)
    each = f": {theirs:.3g} against {ours:.3g} req/s a GPU" if (theirs - ours) * gained > 0 else ""
    return Alternative(
        what=what,
        objective=rival.fleet.objective,
        loss=max(lost(best, rival) or 0.0, 0.0),
        why=_named(found, s) + each,
        status=rival.ended,
        bound=s.bound,
    )


def _serving(s: FleetSolution) -> FleetSolution:
    """`s` without replicas that serve nothing; without an objective where none does."""
    busy = {c for c, _ in s.flows}
    kept = {c: k for c, k in s.replicas.items() if c in busy}
    return replace(s, replicas=kept, objective=s.objective if s.rate > 0 else None)


def of_columns(p: FleetProblem, kept: set[str]) -> FleetProblem:
    """`p` with these columns only, and the pairs that still have both ends."""
    columns = {c: column for c, column in p.columns.items() if c in kept}
    present = {column.group for column in columns.values()}
    pairs = {key: t for key, t in p.pairs.items() if {key[0], key[1]} <= present}
    return replace(p, columns=columns, pairs=pairs)


def _named(found: Found, s: FleetSolution) -> str:
    counts = sorted(s.replicas.items(), key=lambda item: -item[1] * found.candidates[item[0]].gpus)
    shown = [f"{k} x {found.candidates[c].label}" for c, k in counts[:4]]
    return " + ".join(shown) + (" + …" if len(counts) > 4 else "")


def _per_gpu(found: Found, s: FleetSolution) -> float:
    return s.rate / max(sum(k * found.candidates[c].gpus for c, k in s.replicas.items()), 1)

"""What else could have been run, what it loses, and why: the other phase split, and the best fleet without
each chosen design."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from planner.candidates.candidate import Candidate
from planner.explain.carried import too_thin
from planner.plans.found import Found, Group, groups
from planner.plans.schema import Alternative
from planner.search import Question, one_layout, restricted
from solvers.linear import Limits, gap

RUNNERS_UP = 2

VAGUE = 0.05
"""Gap above which an alternative that ran out of time says too little to be shown."""


@dataclass
class _Rivals:
    """Other fleets for the same question; each is shown once."""

    question: Question
    best: Found
    chosen: Sequence[Group]
    limits: Limits
    shown: set[frozenset[tuple[str, int]]] = field(default_factory=set)

    def solve(self, keep: Callable[[Candidate], bool]) -> Found | None:
        """The best fleet of the candidates kept; None where there is none, or none worth the name in time."""
        rival = restricted(self.question, self.best, keep, self.limits)
        if rival is None or rival.solution.objective is None:
            return None
        s = rival.solution
        if s.status == "interrupted":
            raise KeyboardInterrupt
        vague = s.status == "time_limit" and (
            s.bound is None or gap(rival.solution.objective, s.bound) > VAGUE
        )
        return None if vague else rival

    def show(self, rival: Found, what: str = "") -> list[Alternative]:
        """One alternative, unless the same fleet was shown."""
        fleet = frozenset(rival.solution.replicas.items())
        if fleet in self.shown:
            return []
        self.shown.add(fleet)
        others = groups(rival)
        why = _why(self.best, self.chosen, others)
        if what:
            return [_alternative(self.best, rival, what, f"{describe(others)}; {why}")]
        return [_alternative(self.best, rival, describe(others), why)]

    def other_phases(self) -> list[Alternative]:
        """Split prefill from decode where the plan doesn't, and the other way round."""
        split = any(g.candidate.role != "mixed" for g in self.chosen)
        what = "no prefill/decode split" if split else "prefill/decode split"
        rival = self.solve(lambda c: (c.role == "mixed") == split)
        if rival is not None:
            return self.show(rival, what)
        ways = "replicas that do both phases" if split else "pairs of prefill and decode replicas"
        why = f"no fleet of {ways} keeps the limits, or none was found in time"
        if all(b.osl == 1 for b in self.best.workload.buckets):
            why = "answers of one token need no decode"
        return [Alternative(what=what, objective=None, loss=None, why=why)]

    def other_stages(self) -> list[Alternative]:
        """Replicas of one class each where the plan mixes classes in one, and the other way round."""
        if not any(c.design.stages for c in self.best.pool.candidates):
            return []
        unlike = any(g.candidate.design.stages for g in self.chosen)
        what = "one device class a replica" if unlike else "stages on several classes in every replica"
        rival = self.solve(lambda c: bool(c.design.stages) != unlike)
        if rival is not None:
            return self.show(rival, what)
        why = "no such replica keeps the limits here, or no fleet of them was found in time"
        return [Alternative(what=what, objective=None, loss=None, why=why)]

    def no_copies(self) -> list[Alternative]:
        """Experts once each, where the plan has copies of some."""
        if not any(g.candidate.design.redundant for g in self.chosen):
            return []
        rival = self.solve(lambda c: not c.design.redundant)
        return [] if rival is None else self.show(rival, "no copies of experts")

    def nothing_kept(self) -> list[Alternative]:
        """Every prompt computed anew, where the plan keeps KV cache between requests."""
        if not any(g.candidate.level for g in self.chosen):
            return []
        rival = self.solve(lambda c: not c.level)
        return [] if rival is None else self.show(rival, "no KV cache kept between requests")

    def one_layout(self) -> list[Alternative]:
        """The same replica everywhere."""
        alone = one_layout(self.best)
        if not alone or {g.candidate.id for g in self.chosen} <= alone:
            return []
        rival = self.solve(lambda c: c.id in alone)
        return [] if rival is None else self.show(rival, "one layout everywhere")

    def without_leads(self, until: float) -> list[Alternative]:
        """The best fleet without the leading design, then without that one's, too, and so on."""
        made: list[Alternative] = []
        banned: set[tuple[str, str]] = set()
        lead = _lead(self.chosen)
        for _ in range(RUNNERS_UP):
            banned.add(_kind(lead))
            rival = None if time.monotonic() > until else self.solve(lambda c: _kind(c) not in banned)
            if rival is None:
                break
            made += self.show(rival)
            lead = _lead(groups(rival))
        return made


def alternatives(
    question: Question, best: Found, chosen: Sequence[Group], limits: Limits
) -> list[Alternative]:
    """The other way to treat the phases, to mix classes, no copies of experts, one layout everywhere, then
    runners-up, all within `limits.seconds`."""
    until = time.monotonic() + limits.seconds
    each = replace(limits, seconds=limits.seconds / (RUNNERS_UP + 4))
    rivals = _Rivals(question, best, chosen, each)
    if any(c.design.offloads for c in best.pool.candidates):  # they do both phases, on one class
        return rivals.one_layout() + rivals.without_leads(until)
    shown = (
        rivals.other_phases()
        + too_thin(best, chosen)
        + rivals.nothing_kept()
        + rivals.other_stages()
        + rivals.no_copies()
        + rivals.one_layout()
    )
    return shown + rivals.without_leads(until)


def _lead(made: Sequence[Group]) -> Candidate:
    """The design that a fleet is best known by: its largest group that decodes."""
    return next((g for g in made if g.candidate.role != "prefill"), made[0]).candidate


def _kind(c: Candidate) -> tuple[str, str]:
    return c.node_class, str(c.design)


def _alternative(best: Found, rival: Found, what: str, why: str) -> Alternative:
    a, b = best.solution.objective, rival.solution.objective
    assert a is not None
    assert b is not None
    loss = (a - b if best.objective == "throughput" else b - a) / abs(a) if a else 0.0
    if loss < -1e-6:
        why = f"{-loss:.1%} better, within the gap asked for: not worth more kinds of replicas ({why})"
    return Alternative(what=what, objective=b, loss=max(loss, 0.0), why=why)


def describe(made: Sequence[Group]) -> str:
    """A fleet in short: "4 x tp2 h100-sxm (vllm)", prefill and decode marked."""
    parts = []
    for g in made[:4]:
        role = "" if g.candidate.role == "mixed" else f"{g.candidate.role} "
        device = "" if g.candidate.design.stages else f" {g.setup.model.node_class.device.name}"
        parts.append(f"{g.count} x {role}{g.candidate.design}{device} ({g.candidate.engine})")
    return " + ".join(parts) + (" + …" if len(made) > 4 else "")


def _why(best: Found, chosen: Sequence[Group], others: Sequence[Group]) -> str:
    """What holds the rival back, in one sentence with numbers."""
    ours, theirs = _per_gpu(best, chosen), _per_gpu(best, others)
    lead = max(others, key=lambda g: g.count * g.candidate.gpus)
    held = f"its {lead.candidate.label} is held by {limit(lead)}"
    return f"{theirs:.3g} against {ours:.3g} req/s a GPU, {held}"


def _per_gpu(best: Found, made: Sequence[Group]) -> float:
    served = sum(sum(g.served.values()) for g in made if g.candidate.role != "decode")
    return served / max(sum(g.count * g.candidate.gpus for g in made), 1)


def limit(g: Group) -> str:
    """The limit that keeps a replica from taking more: KV room, TPOT, TTFT, or none of these."""
    op, s = g.operation, g.setup
    shares = {
        "the TPOT limit": max(op.tpot_s) * g.caution[1] / s.promise.tpot_s
        if g.candidate.role != "prefill"
        else 0.0,
        "the TTFT limit": max(op.ttft_s) * g.caution[0] / s.promise.ttft_s
        if g.candidate.role != "decode"
        else 0.0,
        "KV room": _kv_share(g),
    }
    name, share = max(shares.items(), key=lambda item: item[1])
    return name if share > 0.85 else "the load it is given" if op.utilisation < 0.85 else "its batch"


def _kv_share(g: Group) -> float:
    """Share of KV room in use."""
    kv = g.candidate.use.get("kv", {})
    return sum(kv.get(w, 0.0) * rate for w, rate in g.served.items()) / g.count

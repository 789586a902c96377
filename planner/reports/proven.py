"""What a plan proves and what it gave up: the best fleet found and its bound, the price list of kinds of
replica, the caps that hold the space of designs; and what could have been run instead, no word beyond
what its solve proved."""

from __future__ import annotations

from math import inf

from rich.text import Text

from planner.plans.schema import Alternative, Cap, Plan, Proof
from planner.reading.units import counted
from planner.reports import words as say

SAME = 1e-9
"""Relative distance below which two objectives are one."""

SPLIT = "prefill/decode split"

NOTED = 1.2
"""Times as long as another from which on a gap between tokens is worth a word."""

LATE = 0.5
"""Share of the time limit: a search that ended sooner had nothing left to bring fleet and bound together."""


def price_list(plan: Plan) -> Text:
    """`1 kind 21.0 · 2 kinds 23.3 (this plan) · 4 kinds 23.9 (best) req/s`: fewer kinds are easier to run.

    The unit stands once at the end where all amounts have the same behind them.
    """
    p = plan.proof
    amounts = [say.rate(entry.objective, p.unit) for entry in p.kinds]
    units = {amount.partition(" ")[2] for amount in amounts}
    unit = units.pop() if len(units) == 1 else ""
    parts = []
    for entry, amount in zip(p.kinds, amounts, strict=True):
        of_plan = abs(entry.objective - p.own) <= SAME * abs(p.own)
        best = "best" if p.unsplit is None else "best without a split"
        named = ["this plan"] * of_plan + [best] * (entry is p.kinds[-1])
        shown = amount.removesuffix(f" {unit}") if unit else amount
        words = f"{counted(entry.kinds, 'kind')} {shown}" + (f" ({', '.join(named)})" if named else "")
        parts.append(Text(words, style="bold green" if of_plan else ""))
    return Text(" · ").join(parts) + Text(f" {unit}" if unit else "")


def proof(plan: Plan) -> Text:
    """How good the best fleet found is at worst, among what, and how long that took; what this plan gave up.

    "The best possible" only where the bound says so: a solver's status is no proof.
    """
    p = plan.proof
    many = designs(p)
    if plan.chains:  # a search that ends by itself, under a bound that is not tight
        many = f"placements on {p.space.considered} units"
    if p.status == "joint":
        return planned_with_others(plan)
    why = ended(p, inf if plan.chains else plan.problem.options.get("time_limit_s", 0.0))
    whose = "the best fleet found is " if p.given_up > SAME else ""
    return Text.assemble(
        (f"{why}{whose}{good(p.gap)}", "bold yellow" if why else "bold green"),
        f" among {many}, {say.number(p.seconds, 2)} s ({p.solver})\n",
        f"a gap is left as {p.why}\n" if p.why else "",
        f"{given_up(plan)}\n" if whose else "",
        *(f"{held_by(cap)}\n" for cap in p.space.caps if cap.binds),
        (p.space.what, "dim"),
    )


def good(gap: float) -> str:
    """How good the best found is at worst, `gap` as a share.

    >>> good(0.021), good(0.0004), good(0.0)
    ('2.1 % from the best possible', 'less than 0.1 % from the best possible', 'the best possible')
    """
    near = "less than 0.1 %" if gap < 0.0005 else say.percent(gap)
    return "the best possible" if gap <= SAME else f"{near} from the best possible"


def designs(p: Proof) -> str:
    """Among what it is: "1,840 designs", and whether those are all."""
    return f"{p.space.considered:,} designs" + ("" if p.space.complete else ", not all there are")


def ended(p: Proof, limit_s: float) -> str:
    """Why a search of at most `limit_s` ended before fleet and bound were as near as was asked for; nothing
    where they are.

    Where it had time left, no further split of designs brings them together: often one node is a larger step
    than the gap asked for.
    """
    late = p.space.late or p.seconds >= LATE * limit_s
    stopped = "out of time: " if late else "the bound is loose: "
    loose = "the bound is loose: "
    return {"time_limit": stopped, "not_closed": loose, "interrupted": "interrupted: "}.get(p.status, "")


def planned_with_others(plan: Plan) -> Text:
    """Of one of several models: how near it is to what it could have by itself is no measure of it."""
    p = plan.proof
    text = "planned with other models, whose proof is of all together; "
    return Text.assemble(text, f"among {p.space.considered:,} designs\n", (p.space.what, "dim"))


def given_up(plan: Plan) -> str:
    """`this plan is 2.5 % below it, for 2 kinds of replica in place of 4`."""
    p = plan.proof
    side = "below" if p.sense == "max" else "above"
    far = "less than 0.1 %" if p.given_up < 0.0005 else say.percent(p.given_up)
    own = [entry.kinds for entry in p.kinds if abs(entry.objective - p.own) <= SAME * abs(p.own)]
    if not own:
        return f"this plan is {far} {side} it"
    if p.unsplit is not None:
        without = f"without its {SPLIT}, which is not sure to pay (--simple 0 takes it)"
        return f"this plan is {far} {side} it, {without}"
    if own[0] == p.kinds[-1].kinds:
        return f"this plan is {far} {side} it, without copies of experts"
    kinds = counted(own[0], "kind")
    fewer = f"for {kinds} of replica in place of {p.kinds[-1].kinds:,}"
    unpaid = "" if p.unpaid is None else f": the rest brings less than its own band, {say.percent(p.unpaid)}"
    return f"this plan is {far} {side} it, {fewer}{unpaid}"


def held_by(cap: Cap) -> str:
    """`held by a cap: utilisation 0.98 (12 of 1,840 left out)`."""
    told = cap.left_out is not None and cap.considered is not None
    left = f" ({cap.left_out:,} of {cap.considered:,} left out)" if told else ""
    return f"held by a cap: {cap.what} {cap.value:,.6g}{left}"


LEAST = 0.0005
"""Share of the plan's objective from which on a difference is worth a word."""


def verdict(plan: Plan, a: Alternative) -> str:
    """How much worse the alternative is, as far as that is proven; or why there is none."""
    if a.objective is None:
        spent = "" if a.seconds is None else f" in {say.number(a.seconds, 2)} s"
        return "not possible" if a.status == "infeasible" else f"none found{spent}"
    ours, sign = plan.proof.own, 1 if plan.proof.sense == "max" else -1
    gain, loss = (sign * (a.objective - ours) / abs(ours) if ours else 0.0), a.loss or 0.0
    if gain >= LEAST:
        return f"{say.percent(gain)} better"
    if loss >= LEAST:
        return (
            f"at least {say.percent(loss)} worse" if a.status == "stopped" else f"{say.percent(loss)} worse"
        )
    return "not settled" if a.status == "stopped" and gain < 0 else "equal"


def in_order(plan: Plan) -> list[Alternative]:
    """The best alternatives first, those that are none last."""
    sign = -1 if plan.proof.sense == "max" else 1
    return sorted(plan.alternatives, key=lambda a: (a.objective is None, sign * (a.objective or 0.0)))


def phases(plan: Plan) -> str | None:
    """Whether splitting prefill from decode pays here, and what it does to first tokens, in a sentence."""
    for a in plan.alternatives:
        if a.what.startswith(SPLIT):
            split = "a split" if plan.proof.unsplit is None else "a split, not sure to pay,"
            said = _of(split, verdict(plan, a)) + _first_tokens(a) + gaps(a)
            return f"Prefill and decode on the same servers: {said}."
        if a.what.startswith(f"no {SPLIT}"):
            said = _of("one shared kind", verdict(plan, a)) + _first_tokens(a) + gaps(a)
            return f"Separate prefill and decode servers: {said}."
    return None


def _first_tokens(a: Alternative) -> str:
    """How late first tokens of another way with the phases are, against the plan's.

    >>> line = {"what": "prefill/decode split", "objective": 1.0, "loss": 0.0, "why": ""}
    >>> _first_tokens(Alternative(**line, ttft_times=2.5)), _first_tokens(Alternative(**line))
    (', its mean TTFT 2.5 times as long', '')
    """
    return "" if a.ttft_times is None else f", its mean TTFT {a.ttft_times:.2g} times as long"


def gaps(a: Alternative) -> str:
    """The longest usual times between tokens of another way with the phases, beside the plan's.

    >>> line = {"what": "prefill/decode split", "objective": 1.0, "loss": 0.0, "why": ""}
    >>> gaps(Alternative(**line, gaps_ms=(31.4, 158.0))), gaps(Alternative(**line, gaps_ms=(31.4, 32.0)))
    (', its gaps between tokens up to 31 ms, not 158', '')
    """
    if a.gaps_ms is None or max(a.gaps_ms) < NOTED * min(a.gaps_ms):
        return ""
    return f", its gaps between tokens up to {a.gaps_ms[0]:,.0f} ms, not {a.gaps_ms[1]:,.0f}"


def _of(what: str, said: str) -> str:
    """A verdict in a sentence.

    >>> _of("a split", "10 % worse"), _of("a split", "not possible")
    ('a split would be 10 % worse', 'a split is not possible')
    >>> _of("a split", "none found in 2 s")
    'of a split none found in 2 s'
    """
    if said.startswith("none found"):
        return f"of {what} {said}"
    return f"{what} {'is' if said.startswith('not ') else 'would be'} {said}"

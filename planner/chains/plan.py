"""`--engine chains`: a plan whose nodes each hold some of the layers, and whose requests pass chains of them.

The front of throughput against latency comes from `solvers.placement.served`; of its plans the one that
serves most within the SLO is taken. Its link shares become chains (paths through the nodes, each with its
part of the requests), its nodes groups that hold the same layers. The bound is the closed form's; what a
replay serves was up to 15 % from it (`docs/placement.md`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace

from cluster_configs.feeds import refuse
from planner.candidates.ask import Ask
from planner.candidates.deadline import late
from planner.candidates.mix import Promise
from planner.chains.assembly import Assembly
from planner.errors import Infeasible, InputError
from planner.inputs.options import MEDIAN
from planner.inputs.workload import Slo
from planner.objectives import THROUGHPUT
from planner.plans import schema
from planner.problems import chains
from planner.problems.chain_units import Posed
from planner.question.asked import Asked
from planner.why.rounding import ceil_to
from solvers.linear import Limits
from solvers.placement import served as placement_served
from solvers.placement import served_bound as placement_served_bound
from solvers.placement.predict import Served, together

LEAST_S = 1.0
"""Seconds that they get where none are left."""

SECONDS = 8.0
"""After which what was found is refined no further."""


def plan_chains(asked: Asked, limits: Limits, began: float) -> schema.Plan:
    """The plan that serves most within the SLO. Raises Infeasible, InputError."""
    if any(node.power_cap_watts is not None for node in asked.cluster.classes):
        hint = "leave out `power_cap_watts`, and keep it yourself"
        raise InputError("chains are planned without caps on power", "power_cap_watts", hint)
    refuse(asked.cluster.feeds, "chains are planned")
    seconds = min(max(began + limits.seconds - time.perf_counter(), LEAST_S), SECONDS)
    asked, posed, front, best = chosen(asked, seconds)
    most = max(together(replicas).tokens_per_s for replicas in front)
    bound = placement_served_bound.bound(posed.service, most)
    return Assembly(asked, posed, best).plan(bound, limits, began)


def chosen(asked: Asked, seconds: float = SECONDS) -> tuple[Asked, Posed, list[list[Served]], list[Served]]:
    """The question, its SLO perhaps relaxed; its numbers; all plans on the front, each as its replicas; and
    the one that serves most within the SLO. Raises Infeasible, InputError."""
    if not asked.objective.more or asked.workload.loop == "open":
        raise InputError(
            "chains are planned for the most throughput of a closed loop",
            "--engine chains",
            "leave out --rate, --objective and --loop open",
        )
    if any(value is not None for value in vars(asked.options.budget).values()):
        raise InputError("chains are planned without a budget", "--budget", "leave it out")
    if asked.options.risk != MEDIAN:
        raise InputError("chains keep limits by the median prediction", "--risk", "leave it out")
    posed, until = pose(asked), time.perf_counter() + seconds
    front = [posed.eased(s) for s in placement_served.front(posed.service, seconds)] if posed else []
    if posed is not None and not front and time.perf_counter() > until:
        raise late()
    if posed is None or not front:
        raise Infeasible(
            f"no chain of nodes holds {asked.card.name}, or there are more than {chains.MOST_UNITS} of them",
            hint="add nodes, or a checkpoint in a lower precision",
        )
    asked, best = _within(asked, front)
    return asked, posed, front, best


def pose(asked: Asked) -> Posed | None:
    """The numbers of the question."""
    from planner.designs.precision import precisions

    o, w = asked.options, asked.workload
    used = precisions(asked.card, o.precision, o.kv_precision)
    promise = Promise.of(w.slo, "closed")
    ask = Ask(asked.card, used, (chains.ENGINE,), w, promise, THROUGHPUT, calibration=asked.calibration)
    return chains.pose(asked.cluster, ask)


def _within(asked: Asked, front: Sequence[list[Served]]) -> tuple[Asked, list[Served]]:
    """What serves most of the front within the SLO; a default limit that nothing keeps is relaxed."""
    limits = limits_ms(asked.workload.slo)
    sums = [together(replicas) for replicas in front]
    kept = [i for i, s in enumerate(sums) if all(v <= limits[k] for k, v in times_ms(s).items())]
    if kept:
        return asked, front[max(kept, key=lambda i: sums[i].tokens_per_s)]
    firm = {k: v for k, v in limits.items() if f"slo.{k}" not in asked.defaulted}
    able = [i for i, s in enumerate(sums) if all(times_ms(s)[k] <= v for k, v in firm.items())]
    if not able:
        nearest = min(sums, key=lambda s: max(v / limits[k] for k, v in times_ms(s).items()))
        best = ", ".join(f"{k.removesuffix('_ms').upper()} {v:.4g} ms" for k, v in times_ms(nearest).items())
        hint = " ".join(f"--{k.replace('_', '-')} {ceil_to(v)}" for k, v in times_ms(nearest).items())
        raise Infeasible(f"no chains keep the SLO; the nearest have {best}", hint=hint)
    best_trade = placement_served.chosen([sums[i] for i in able])
    at = next(i for i in able if sums[i] is best_trade)
    return relaxed(asked, "no chains meet the default SLO", best_trade), front[at]


def limits_ms(slo: Slo) -> dict[str, float]:
    """Limits on a prompt and on a token, infinite where there are none."""
    return {"ttft_ms": slo.ttft_ms or math.inf, "tpot_ms": slo.tpot_ms or math.inf}


def relaxed(asked: Asked, why: str, s: Served) -> Asked:
    """The question with limits that `s` keeps, and a word on those that were changed; itself where none
    is."""
    limits = limits_ms(asked.workload.slo)
    loose = {k: float(ceil_to(v)) for k, v in times_ms(s).items() if v > limits[k]}
    if not loose:
        return asked
    words = ", ".join(f"{k.removesuffix('_ms').upper()} -> {v:g} ms" for k, v in loose.items())
    note = schema.PlanWarning(code="slo_relaxed", message=f"{why}; relaxed: {words}")
    workload = asked.workload.model_copy(update={"slo": asked.workload.slo.model_copy(update=loose)})
    return replace(asked, workload=workload, warnings=[*asked.warnings, note])


def times_ms(s: Served) -> dict[str, float]:
    """Milliseconds of a prompt and of a token."""
    return {"ttft_ms": 1e3 * s.prompt_s, "tpot_ms": 1e3 * s.decode_s}

"""Why nothing can be done, and the smallest change that would help: memory, SLO, rate, budget, in this
order."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cluster_configs.schema import ResolvedCluster
from model_zoo.derive import total_params, weight_bytes
from model_zoo.schema import WEIGHT_BYTES, ModelCard, MoeFfn
from planner.candidates.generate import ENGINES, Pool
from planner.candidates.points import Setup, batched, prefilling
from planner.cost.precision import precisions
from planner.device_rules import why_unsupported
from planner.errors import Infeasible, MeshwrightError, OutOfTime
from planner.inputs.options import Budget, Options
from planner.inputs.workload import Slo
from planner.plans.assemble import Found
from planner.search import Question
from solvers import fleet
from solvers.linear import Limits

MOST_NODES = 4096
"""Where the search for enough nodes ends."""


@dataclass(frozen=True)
class Tightest:
    """The quickest any design answers, one request at a time: seconds as the cautious prediction has them."""

    ttft_s: float
    tpot_s: float
    design: str


def tightest(pool: Pool, slo: Slo) -> Tightest | None:
    """Of all designs that fit: the one that comes nearest to the SLO with a single sequence in the batch."""
    best: tuple[float, Tightest] | None = None
    for (node, engine), s in pool.setups.items():
        there = s.designs.gpus <= s.model.node_class.gpus
        fits = np.flatnonzero((s.memory.kv_bytes > 0) & there)
        if len(fits) == 0:
            continue
        ttft, tpot = quickest(s, fits)
        far = np.maximum(1e3 * ttft / (slo.ttft_ms or np.inf), 1e3 * tpot / (slo.tpot_ms or np.inf))
        i = int(np.argmin(far + 1e-9 * (ttft + tpot)))
        if best is None or far[i] < best[0]:
            d = s.designs.take(fits[i : i + 1])
            name = f"tp{d.tp[0]} pp{d.pp[0]}" + (f" dp{d.attn_dp[0]}" if d.attn_dp[0] > 1 else "")
            best = (
                float(far[i]),
                Tightest(float(ttft[i]), float(tpot[i]), f"{name} on {node} with {engine}"),
            )
    return best[1] if best else None


def quickest(s: Setup, fits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """TTFT and TPOT (n,) with one sequence in the batch, the slowest bucket's."""
    if s.mix.steps == 0:
        points = prefilling(s, fits, np.array([0.05]))
        return points.ttft_s.max(axis=1) * s.caution[0], np.zeros(len(fits))
    points = batched(s, fits, np.ones(len(fits)), "mixed")
    return points.ttft_s.max(axis=1) * s.caution[0], points.tpot_s.max(axis=1) * s.caution[1]


def too_slow(near: Tightest, slo: Slo) -> Infeasible:
    """An SLO that was asked for and that nothing meets."""
    missed = []
    if slo.ttft_ms is not None and near.ttft_s * 1e3 > slo.ttft_ms:
        missed.append(("TTFT", "--ttft-ms", near.ttft_s * 1e3, slo.ttft_ms))
    if slo.tpot_ms is not None and near.tpot_s * 1e3 > slo.tpot_ms:
        missed.append(("TPOT", "--tpot-ms", near.tpot_s * 1e3, slo.tpot_ms))
    if not missed:
        return Infeasible(
            "no replica design serves every bucket within the SLO", hint="loosen the SLO, or add GPUs"
        )
    what = " and ".join(f"{n} {asked:g} ms (best {best:.4g} ms)" for n, _, best, asked in missed)
    hint = " ".join(f"{option} {ceil_to(best)}" for _, option, best, _ in missed)
    return Infeasible(
        f"no replica design keeps {what}; the nearest is {near.design}, one request at a time", hint=hint
    )


def ceil_to(x: float) -> str:
    """Rounded up to three digits.

    >>> ceil_to(11.231), ceil_to(2031.2)
    ('11.3', '2040')
    """
    step = 10.0 ** (np.floor(np.log10(x)) - 2)
    return f"{np.ceil(x / step) * step:g}"


def explain(question: Question, pool: Pool, found: Found, limits: Limits) -> MeshwrightError:
    """Candidates exist but no fleet: the rate is too high, or a budget too small."""
    if found.solution.status == "time_limit":
        return OutOfTime(
            "time limit reached before any plan was found", hint="--time-limit with more seconds"
        )
    free = replace(question, budget=Budget())
    within = found.problem
    unbounded = replace(within, budget={})
    rate = question.traffic.rate_rps
    if rate is None:
        smallest = min(c.gpus for c in pool.candidates)
        return Infeasible(
            f"the budget does not pay for a single replica (the smallest takes {smallest} GPUs)",
            hint=_budget_hint(replace(free, objective="gpus"), unbounded, question, limits),
        )
    most = fleet.solve(replace(within, objective="throughput", demand=None), limits)
    ceiling = most.objective or 0.0
    hints = [f"--rate {_floor_to(ceiling)}"] if ceiling > 0 else []
    budgeted = (
        bool(within.budget)
        and fleet.solve(replace(unbounded, objective="gpus"), limits).objective is not None
    )
    if budgeted:
        hints.append(_budget_hint(free, unbounded, question, limits))
    else:
        hints += _more_nodes(replace(within, budget={}), limits)
    reason = "within the budget" if budgeted else "by these nodes within the SLO"
    return Infeasible(
        f"{rate:g} req/s cannot be served {reason}: at most {ceiling:.4g} req/s", hint=" or ".join(hints)
    )


def _floor_to(x: float) -> str:
    step = 10.0 ** (np.floor(np.log10(x)) - 2)
    return f"{np.floor(x / step) * step:g}"


def _budget_hint(free: Question, unbounded: fleet.FleetProblem, question: Question, limits: Limits) -> str:
    """The least of each asked budget that would do, one at a time."""
    objective_of = {"usd_per_hour": "cost", "watts": "energy", "gpus": "gpus"}
    parts = []
    demand = free.traffic.rate_rps or 1e-6
    for name in question.state(()).budget:
        # type: ignore[arg-type]
        s = fleet.solve(replace(unbounded, objective=objective_of[name], demand=demand), limits)
        if s.objective is not None:
            parts.append(f"{name}={ceil_to(s.objective) if name != 'gpus' else round(s.objective)}")
    return "--budget " + ",".join(parts) if parts else "a larger budget"


def _more_nodes(problem: fleet.FleetProblem, limits: Limits) -> list[str]:
    """For each class the fewest more nodes that carry the load alone with what is there."""
    quick = replace(limits, gap=0.5, seconds=min(limits.seconds, 5.0))
    found: list[tuple[int, str]] = []
    for g, stock in problem.stocks.items():
        low, high = 0, 1
        while high <= MOST_NODES and not _carries(problem, g, stock.nodes + high, quick):
            low, high = high, 2 * high
        if high > MOST_NODES:
            continue
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if _carries(problem, g, stock.nodes + middle, quick) else (middle, high)
        found.append((high, f"{high} more node{'s' if high > 1 else ''} of {g}"))
    return [text for _, text in sorted(found)[:2]]


def _carries(problem: fleet.FleetProblem, g: str, nodes: int, limits: Limits) -> bool:
    stock = replace(problem.stocks[g], nodes=nodes)
    s = fleet.solve(replace(problem, stocks={**problem.stocks, g: stock}, objective="gpus"), limits)
    return s.objective is not None


def does_not_fit(cluster: ResolvedCluster, card: ModelCard, options: Options, pool: Pool) -> Infeasible:
    """No design's weights fit, or no engine runs the model here."""
    if not pool.setups:
        used = precisions(card, options.precision, options.kv_precision)
        engines = ENGINES if options.engine == "any" else (options.engine,)
        moe = any(isinstance(ffn, MoeFfn) for ffn in card.ffns.values())
        reasons = {why_unsupported(n.device, e, used, moe) for n in cluster.classes for e in engines} - {None}
        listed = "; ".join(sorted(str(r) for r in reasons)[:3])
        return Infeasible(
            f"no engine serves {card.name} as {used.gemm} on these devices: {listed}",
            hint="another checkpoint, or --precision",
        )
    short = min(
        float(-s.memory.kv_bytes[s.designs.gpus <= s.model.node_class.gpus].max())
        for s in pool.setups.values()
    )
    return Infeasible(
        f"{card.name} does not fit on any replica these nodes can form: at best {short / 1e9:.3g} GB a GPU are missing",
        hint=_smallest_fit(cluster, card, options),
    )


def _smallest_fit(cluster: ResolvedCluster, card: ModelCard, options: Options) -> str:
    """How many nodes of a class would hold the model, as they are or at a lower precision."""
    used = precisions(card, options.precision, options.kv_precision)
    need = (
        sum(weight_bytes(card).values())
        if options.precision is None
        else total_params(card) * WEIGHT_BYTES[used.gemm]
    )
    parts = []
    for node in cluster.classes:
        room = 0.85 * node.device.memory_gb * 1e9 * node.gpus_per_node
        parts.append(f"about {int(-(-need // room))} nodes of {node.gpus_per_node} {node.device.name}")
    lower = (
        ""
        if used.gemm in ("int4_wo", "nvfp4", "mxfp4")
        else ", or a checkpoint of lower precision (--precision fp8 or int4_wo)"
    )
    return f"{' or '.join(parts[:3])}{lower}; `meshwright fit` shows each layout"

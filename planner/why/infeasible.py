"""Why nothing can be done, and the smallest change that would help: here the model that does not fit and the
SLO that nothing keeps; rates and budgets in `shortage`."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice, product

import numpy as np

from cluster_configs.schema import NodeClass, ResolvedCluster
from model_zoo.schema import ModelCard
from planner.candidates.ask import Ask
from planner.candidates.candidate import Key, stages_in_words
from planner.candidates.largest import SELDOM, one_at_a_time
from planner.candidates.mix import Mix
from planner.candidates.points import Points, batched, prefilling
from planner.candidates.setup import Setup
from planner.cost.power import LEAST_SHARE
from planner.designs.precision import precisions
from planner.designs.shape import Floats, Ints
from planner.engines import NAMES
from planner.errors import Infeasible, OutOfTime
from planner.fit import fits
from planner.inputs.options import Options
from planner.inputs.workload import LIMITS, Slo
from planner.problems.ways import route
from planner.replicas.pool import Pool
from planner.rules.devices import picks_entries, why_unsupported
from planner.why.rounding import ceil_to

QUIET = 0.1
"""How busy a server that only prefills is where a limit on its TTFT that was asked for is looked at."""

MODEST = 0.5
"""How busy a server that only prefills is where a limit that nobody asked for is relaxed: half."""

FEWER = (1.0, 0.5, 0.25, SELDOM)
"""Requests at a time, on average, that random arrivals may be: of one there are often two, for which a server
may have no room."""

OTHER_PRECISIONS = ("bf16", "fp8", "int4_wo")
"""Tried where no engine serves the checkpoint's own, best quality first."""

LOOSER = tuple(1.05**step for step in range(34))
"""Times the tightest limits, up to five, of which the first that carries the rate asked for is looked for."""

Carries = Callable[[Slo], bool]
"""Whether some fleet carries the rate asked for within an SLO."""


@dataclass(frozen=True)
class Tightest:
    """The quickest any design answers, one request at a time: seconds as the cautious prediction has them."""

    ttft_s: float
    tpot_s: float
    design: str

    def missed(self, slo: Slo) -> dict[str, float]:
        """Milliseconds that it reaches, of each limit that it misses."""
        reached = dict(zip(LIMITS, (1e3 * self.ttft_s, 1e3 * self.tpot_s), strict=True))
        return {name: reached[name] for name, limit in slo.limits.items() if reached[name] > limit}


def tightest(pool: Pool, slo: Slo, asked: Collection[str] = ()) -> Tightest | None:
    """The design nearest to the SLO, of all that stand here and hold one request of every bucket.

    Limits named in `asked` ("ttft_ms", "tpot_ms") come first, the others may be relaxed. None: nothing fits.
    """
    best: tuple[tuple[float, float], Tightest] | None = None
    for key, made in pool.made.items():
        if key.level:
            continue
        s = made.setup
        fit = standing(s)
        ttft, tpot = quickest(s, fit, QUIET if "ttft_ms" in asked else MODEST)
        known = np.isfinite(ttft) & np.isfinite(tpot)
        fit, ttft, tpot = fit[known], ttft[known], tpot[known]
        if len(fit) == 0:
            continue
        over = {
            name: np.maximum(1e3 * seconds / slo.limits.get(name, np.inf), 1.0)
            for name, seconds in zip(LIMITS, (ttft, tpot), strict=True)
        }
        firm = np.maximum.reduce([np.ones(len(fit)), *(over[name] for name in asked)])
        far = np.maximum(*over.values()) + 1e-9 * (ttft + tpot)
        i = min(range(len(fit)), key=lambda k: (firm[k], far[k]))
        if best is None or (firm[i], far[i]) < best[0]:
            found = Tightest(
                float(ttft[i]), float(tpot[i]), f"{layout(s, fit[i], key.where)} with {key.engine}"
            )
            best = (float(firm[i]), float(far[i])), found
    return best[1] if best else None


def standing(s: Setup) -> Ints:
    """Designs with room for a request of every bucket, on the nodes there are (a setup also has those of one
    node more)."""
    here = s.designs.gpus <= s.model.most_gpus
    return np.flatnonzero(s.holds["mixed"].all(axis=1) & here)


def quickest(s: Setup, index: Ints, level: float = QUIET) -> tuple[Floats, Floats]:
    """TTFT and TPOT (n,) with one request at a time, the slowest bucket's; infinite where not even that finds
    room. `level`: how busy a server is that only prefills."""
    caution = s.caution("mixed")[:, index]
    if s.mix.steps == 0:
        points = prefilling(s, index, np.full(len(index), level))
        return _held(s, points, points.ttft_s.max(axis=1) * caution[0]), np.zeros(len(index))
    ttft = tpot = np.full(len(index), np.inf)
    for load in FEWER if s.promise.loop == "open" else FEWER[:1]:
        points = batched(s, index, load * one_at_a_time(s, index), "mixed")
        held = _held(s, points, points.ttft_s.max(axis=1) * caution[0])
        tpot = np.where(np.isfinite(ttft), tpot, points.tpot_s.max(axis=1) * caution[1])
        ttft = np.where(np.isfinite(ttft), ttft, held)
    return ttft, tpot


def _held(s: Setup, points: Points, seconds: Floats) -> Floats:
    """`seconds`, infinite where the cache of what is in flight finds no room."""
    return np.where(points.rate * (points.kv_share @ s.mix.share) <= 1.0, seconds, np.inf)


def _ms(x: float) -> str:
    """Four digits, never as a power of ten."""
    return f"{x:.4g}" if x < 1e4 else f"{x:,.0f}"


def layout(s: Setup, k: int, node: str) -> str:
    """Design `k` in words."""
    d = s.designs
    if s.model.stagings:
        return stages_in_words(s.model.stagings[k])
    sizes = {"tp": d.tp[k], "pp": d.pp[k], "dp": d.attn_dp[k], "cp": d.cp[k], "ep": d.ep[k]}
    return (" ".join(f"{name}{size}" for name, size in sizes.items() if size > 1) or "tp1") + f" on {node}"


def longer(slo: Slo, limits: Mapping[str, float], times: float) -> Slo:
    """`slo` with these limits so many times as long, rounded up."""
    return slo.model_copy(update={k: float(ceil_to(times * v)) for k, v in limits.items()})


def loosened(near: Tightest, slo: Slo, carries: Carries | None = None) -> Slo | None:
    """`slo` with the limits that `near` misses set to what it reaches, and so much more that `carries` holds;
    None where LOOSER is not enough. Without `carries` one request at a time is enough."""
    missed = near.missed(slo)
    trials = [longer(slo, missed, times) for times in LOOSER]
    if carries is None:
        return trials[0]
    first = bisect_left(trials, True, key=carries)  # looser limits carry all that tighter ones do
    return trials[first] if first < len(trials) else None


def too_slow(near: Tightest, slo: Slo, carries: Carries | None = None) -> Infeasible:
    """An SLO that was asked for and that nothing meets. `carries`: as in `loosened`, for the hint, which says
    so where that is not found in time."""
    missed = near.missed(slo)
    if not missed:
        return Infeasible(
            "no replica design serves every bucket within the SLO", hint="loosen the SLO, or add GPUs"
        )
    limits = {k: f"{k.removesuffix('_ms').upper()} {getattr(slo, k):g} ms" for k in missed}
    what = " and ".join(f"{limits[k]} (best {_ms(missed[k])} ms)" for k in missed)
    enough, more = None, ", or more for the rate asked for"
    with suppress(OutOfTime):  # that nothing keeps the SLO is proven, time for a hint or not
        enough = loosened(near, slo, carries)
        if enough is None and carries and not carries(slo.model_copy(update=dict.fromkeys(missed))):
            more = ", and a lower --rate or more nodes"
    least = enough or loosened(near, slo)
    hint = " ".join(f"--{k.replace('_', '-')} {getattr(least, k):g}" for k in missed)
    hint += "" if enough else more
    return Infeasible(
        f"no replica design keeps {what}; the nearest is {near.design}, one request at a time", hint=hint
    )


def capped(cluster: ResolvedCluster) -> Infeasible | None:
    """Where nodes have so few watts that how fast their GPUs are then is not known: the cap of one of them;
    else None."""
    for node in cluster.classes:
        least = LEAST_SHARE * node.device.tdp_watts * node.gpus_per_node
        if node.power_cap_watts is not None and node.power_cap_watts < least:
            few = f"{node.power_cap_watts:g} W for the {node.gpus_per_node} x {node.device.name} of a node"
            hint = f"`power_cap_watts: {ceil_to(least)}` or more: it is what all GPUs of a node may draw"
            return Infeasible(
                f"no replica design keeps the SLO and the power cap of `{node.id}`: {few}", hint=hint
            )
    return None


def does_not_fit(
    cluster: ResolvedCluster, card: ModelCard, options: Options, pool: Pool, asked: Ask | None = None
) -> Infeasible:
    """No engine runs the model here, or weights and the cache of one request find no room. With `asked` host
    memory is looked at, too."""
    if not pool.made:
        return _unsupported(cluster, card, options)
    mix = next(made.setup.mix for made in pool.made.values())
    tokens = min(int((mix.isl + mix.osl).max()), card.max_context)
    ask = fits.Ask(card, tokens, options.precision, options.kv_precision, options.engine)
    found = fits.fit(ask, cluster)
    beside, remedies = "", list[str]()
    if asked:
        from planner.why import shortage_of_memory  # here, not above: only for what is infeasible

        look = shortage_of_memory.Look(cluster.classes, cluster.links, asked)
        said = shortage_of_memory.missing(look)
        beside, remedies = f"; {said}" if said else "", list(shortage_of_memory.remedies(look, options))
    found = replace(found, changes=(*_in_prompts(found, mix), *remedies))
    lent = _lent(cluster, pool)
    if found.fits:
        text = f"no replica of {card.name} has room for one request of {tokens:,} tokens on these nodes"
        return Infeasible(text + lent, hint="add GPUs, or shorten the requests")
    short = fits.infeasible(found, "these nodes")
    return Infeasible(short.message + beside + lent, hint=short.hint)


def _lent(cluster: ResolvedCluster, pool: Pool) -> str:
    """The fewest replicas of one engine, all with the model's weights, whose cache together holds the longest
    request, in words; nothing where none do. No engine puts one request's cache into several replicas."""
    best: tuple[int, str] | None = None
    for engine in sorted({key.engine for key in pool.made}):
        rooms = [
            room
            for node in cluster.classes
            if (made := pool.made.get(Key(node.id, engine)))
            and all(_joined(node, b, cluster) for b in cluster.classes)
            for room in _rooms(made.setup, node)
        ]
        need, held, said = 1.0, 0.0, list[str]()
        for share, words in sorted(rooms, reverse=True):
            held += share
            said.append(words)
            if held >= need:
                break
        if held >= need and len(said) > 1 and (best is None or len(said) < best[0]):
            best = len(said), f"{' + '.join(sorted(set(said)))} with {engine}"
    if best is None:
        return ""
    return f"; it fits with borrowed memory of {best[0]} replicas ({best[1]}): no stock engine starts that"


def _joined(a: NodeClass, b: NodeClass, cluster: ResolvedCluster) -> bool:
    return route(a, b, cluster) is not None


def _rooms(s: Setup, node: NodeClass) -> list[tuple[float, str]]:
    """Replicas of the class, of the design whose room is most in all: the share of the longest request that
    each holds, and what it is."""
    index = np.flatnonzero((s.memory.kv_bytes > 0) & (s.designs.gpus <= s.model.most_gpus))
    if not len(index) or s.model.stagings:
        return []
    need = s.model.cache_bytes(s.designs, (s.mix.new + s.mix.osl).max(keepdims=True), s.memory.stage)
    share = s.memory.kv_bytes[index] / need[index, 0]
    times = node.gpus // s.designs.gpus[index]
    i = int(np.argmax(share * times))
    return [(float(share[i]), layout(s, int(index[i]), node.id))] * int(times[i])


def _in_prompts(found: fits.Fit, mix: Mix) -> Iterator[str]:
    """What would help, a shorter context said as the prompt that leaves room for the answer."""
    longest = max((row.max_context for c in found.classes for row in c.rows), default=0)
    prompt = int((longest - mix.osl[0]) * mix.isl[0] / mix.new[0])
    for change in found.changes:
        if "--isl" not in change:
            yield change
        elif len(mix.isl) == 1 and prompt > 0:
            yield f"prompts of at most {prompt:,} tokens (--isl {prompt})"


def _unsupported(cluster: ResolvedCluster, card: ModelCard, options: Options) -> Infeasible:
    used = precisions(card, options.precision, options.kv_precision)
    engines = NAMES if options.engine == "any" else (options.engine,)
    moe = card.moe
    told = [(n.device, e, used, moe, picks_entries(card)) for n in cluster.classes for e in engines]
    reasons = {why_unsupported(*each) for each in told} - {None}
    listed = "; ".join(sorted(map(str, reasons), key=lambda r: ("does not run" in r, r))[:3])
    held = (
        used.gemm if used.experts == used.gemm or not moe else f"{used.gemm} with experts in {used.experts}"
    )
    ask = fits.Ask(card, None, options.precision, options.kv_precision, options.engine)
    hints = [f"--engine {e}" for e in NAMES if fits.fit(replace(ask, engine=e), cluster).fits][:1]
    others = product((None, *OTHER_PRECISIONS), (None, "bf16"))
    runs = (o for o in others if any(o) and fits.fit(replace(ask, weights=o[0], kv=o[1]), cluster).fits)
    for weights, kv in islice(runs, 1):
        words = {"--precision": weights, "--kv-precision": kv}
        hints.append(" ".join(f"{option} {value}" for option, value in words.items() if value))
    return Infeasible(
        f"no engine serves {card.name} in {held} on these devices: {listed}",
        hint=" or ".join(hints) or "another checkpoint, or other devices",
    )

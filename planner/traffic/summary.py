"""A trace as a workload that keeps the cost: buckets of lengths, the rate by slot, bursts, what returns.

Buckets are as few as keep what a server does for the requests. In a linear step a request takes

    prompt = isl     pairs = isl isl / 2     steps = osl - 1     context = (osl - 1) (isl + osl / 2)

of its time; a bucket stands for its requests by their mean lengths, which keep the first and the third
exactly. What it loses of the second and fourth (they are not linear in the lengths) is the loss of bucketing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from planner.errors import InputError
from planner.inputs.reuse import Idle
from planner.inputs.trace_columns import Floats, Ints
from planner.inputs.trace_workload import buckets_of, idle_of
from planner.inputs.traces import Trace
from planner.inputs.traffic import Dispersion, Traffic
from planner.inputs.workload import Bucket, Slo, Workload
from planner.reading.figures import rounded
from planner.traffic.lindley import SHARES, WAITING, needed_by_slot, tokens

WINDOWS_S = (1.0, 10.0, 60.0, 600.0)
"""Windows in which requests are counted."""

FEWEST_WINDOWS = 20
"""Below so many a variance says little."""

LOSS = 0.02
"""Of pairs and of context, that buckets may lose."""

MOST_BUCKETS = 12

MOST_LENGTHS = 1_000_000
"""Requests whose lengths are looked at."""

MOST_SLOTS, MOST_RPS = 100_000, 1e9
"""That a workload takes."""


@dataclass(frozen=True)
class Summary:
    """A workload, and the shares of quadratic work that its buckets lose: `pairs` of prompts, `context` of
    decode steps."""

    workload: Workload
    pairs_lost: float
    context_lost: float


def summary(trace: Trace, name: str, slot_s: float | None, slo: Slo) -> Summary:
    """`trace` as a workload called `name`; its `rate_rps` is that of the busiest slot. Lengths of many are
    those of evenly many of them."""
    all_, trace = trace, thinned(trace)
    found, which = buckets_of(trace)
    idle = idle_of(trace, which)
    if idle is None:  # nothing is found again: buckets may part where that keeps the cost
        which = parted(trace)
        found, which = _means(trace, which)
    traffic = queued(traffic_of(all_, slot_s, which), all_, slo)
    workload = Workload(
        name=name,
        buckets=found,
        rate_rps=max(traffic.rate_rps),
        slo=slo,
        max_osl=int(all_.osl.max()),
        idle=idle,
        traffic=traffic,
    )
    return Summary(workload, *lost(trace, which))


def thinned(trace: Trace) -> Trace:
    """Every so many requests of a trace of more than `MOST_LENGTHS` that names no blocks."""
    every = _every(len(trace))
    if len(every) == len(trace) or trace.block_tokens:
        return trace
    return replace(trace, arrival_s=trace.arrival_s[every], isl=trace.isl[every], osl=trace.osl[every])


def _every(many: int) -> Ints:
    """Indices of at most `MOST_LENGTHS` of so many, evenly spread."""
    return np.arange(0, many, max(-(-many // MOST_LENGTHS), 1))


def parted(trace: Trace) -> Ints:
    """The bucket of each request: one at first, then the one that loses most is cut in two where that loses
    least, until `LOSS` is kept."""
    which = np.zeros(len(trace), dtype=np.int64)
    while max(lost(trace, which)) > LOSS and int(which.max()) + 1 < MOST_BUCKETS:
        own = np.bincount(which, weights=_lost_each(trace, which))
        worst = int(own.argmax())
        inside = np.flatnonzero(which == worst)
        halves = [h for h in (_halved(trace.isl[inside]), _halved(trace.osl[inside])) if h is not None]
        if not halves:
            break
        trials = []
        for half in halves:
            trial = which.copy()
            trial[inside[half]] = int(which.max()) + 1
            trials.append((sum(lost(trace, trial)), trial))
        which = min(trials, key=lambda pair: pair[0])[1]
    return which


def _halved(lengths: Ints) -> np.ndarray | None:
    """Which are the longer ones: beyond the middle in tokens; None where all are alike."""
    order = np.sort(lengths)
    if order[0] == order[-1]:
        return None
    middle = order[np.searchsorted(np.cumsum(order), order.sum() / 2)]
    longer = lengths >= middle if middle > order[0] else lengths > middle
    return np.asarray(longer)


def _quadratic(isl: Floats, osl: Floats) -> tuple[Floats, Floats]:
    """Pairs of a prompt's tokens, and context of all decode steps."""
    return isl**2 / 2, (osl - 1) * (isl + osl / 2)


def lost(trace: Trace, which: Ints) -> tuple[float, float]:
    """Shares of all pairs and of all context that buckets' mean lengths lose."""
    isl, osl = trace.isl.astype(float), trace.osl.astype(float)
    count = np.bincount(which)
    means = [np.bincount(which, weights=x) / count for x in (isl, osl)]
    whole = [float(x.sum()) for x in _quadratic(isl, osl)]
    kept = [float(x @ count) for x in _quadratic(*means)]
    pairs, context = (abs(1 - k / w) if w else 0.0 for k, w in zip(kept, whole, strict=True))
    return pairs, context


def _lost_each(trace: Trace, which: Ints) -> Floats:
    """What each request adds to what is lost, as shares: how far it is from its bucket's mean lengths."""
    isl, osl = trace.isl.astype(float), trace.osl.astype(float)
    count = np.bincount(which)
    mean_isl, mean_osl = (np.bincount(which, weights=x) / count for x in (isl, osl))
    far_isl, far_osl = isl - mean_isl[which], osl - mean_osl[which]
    pairs, context = (max(float(x.sum()), 1e-12) for x in _quadratic(isl, osl))
    return np.asarray(far_isl**2 / 2 / pairs + np.abs(far_osl * (far_isl + far_osl / 2)) / context)


def _means(trace: Trace, which: Ints) -> tuple[list[Bucket], Ints]:
    """Buckets by length, and that of each request."""
    found = []
    for i in range(int(which.max()) + 1):
        own = which == i
        isl, osl = (max(round(float(x[own].mean())), 1) for x in (trace.isl, trace.osl))
        found.append(Bucket(isl=isl, osl=osl, share=float(own.mean())))
    order = sorted(range(len(found)), key=lambda i: (found[i].isl, found[i].osl))
    return [found[i] for i in order], np.argsort(order)[which]


def traffic_of(trace: Trace, slot_s: float | None, which: Ints | None = None) -> Traffic:
    """The trace's rate by slot (an hour, a tenth of shorter traces), busiest minutes, bursts, and the shares
    of the buckets in each slot (`which` bucket each request is of). Where the trace ends in the first half of
    a slot, the one before is that much longer. Raises InputError: too many slots, too high a rate."""
    slot = slot_s or slot_of(trace.span_s)
    slots = max(round(trace.span_s / slot), 1)
    if slots > MOST_SLOTS or len(trace) > MOST_RPS * trace.span_s:
        text = f"{len(trace):,} requests in {trace.span_s:.3g} s, {slots:,} slots of {slot:g} s"
        most = f"at most {MOST_SLOTS:,} slots and {MOST_RPS:g} requests/s are told"
        raise InputError(f"{text}: {most}", trace.path, "are its times in seconds? if so, a longer --slot")
    at = np.minimum((trace.arrival_s / slot).astype(int), slots - 1)
    lengths = np.full(slots, slot)
    lengths[-1] = trace.span_s - slot * (slots - 1)
    rates = np.bincount(at, minlength=slots) / lengths
    indices = {w: dispersion(trace.arrival_s, trace.span_s, w, slot) for w in WINDOWS_S}
    spread = [Dispersion(window_s=w, index=_rounded(i)) for w, i in indices.items() if i is not None]
    peaks = _peaks(trace, slot, slots, rates)
    rates = [_rounded(r) for r in rates]
    if which is None or slots < 2 or which.max() == 0:
        shares = []
    else:
        at = at if len(which) == len(at) else at[_every(len(at))]
        shares = _shares(at, which, np.bincount(at, minlength=slots))
    return Traffic(slot_s=slot, rate_rps=rates, peak_rps=peaks, dispersion=spread, shares=shares)


def queued(traffic: Traffic, trace: Trace, slo: Slo) -> Traffic:
    """With the rate that the queue of each slot needs for the limit on TTFT, not below its mean; without
    one, or for a mean, there is none."""
    if slo.ttft_ms is None or slo.percentile == "mean":
        return traffic
    ends, wait_s = traffic.slot_s * np.arange(1.0, len(traffic.rate_rps) + 1), WAITING * slo.ttft_ms / 1e3
    work = tokens(trace.isl, trace.osl)
    found = needed_by_slot(trace.arrival_s, work, ends, wait_s, SHARES[slo.percentile])
    most = [_rounded(max(q, r)) for q, r in zip(found, traffic.rate_rps, strict=True)]
    return traffic.model_copy(update={"needed_rps": most})


def _shares(at: Ints, which: Ints, counts: Ints) -> list[list[float]]:
    """Of each bucket, by slot (slots, w); those of all requests in slots with none."""
    w = int(which.max()) + 1
    each = np.bincount(at * w + which, minlength=len(counts) * w).reshape(len(counts), w).astype(float)
    each[counts == 0] = np.bincount(which, minlength=w)
    each /= each.sum(axis=1, keepdims=True)
    return [[round(float(x), 5) for x in row] for row in each]


def slot_of(span_s: float) -> float:
    """An hour, or a round tenth of what is shorter.

    >>> slot_of(86_400), slot_of(3_500), slot_of(60)
    (3600.0, 300.0, 6.0)
    """
    if span_s >= 6 * 3600:
        return 3600.0
    steps = (1.0, 2.0, 3.0, 6.0, 10.0, 30.0, 60.0, 300.0, 600.0, 1800.0)
    return max([s for s in steps if s <= max(span_s / 10, 1.0)])


def dispersion(arrival_s: Floats, span_s: float, window_s: float, slot_s: float) -> float | None:
    """Variance over mean of counts in windows, around the mean of their slot; None where there are too few
    windows."""
    windows = int(span_s / window_s)
    each = max(int(slot_s / window_s), 1)
    if windows < FEWEST_WINDOWS or each < 2:
        return None
    counts = np.bincount((arrival_s / window_s).astype(int), minlength=windows)[:windows].astype(float)
    which = np.arange(windows) // each
    sums, sizes = np.bincount(which, weights=counts), np.bincount(which)
    off = counts - (sums / sizes)[which]
    free = windows - len(sizes)
    return float((off**2).sum() / free / max(counts.mean(), 1e-12)) if free > 0 else None


def _peaks(trace: Trace, slot_s: float, slots: int, rates: Floats) -> list[float]:
    """Requests/s of the busiest minute of each slot; none for slots shorter than two minutes."""
    if slot_s < 120:
        return []
    minutes = (trace.arrival_s / 60).astype(int)
    counts = np.bincount(minutes) / 60
    of_slot = np.minimum((np.arange(len(counts)) * 60 / slot_s).astype(int), slots - 1)
    top = np.zeros(slots)
    np.maximum.at(top, of_slot, counts)
    return [_rounded(max(float(t), float(r))) for t, r in zip(top, rates, strict=True)]


_rounded = partial(rounded, digits=6)
"""To what a trace knows."""


def _rising(idle: Idle) -> Idle:
    """Classes of age whose ends differ in the digits that are written, each with all that was in those which
    do not."""
    ends = [_rounded(x) for x in idle.ages_s]
    ages = sorted(set(ends))

    def joined(row: Sequence[float]) -> list[float]:
        return [float(x) for x in np.bincount([ages.index(end) for end in ends], weights=row)]

    kinds = [k.model_copy(update={"back": joined(k.back)}) for k in idle.kinds]
    return Idle(ages_s=ages, kinds=kinds, hits=[joined(row) for row in idle.hits])


def document(found: Workload) -> dict[str, object]:
    """The workload as its YAML has it: nothing that says nothing, and of figures that were counted the digits
    that a trace knows."""
    told = found.model_dump(exclude_none=True)
    told["buckets"] = _rounded(told["buckets"])
    if found.idle is not None:
        told["idle"] = _rounded(_rising(found.idle).model_dump(exclude_none=True))
    for name in ("reuse", "prefix_hit"):
        if not told.get(name):
            told.pop(name, None)
    slo: dict[str, object] = told["slo"]
    told["slo"] = {name: slo.get(name, "none") for name in ("ttft_ms", "tpot_ms")} | {
        "percentile": slo["percentile"]
    }
    return told

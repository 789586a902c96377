"""From a benchmark's own words to a row of the `predict` table: what was served, and under which load.

The load is a closed loop of `concurrency` requests in flight. Little's law says how many there were on
average,

    in flight = completed requests/s x mean latency,

which is the concurrency of a run that says none, and the proof of one that does: figures in wrong units, or
slots that stood empty, do not agree with it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import PurePath

from cluster_configs import devices
from planner.errors import InputError
from planner.inputs.numbers import POSITIVE, number
from planner.predict.predictions import find_model
from planner.predict.rows import Row

COLUMNS = tuple(column.name for column in fields(Row))
"""Of the `predict` table (contracts.md, Tables)."""

NEEDED = ("model", "device", "engine", "tp")
"""Columns that have no harmless default: a file or an option must say them."""

FAILED_SHARE = 0.05
"""More failed requests than this, and the others did not run under the load that was asked."""

FULL = (0.5, 1.3)
"""Requests in flight by Little's law over the concurrency asked: below, slots stood empty much of the time;
above, it cannot be (mean lengths times mean TPOT is off by some 20 % where both vary)."""

STEADY_SHARE = 0.8
"""Of the asked rate, what must have been completed; else the queue grew, or the run was mostly its end."""

ROUNDS = 2
"""Requests a slot, at least, for a TTFT that is more than the crowd at the start."""


@dataclass(frozen=True)
class Measurement:
    """One measured row: `cells` by column of the `predict` table, blank ones left out.

    `ttft_ms` and `tpot_ms` are means, None where not measured; `note`: what was read between the lines.
    """

    cells: dict[str, str]
    ttft_ms: float | None
    tpot_ms: float | None
    where: str
    note: str = ""


@dataclass(frozen=True)
class Run:
    """One run as its file tells it; None: it does not say. Times in ms, rates in requests/s over all
    replicas.

    `told` columns win over options, options over `guessed` ones. `cap` and `asked_rps` are infinite where the
    file says that there was none. `dp`: data-parallel ranks of one engine, attention dp of MoE models and
    replicas of dense ones.
    """

    told: Mapping[str, str]
    isl: float | None
    osl: float | None
    ttft_ms: float | None
    tpot_ms: float | None
    guessed: Mapping[str, str] = field(default_factory=dict)
    latency_ms: float | None = None
    rps: float | None = None
    completed: float | None = None
    failed: float = 0.0
    cap: float | None = None
    asked_rps: float | None = None
    replicas: int = 1
    dp: int = 1
    shares_prefix: bool = False
    notes: tuple[str, ...] = ()


def measurement(run: Run, where: str, given: Mapping[str, str]) -> Measurement:
    """The run as a row; `given`: cells from options. Raises InputError: what is missing or does not agree."""
    cells = {name: text for source in (run.guessed, given, run.told) for name, text in source.items() if text}
    cells["model"] = _model(run.told.get("model", ""), given.get("model", ""))
    cells["device"] = _device(run.told.get("device", ""), cells.get("device", ""), given.get("device", ""))
    for column in NEEDED:
        if not cells.get(column):
            hint = f"give it as an option, `--{column}`"
            raise InputError(f"the file does not say the `{column}`", hint=hint)
    _check_requests(run)
    if run.shares_prefix and not cells.get("prefix_hit"):
        raise InputError("its prompts share prefixes", hint="give the share found in the cache, `prefix_hit`")
    isl, osl = _length(run.isl, "isl", cells), _length(run.osl, "osl", cells)
    if run.dp > 1 and find_model(cells["model"]).moe:
        cells["attn_dp"] = str(run.dp)
    else:
        run = replace(run, replicas=run.replicas * run.dp)
    loop, note = concurrency(replace(run, isl=isl, osl=osl), cells.get("concurrency"))
    ttft, notes = run.ttft_ms, [*run.notes, *note]
    if ttft and run.completed and run.completed < ROUNDS * loop * run.replicas:
        ttft = None
        notes.append(f"TTFT left out: most of {run.completed:.0f} requests met at the start")
    load = {"isl": str(isl), "osl": str(osl), "concurrency": f"{loop:.6g}"}
    cells = {name: text for name, text in (cells | load).items() if name in COLUMNS and text}
    return Measurement(cells, ttft, run.tpot_ms if osl > 1 else None, where, "; ".join(notes))


def concurrency(run: Run, given: str | None = None) -> tuple[float, list[str]]:
    """Requests in flight on one replica, and notes on how it was found. Raises InputError.

    A request of an open loop of Poisson arrivals meets as many others as are in flight on average, in a
    closed loop one less than all: hence the one more.

    >>> run = Run({}, 1000, 101, ttft_ms=500, tpot_ms=20, rps=4.0, completed=400, asked_rps=4.1)
    >>> concurrency(run)  # 4 requests/s for 0.5 + 100 * 0.02 s each
    (11.0, ["open loop at 4.1 requests/s: 10 in flight by Little's law"])
    """
    found = _in_flight(run)
    cap = run.cap
    if cap is None and given:
        cap = number(given, "concurrency", "", POSITIVE) * run.replicas
    if run.asked_rps is not None and math.isfinite(run.asked_rps):
        if found is None or run.rps is None:
            raise InputError("an open loop whose file does not say how long requests took: no concurrency")
        if run.rps < STEADY_SHARE * run.asked_rps:
            asked = f"{run.asked_rps:.3g} requests/s were sent"
            hint = "measure at a lower rate, or for longer"
            raise InputError(f"no steady state: {asked}, {run.rps:.3g} completed", hint=hint)
        note = f"open loop at {run.asked_rps:.3g} requests/s: {found:.3g} in flight by Little's law"
        return min(found / run.replicas + 1, (cap or math.inf) / run.replicas), [note]
    if math.inf in (cap, run.asked_rps) and not math.isfinite(cap or math.inf):
        hint = "run it again with a maximum concurrency"
        raise InputError("all requests were sent at once: neither a closed loop nor a rate", hint=hint)
    if cap is not None:
        _check_full(found, cap)
        return cap / run.replicas, []
    if found is None:
        raise InputError("the file does not say the `concurrency`", hint="give it as an option")
    return found / run.replicas, [f"{found:.3g} in flight by Little's law"]


def _in_flight(run: Run) -> float | None:
    latency = run.latency_ms
    if latency is None and run.ttft_ms is not None and run.tpot_ms is not None and run.osl is not None:
        latency = run.ttft_ms + max(run.osl - 1, 0) * run.tpot_ms
    return None if latency is None or run.rps is None else run.rps * latency / 1e3


def _check_full(found: float | None, cap: float) -> None:
    """What Little's law finds against the concurrency asked. Raises InputError."""
    if found is None:
        return
    says = f"Little's law finds {found:.3g} requests in flight, not {cap:.0f}"
    if found > FULL[1] * cap:
        raise InputError(says, hint="are all times in the units that the file names?")
    if found < FULL[0] * cap:
        raise InputError(says, hint="send at least four requests a slot, from a client that keeps up")


def _check_requests(run: Run) -> None:
    if run.completed is not None and run.completed <= 0:
        raise InputError("no request was completed")
    sent = (run.completed or 0) + run.failed
    if run.failed > FAILED_SHARE * sent:
        raise InputError(f"{run.failed:.0f} of {sent:.0f} requests failed")


def _length(mean: float | None, name: str, cells: Mapping[str, str]) -> int:
    """Whole tokens of the mean request; an option stands in for what the file lacks. Raises InputError."""
    length = mean if mean is not None else cells.get(name)
    if not length:
        raise InputError(f"the file does not say the `{name}`", hint="give it as an option")
    return max(round(number(length, name, "", POSITIVE)), 1)


def _model(told: str, given: str) -> str:
    """The model under a name that the zoo knows: servers go by paths and names of their own. Raises
    InputError: file and option name different ones."""
    known = [name for name in (_spelled(told), _spelled(given)) if name]
    if len(known) == 2 and find_model(known[0]).name != find_model(known[1]).name:
        raise InputError(f"the file measured `{told}`, not `{given}`")
    return known[0] if known else told or given


def _spelled(name: str) -> str | None:
    """`name`, or the end of it where it is a path, as the zoo finds it."""
    for spelling in (name, PurePath(name).name):
        try:
            find_model(spelling)
        except InputError:
            continue
        return spelling
    return None


def _device(*names: str) -> str:
    """The first that the catalog knows; else the first at all, for the error."""
    for name in filter(None, names):
        try:
            return devices.find(name).name
        except InputError:
            continue
    return next(filter(None, names), "")

"""Workloads by preset name or file, with the options that override them; budgets from the command line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, Unpack, cast, get_args

from planner.errors import InputError, nearest, squash
from planner.inputs.numbers import COUNT, POSITIVE, TOKENS, Range, number, whole
from planner.inputs.options import Budget, Survive
from planner.inputs.presets import PRESETS
from planner.inputs.workload import LIMITS, Bucket, Loop, Percentile, Slo, Workload
from planner.reading.documents import Document, read
from planner.reading.units import plain
from planner.reading.validation import validate

_RATE = Range(high=1e9, open=True)
_PERCENT = Range(high=100, open=True)


@dataclass(frozen=True)
class _Asked:
    """A workload, and which of its values the user asked for ("slo.tpot_ms")."""

    workload: Workload
    values: frozenset[str]


class Given(TypedDict, total=False):
    """Options that override a workload; None: not given. Limits may be "none"; `isl` and `osl` hold for every
    bucket."""

    isl: int | None
    osl: int | None
    rate: float | None
    ttft_ms: float | str | None
    tpot_ms: float | str | None
    e2e_ms: float | str | None
    percentile: str | None
    loop: str | None


def read_workload(
    name_or_path: str | Path = "chat",
    **given: Unpack[Given],
) -> tuple[Workload, list[str]]:
    """The workload, options put over it, and what nobody asked for: a preset's figures, a file's gaps. Raises
    InputError.

    >>> workload, defaulted = read_workload("chat", isl=4096, tpot_ms="none")
    >>> workload.buckets[0].isl, workload.slo.tpot_ms, defaulted
    (4096, None, ['osl', 'slo.ttft_ms', 'slo.percentile'])
    """
    base = _find(name_or_path)
    told: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    workload = _with_lengths(base.workload, told.get("isl"), told.get("osl"))
    limits = [name for name in (*LIMITS, "e2e_ms") if name in told]
    slo: dict[str, Any] = {name: _limit(told[name], f"--{name.replace('_', '-')}") for name in limits}
    if "percentile" in told:
        slo["percentile"] = _percentile(told["percentile"])
    update: dict[str, Any] = {"slo": workload.slo.model_copy(update=slo)}
    if "rate" in told:
        update["rate_rps"] = number(told["rate"], "--rate", "--rate", _RATE, "requests a second")
    if "loop" in told:
        update["arrivals"] = _loop(told["loop"], update.get("rate_rps", workload.rate_rps))
    elif "rate" in told:
        update["arrivals"] = None
    asked = base.values | ({"isl", "osl"} & set(told)) | {f"slo.{key}" for key in slo}
    values = ["isl", "osl", *(f"slo.{key}" for key in Slo.model_fields if key != "e2e_ms")]
    return workload.model_copy(update=update), [value for value in values if value not in asked]


def _loop(told: str, rate: float | None) -> Loop:
    """How requests come where no rate is asked for. Raises InputError."""
    if told not in get_args(Loop):
        raise InputError(f"`{told}` is no loop", "--loop", "open: random arrivals; closed: always in flight")
    if told == "closed" and rate is not None:
        text = "a closed loop serves as much as it can, and has no rate"
        raise InputError(text, "--loop", "leave out --rate, or --loop closed")
    return cast("Loop", told)


def parse_budget(text: str | None) -> Budget:
    """Limits over the whole plan, "usd_per_hour=50,gpus=64,watts=20000". Raises InputError.

    >>> parse_budget("usd_per_hour=50, gpus=64")
    Budget(usd_per_hour=50.0, gpus=64, watts=None)
    """
    limits: dict[str, float] = {}
    for part in (text or "").split(",") if text is not None else []:
        key, equals, value = (piece.strip() for piece in (_in_units(part) or part).partition("="))
        if not equals or not key or not value:
            form = "write limits parted by commas: usd_per_hour=50,gpus=64,watts=20000"
            raise InputError(f"`{part.strip()}` in --budget is not NAME=NUMBER", "--budget", form)
        if key not in Budget.model_fields:
            known = list(Budget.model_fields)
            close = next((name for name in known if key in name), nearest(key, known, 1)[0])
            hint = f"did you mean `{close}`? limits: {', '.join(known)}"
            raise InputError(f"unknown limit `{key[:60]}`", "--budget", hint)
        if key in limits:
            raise InputError(f"limit `{key}` is given twice", "--budget")
        limits[key] = number(value, key, "--budget", COUNT if key == "gpus" else POSITIVE)
    return Budget.model_validate(limits)


_DOLLARS = re.compile(r"(?:\$|usd)?\s*([\d.,_]+)\s*(?:\$|usd|dollars?)?\s*(?:/|per )\s*h(?:r|our)?", re.I)
_GPUS = re.compile(r"([\d.,_]+)\s*gpus?", re.I)
_WATTS = re.compile(r"([\d.,_]+)\s*([km]?)w(?:atts?)?", re.I)


def _in_units(part: str) -> str | None:
    """A limit that is written with its unit as NAME=NUMBER; None where it is not.

    >>> [_in_units(text) for text in ("$5/h", "5 $/hour", "120kW", "64 GPUs", "gpus=4")]
    ['usd_per_hour=5', 'usd_per_hour=5', 'watts=120000', 'gpus=64', None]
    """
    if found := _DOLLARS.fullmatch(part.strip()):
        return f"usd_per_hour={found[1]}"
    if found := _GPUS.fullmatch(part.strip()):
        return f"gpus={found[1]}"
    found = _WATTS.fullmatch(part.strip())
    watts = plain(found[1]) if found else None
    if found is None or watts is None:
        return None
    return f"watts={watts * {'': 1, 'k': 1e3, 'm': 1e6}[found[2].lower()]:.12g}"


def parse_survive(text: str | int) -> Survive:
    """What is lost, and what the rest still serves: "node", "2", "node:80%", "2:50%". Raises InputError.

    >>> parse_survive("node"), parse_survive("2: 80 %")
    (Survive(nodes=1, share=1.0), Survive(nodes=2, share=0.8))
    """
    lost, colon, share = (piece.strip() for piece in str(text).partition(":"))
    form = "write --survive node, --survive 2, or --survive node:80% where 80 % of the rate is enough then"
    if not lost or (colon and not share.endswith("%")):
        raise InputError(f"`{str(text)[:60]}` is not NODES or NODES:SHARE%", "--survive", form)
    try:
        nodes = 1 if lost.lower() == "node" else whole(lost, "nodes lost", "--survive")
        percent = number(share[:-1].strip(), "share", "--survive", _PERCENT) if colon else 100.0
    except InputError as error:
        raise InputError(error.message, "--survive", form) from None
    return Survive(nodes=nodes, share=percent / 100)


def _find(name_or_path: str | Path) -> _Asked:
    """A preset or a file."""
    name = str(name_or_path)
    preset = {squash(key): value for key, value in PRESETS.items()}.get(squash(name))
    path = Path(name_or_path)
    if preset is not None and path.suffix == "":
        return _Asked(preset, frozenset())
    if not name.strip() or not (path.suffix or "/" in name or "\0" in name or path.exists()):
        close = " or ".join(f"`{n}`" for n in nearest(name[:60], PRESETS))
        hint = f"did you mean {close}? Or give a workload YAML file"
        raise InputError(f"unknown workload `{name[:60]}`", "--workload", hint)
    document = read(path)
    return _Asked(validate(document, Workload), _given(document))


def _given(document: Document) -> frozenset[str]:
    """Which values a workload file sets itself."""
    data = document.data
    slo = data.get("slo") or {}
    lengths = {"isl", "osl"} if "buckets" in data else {"isl", "osl"} & set(data)
    return frozenset(lengths | {f"slo.{key}" for key in slo})


def _with_lengths(workload: Workload, isl: int | None, osl: int | None) -> Workload:
    """Every bucket with these lengths; buckets that this makes equal become one."""
    if isl is None and osl is None:
        return workload
    new_isl = None if isl is None else whole(isl, "--isl", "--isl", TOKENS)
    new_osl = None if osl is None else whole(osl, "--osl", "--osl", TOKENS)
    if new_osl is not None and workload.max_osl is not None and new_osl > workload.max_osl:
        raise InputError(f"`--osl` {new_osl} is above the workload's `max_osl` ({workload.max_osl})", "--osl")
    buckets = [
        Bucket(isl=new_isl or bucket.isl, osl=new_osl or bucket.osl, share=bucket.share)
        for bucket in workload.buckets
    ]
    told = ("--isl" if new_isl else "--osl", "state lengths and what returns in one place")
    if workload.idle is not None:
        raise InputError("the workload's `idle:` is of prompts of its own lengths", *told)
    begun = max((r.tokens or 0 for r in workload.reuse), default=0)
    if new_isl and new_isl < begun:
        text = f"`--isl` {new_isl:,} is shorter than a beginning of the workload's `reuse` ({begun:,} tokens)"
        raise InputError(text, *told)
    return workload.model_copy(update={"buckets": buckets}).merged


def _limit(value: float | str, option: str) -> float | None:
    """A limit in milliseconds; "none" is no limit."""
    if isinstance(value, str) and value.strip().lower() == "none":
        return None
    try:
        return number(value, option, option, POSITIVE, "milliseconds")
    except InputError as error:
        raise InputError(error.message, error.where, "milliseconds, or `none` for no limit") from None


def _percentile(value: str) -> str:
    known = get_args(Percentile)
    if value not in known:
        hint = f"did you mean `{nearest(value, known, 1)[0]}`? one of {', '.join(known)}"
        raise InputError(f"unknown percentile `{value}`", "--percentile", hint)
    return value

"""The input table of `predict` and of calibration: one replica under one load a row (contracts.md,
Tables)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

from model_zoo.schema import KV_BYTES, WEIGHT_BYTES
from planner.cost.queueing import Role
from planner.cost.reserve import ENGINES
from planner.errors import InputError, nearest
from planner.inputs.numbers import COUNT, POSITIVE, TOKENS, Range, number, whole

Start = Literal["at_once", "steady"]

DRAFT = Range(low=0, high=64, whole=True)
SHARE = Range(low=0.0, high=1.0 - 1e-9)
CONCURRENCY = Range(low=0.0, high=1e9, open=True)


@dataclass(frozen=True)
class Row:
    """A replica of pp stages and tp * attn_dp GPUs a stage; `concurrency` requests in flight on it.

    Precisions are None where the checkpoint's hold; `moe_tp`, `ep` are None where blank (see
    `expert_split`). `start`: of a benchmark's closed loop all requests come "at_once"; "steady" is what it
    settles to, and what plans state. A decode step verifies `draft_tokens` beside the next one, of which it
    keeps `accepted_tokens` on average."""

    model: str
    device: str
    engine: str
    engine_version: str
    precision: str | None
    gemm_precision: str | None
    moe_precision: str | None
    kv_precision: str | None
    role: Role
    tp: int
    pp: int
    attn_dp: int
    moe_tp: int | None
    ep: int | None
    isl: int
    osl: int
    concurrency: float
    prefix_hit: float
    draft_tokens: int
    accepted_tokens: float
    start: Start = "at_once"


def parse(cells: Mapping[str, str]) -> Row:
    """The row of one line of the table: blank and missing cells are defaulted. Raises InputError.

    >>> row = parse({"model": "llama-3.1-8b", "device": "h100", "tp": "2", "isl": ""})
    >>> row.engine, row.tp, row.isl, row.osl
    ('vllm', 2, 1024, 256)
    """
    draft = _whole(cells, "draft_tokens", 0, DRAFT)
    engine = _choice(cells, "engine", (*ENGINES, "any"), "vllm")
    role: Role = _choice(cells, "role", get_args(Role), "mixed")  # type: ignore[assignment]
    start: Start = _choice(cells, "start", get_args(Start), "at_once")  # type: ignore[assignment]
    return Row(
        model=_needed(cells, "model"),
        device=_needed(cells, "device"),
        engine="vllm" if engine == "any" else engine,
        engine_version=cells.get("engine_version") or "",
        precision=_precision(cells, "precision", WEIGHT_BYTES),
        gemm_precision=_precision(cells, "gemm_precision", WEIGHT_BYTES),
        moe_precision=_precision(cells, "moe_precision", WEIGHT_BYTES),
        kv_precision=_precision(cells, "kv_precision", KV_BYTES),
        role=role,
        tp=_whole(cells, "tp", 1),
        pp=_whole(cells, "pp", 1),
        attn_dp=_whole(cells, "attn_dp", 1),
        moe_tp=_whole(cells, "moe_tp", 0) or None,
        ep=_whole(cells, "ep", 0) or None,
        isl=_whole(cells, "isl", 1024, TOKENS),
        osl=_whole(cells, "osl", 256, TOKENS),
        concurrency=_number(cells, "concurrency", 1.0, CONCURRENCY),
        prefix_hit=_number(cells, "prefix_hit", 0.0, SHARE),
        draft_tokens=draft,
        accepted_tokens=_accepted(cells, draft),
        start=start,
    )


def expert_split(row: Row, has_experts: bool) -> Row:
    """The row with moe_tp * ep = the GPUs of one stage: what is blank follows, both blank is ep 1.

    A dense model has no experts to split, so whatever stands there means nothing. Raises InputError.

    >>> row = parse({"model": "mixtral-8x7b", "device": "h100", "tp": "4", "ep": "2"})
    >>> expert_split(row, has_experts=True).moe_tp
    2
    """
    gpus = row.tp * row.attn_dp
    if not has_experts:
        return replace(row, moe_tp=gpus, ep=1)
    ep = row.ep or (gpus // row.moe_tp if row.moe_tp else 1)
    moe_tp = row.moe_tp or gpus // ep
    if moe_tp * ep != gpus:
        raise InputError(f"moe_tp * ep = {moe_tp * ep} must equal tp * attn_dp = {gpus}, a stage's GPUs")
    return replace(row, moe_tp=moe_tp, ep=ep)


def _accepted(cells: Mapping[str, str], draft: int) -> float:
    """Mean accepted of the drafted tokens a step: the model's and the prompts' affair, so it must be said."""
    if draft and not cells.get("accepted_tokens"):
        raise InputError(f"`accepted_tokens` is blank: how many of {draft} drafted a step, on average?")
    return _number(cells, "accepted_tokens", 0.0, Range(low=0.0, high=float(draft)))


def _needed(cells: Mapping[str, str], name: str) -> str:
    if not cells.get(name):
        raise InputError(f"`{name}` is blank")
    return cells[name]


def _choice(cells: Mapping[str, str], name: str, known: Collection[str], default: str) -> str:
    text = (cells.get(name) or default).lower()
    if text not in known:
        raise InputError(f"unknown {name} `{text}`", hint=f"did you mean `{nearest(text, known, 1)[0]}`?")
    return text


def _precision(cells: Mapping[str, str], name: str, known: Collection[str]) -> str | None:
    text = (cells.get(name) or "").lower()
    if text and text not in known:
        raise InputError(f"unknown {name} `{text}`", hint=f"one of: {', '.join(known)}")
    return text or None


def _number(cells: Mapping[str, str], name: str, default: float, allowed: Range = POSITIVE) -> float:
    return number(cells[name], name, name, allowed) if cells.get(name) else default


def _whole(cells: Mapping[str, str], name: str, default: int, allowed: Range = COUNT) -> int:
    """A whole number; "4.0" is 4, as tables written by other tools have it."""
    return whole(cells[name], name, name, allowed) if cells.get(name) else default

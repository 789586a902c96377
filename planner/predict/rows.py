"""The input table of `predict` and of calibration: one replica under one load a row (contracts.md, Tables);
and decode steps that a first token waits beside the queue, by what a launch line tells the engine.

Sources of these: TensorRT-LLM llmapi/llm_args.py (`batch_wait_timeout_iters`, `attention_dp_config`) with
public runs with and without them; SGLang server_args.py (`--scheduler-recv-interval`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from model_zoo.schema import KV_BYTES, WEIGHT_BYTES
from planner.cost.eras import engine_of
from planner.designs.precision import EXPERT_KERNELS, ROUTER_BYTES
from planner.designs.shape import Floats, Ints
from planner.engines import NAMES, named
from planner.errors import InputError, nearest
from planner.inputs.numbers import COUNT, POSITIVE, TOKENS, Range, number, whole
from planner.queueing import Percentile, Role

Start = Literal["at_once", "steady"]
Lengths = Literal["varied", "alike"]

DRAFT = Range(low=0, high=64, whole=True)
SHARE = Range(low=0.0, high=1.0 - 1e-9)
COPIES = Range(low=0, high=1e4, whole=True)
RUNNING = Range(low=1, high=1e6, whole=True)
STEPS = Range(low=0.0, high=1e4)
STEP_TOKENS = Range(low=0, high=1e7, whole=True)
CHUNK = Range(low=1, high=1e7, whole=True)
CONCURRENCY = Range(low=0.0, high=1e9, open=True)


@dataclass(frozen=True)
class Row:
    """A replica of pp stages and tp * attn_dp GPUs a stage; `concurrency` requests in flight on it.

    Precisions are None where the checkpoint's hold; `moe_tp`, `ep` are None where blank (see
    `expert_split`). `start`: of a benchmark's closed loop all requests come "at_once"; "steady" is what it
    settles to, and what plans state. `lengths`: whether requests differ in length ("varied") or all have
    exactly `isl` and `osl` ("alike"). A decode step verifies `draft_tokens` beside the next one, of which it
    keeps `accepted_tokens` on average. `chunk`: tokens of a step that the engine is told, 0 its default.

    Settings that a launch line may tell the engine, 0 where it tells none: `max_running` requests of the
    replica at once (vLLM's `--max-num-seqs` and TensorRT-LLM's `--max_batch_size` times attn_dp, SGLang's
    `--max-running-requests`); `memory_share`, as each engine means it (`--gpu-memory-utilization`,
    `--mem-fraction-static`, `free_gpu_memory_fraction`); tokens up to which steps with prompts are replayed
    from graphs (`graph_tokens`: vLLM's `--max-cudagraph-capture-size`, the largest of TensorRT-LLM's
    `torch_compile_config.capture_num_tokens`; None is what the engine's version does); steps that a prompt
    waits for others at most (`wait_steps`: TensorRT-LLM's `batch_wait_timeout_iters`), that pass between
    looks at new requests (`receive_steps`: SGLang's `--scheduler-recv-interval`), and that attention-dp ranks
    wait for each other's prompts (`balance_steps`: TensorRT-LLM's `attention_dp_config.timeout_iters`; None
    is what public recipes of benchmarks set); what routers of experts are computed in (`router_precision`:
    "tf32" with vLLM's `VLLM_FLOAT32_MATMUL_PRECISION=high` and SGLang's `--enable-tf32-matmul`; None is what
    the engine's version does); the kernels of experts (`expert_kernels`, of EXPERT_KERNELS; blank is what is
    usual).

    `rate_rps`: requests/s that come at random, in place of `concurrency`; 0 is a closed loop. `max_osl`: room
    that an engine which reserves keeps for an answer, at least its own length. `mix`: (isl, osl, share) of
    requests of several lengths, in place of `isl` and `osl`. `stages`: (device, tp, layers) of each where
    they differ."""

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
    lengths: Lengths = "varied"
    redundant: int = 0
    cp: int = 1
    chunk: int = 0
    rate_rps: float = 0.0
    percentile: Percentile = "mean"
    max_osl: int = 0
    max_running: int = 0
    memory_share: float = 0.0
    graph_tokens: float | None = None
    wait_steps: float = 0.0
    receive_steps: float = 0.0
    balance_steps: float | None = None
    mix: tuple[tuple[int, int, float], ...] = ()
    stages: tuple[tuple[str, int, int], ...] = ()
    router_precision: str | None = None
    expert_kernels: str = ""

    @property
    def requests(self) -> tuple[tuple[int, int, float], ...]:
        """Each kind of request as (isl, osl, share)."""
        return self.mix or ((self.isl, self.osl, 1.0),)


def parse(cells: Mapping[str, str]) -> Row:
    """A row from text cells by column; blank and missing ones take the defaults. Raises InputError.

    >>> parse({"model": "llama-3.1-8b", "device": "h100", "tp": "2"}).concurrency
    1.0
    """
    draft = _whole(cells, "draft_tokens", 0, DRAFT)
    engine = _choice(cells, "engine", (*NAMES, "any"), "vllm")
    role: Role = _choice(cells, "role", get_args(Role), "mixed")  # type: ignore[assignment]
    start: Start = _choice(cells, "start", get_args(Start), "at_once")  # type: ignore[assignment]
    lengths: Lengths = _choice(cells, "lengths", get_args(Lengths), "varied")  # type: ignore[assignment]
    percentile: Percentile = _choice(cells, "percentile", get_args(Percentile), "mean")  # type: ignore[assignment]
    stages = _stages(cells)
    _one_of(cells, "rate_rps", "concurrency", "start")
    _one_of(cells, "mix", "isl", "osl")
    if lengths == "alike" and cells.get("mix"):
        raise InputError("`lengths` alike of a `mix` of several: leave one of the two blank", "lengths")
    _one_of(cells, "stages", "tp", "pp", "attn_dp", "moe_tp", "ep", "redundant", "cp", "draft_tokens")
    if percentile != "mean" and not cells.get("rate_rps"):
        raise InputError(
            f"`percentile` {percentile} of a closed loop: only its means are known", "percentile"
        )
    return Row(
        model=_needed(cells, "model"),
        device=stages[0][0] if stages else _needed(cells, "device"),
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
        lengths=lengths,
        redundant=_whole(cells, "redundant", 0, COPIES),
        cp=_whole(cells, "cp", 1),
        chunk=_whole(cells, "chunk", 0, CHUNK),
        rate_rps=_number(cells, "rate_rps", 0.0, CONCURRENCY),
        percentile=percentile,
        max_osl=_whole(cells, "max_osl", 0, TOKENS),
        max_running=_whole(cells, "max_running", 0, RUNNING),
        memory_share=_number(cells, "memory_share", 0.0, SHARE),
        graph_tokens=_number(cells, "graph_tokens", 0.0, STEP_TOKENS) if cells.get("graph_tokens") else None,
        wait_steps=_number(cells, "wait_steps", 0.0, STEPS),
        receive_steps=_number(cells, "receive_steps", 0.0, STEPS),
        balance_steps=_number(cells, "balance_steps", 0.0, STEPS) if cells.get("balance_steps") else None,
        mix=_mix(cells),
        stages=stages,
        router_precision=_precision(cells, "router_precision", ROUTER_BYTES),
        expert_kernels=_kernels(cells),
    )


def expert_split(row: Row, has_experts: bool) -> Row:
    """The row with moe_tp * ep = the GPUs of one stage: what is blank follows, both blank is ep 1.

    A dense model has no experts to split, so whatever stands there means nothing. Raises InputError.

    >>> row = parse({"model": "mixtral-8x7b", "device": "h100", "tp": "4", "ep": "2"})
    >>> expert_split(row, has_experts=True).moe_tp
    2
    """
    gpus = row.tp * row.attn_dp * row.cp
    if not has_experts:
        return replace(row, moe_tp=gpus, ep=1, redundant=0)
    ep = row.ep or (gpus // row.moe_tp if row.moe_tp else 1)
    moe_tp = row.moe_tp or gpus // ep
    if moe_tp * ep != gpus:
        raise InputError(f"moe_tp * ep = {moe_tp * ep} must equal tp * attn_dp * cp = {gpus}, a stage's GPUs")
    return replace(row, moe_tp=moe_tp, ep=ep)


def _accepted(cells: Mapping[str, str], draft: int) -> float:
    """Mean accepted of the drafted tokens a step: the model's and the prompts' affair, so it must be said."""
    if draft and not cells.get("accepted_tokens"):
        raise InputError(f"`accepted_tokens` is blank: how many of {draft} drafted a step, on average?")
    return _number(cells, "accepted_tokens", 0.0, Range(low=0.0, high=float(draft)))


def _one_of(cells: Mapping[str, str], name: str, *others: str) -> None:
    """Raises InputError: a column, and another one that it leaves nothing to say."""
    for other in others:
        if cells.get(name) and cells.get(other):
            raise InputError(f"both `{name}` and `{other}`: leave one of the two blank", other)


def _mix(cells: Mapping[str, str]) -> tuple[tuple[int, int, float], ...]:
    """Lengths and shares of "isl:osl:share+..."

    >>> _mix({"mix": "1000:200:0.7+8000:300:0.3"})
    ((1000, 200, 0.7), (8000, 300, 0.3))
    """
    found = []
    for part in _parts(cells, "mix", 3, "isl:osl:share, joined by `+`"):
        isl, osl = (whole(text, "mix", "mix", TOKENS) for text in part[:2])
        found.append((isl, osl, number(part[2], "mix", "mix", POSITIVE)))
    return tuple(found)


def _stages(cells: Mapping[str, str]) -> tuple[tuple[str, int, int], ...]:
    """Stages of "device:tpN:layers+..."

    >>> _stages({"stages": "h100-sxm:tp4:60+l40s:tp4:20"})
    (('h100-sxm', 4, 60), ('l40s', 4, 20))
    """
    found = []
    for device, tp, layers in _parts(cells, "stages", 3, "device:tpN:layers, joined by `+`"):
        size = whole(tp.lower().removeprefix("tp"), "stages", "stages", COUNT)
        found.append((device, size, whole(layers, "stages", "stages", COUNT)))
    return tuple(found)


def _parts(cells: Mapping[str, str], name: str, size: int, form: str) -> list[list[str]]:
    """What stands between `+` and `:`, `size` of each. Raises InputError: other than `form`."""
    text = cells.get(name) or ""
    parts = [[piece.strip() for piece in part.split(":")] for part in text.split("+")] if text else []
    if any(len(part) != size or not all(part) for part in parts):
        raise InputError(f"`{name}` must be {form}, got `{text}`", name)
    return parts


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


def _kernels(cells: Mapping[str, str]) -> str:
    text = (cells.get("expert_kernels") or "").lower().removeprefix("flashinfer_")
    return _precision({"expert_kernels": text}, "expert_kernels", EXPERT_KERNELS) or ""


def _number(cells: Mapping[str, str], name: str, default: float, allowed: Range = POSITIVE) -> float:
    return number(cells[name], name, name, allowed) if cells.get(name) else default


def _whole(cells: Mapping[str, str], name: str, default: int, allowed: Range = COUNT) -> int:
    """A whole number; "4.0" is 4, as tables written by other tools have it."""
    return whole(cells[name], name, name, allowed) if cells.get(name) else default


def held_back(engine: str, rows: Sequence[Row], ranks: Ints, sequences: Floats, osl: Floats) -> Floats:
    """Steps of each row's server, (n,): those for which prompts are kept for others, half of those between
    two looks at new requests, and what attention-dp ranks wait for each other. `sequences` of a rank: where
    nobody else is in flight, no such steps are made."""
    usual = named(engine_of(engine)).balance_steps
    most = [r.balance_steps if r.balance_steps is not None else usual * (r.start == "at_once") for r in rows]
    told = np.array([r.wait_steps + r.receive_steps / 2 for r in rows])
    others = np.clip(sequences * ranks - 1, 0.0, 1.0)
    return np.asarray(told * others + balanced_steps(np.array(most, dtype=np.float64), ranks, sequences, osl))


def balanced_steps(most: Floats, ranks: Ints, sequences: Floats, osl: Floats) -> Floats:
    """Decode steps that a prompt waits on average, (n,), where attention-dp ranks hold prompts back until
    each has one, for `most` steps. A rank's `sequences` end one every osl / sequences steps, so all `ranks`
    have one after H(ranks) times that (the coupon collector's last coupon); prompts come evenly meanwhile.

    >>> balanced_steps(np.array([60.0]), np.array([4]), np.array([64.0]), np.array([922.0])).round(1)
    array([15.])
    """
    harmonic = np.array([sum(1 / i for i in range(1, int(r) + 1)) for r in ranks])
    all_have = harmonic * osl / np.maximum(sequences, 1e-9)
    return np.where(ranks > 1, np.minimum(most, all_have) / 2, 0.0)

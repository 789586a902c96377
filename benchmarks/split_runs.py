"""Public disaggregated serving runs, and what the model predicts for them.

A run is a closed loop of N requests over prefill workers and decode workers (`closed_split`). Rows state the
batch of one attention-dp rank of a decode worker, so N = batch · decode workers · attention-dp: so the
concurrencies of these runs' public recipes come out to the digit (InferenceX `nvidia-master.yaml`, srt-slurm
`recipes/`), of those without speculation. From the same recipes: lengths are drawn evenly from 0.8 to 1.0 of
the nominal ones, and a run has 5 requests a slot and starts them all at once, so that its prompts come in
waves (`benchmarks/waves.py`). Jobs of unknown replicas are told apart by their labels, as among aggregated
runs. Nothing is fitted.
"""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.queueing_split import Pool, Split, closed_split, ranks_as_one
from benchmarks.split_recipes import UNKNOWN, Recipe, recipe_of
from benchmarks.truth import DRAWN, RUNS, SERVING, Row, by_id, checkpoint
from benchmarks.waves import Client, Workers, mean_ttft_s
from planner.cost.attention import Load
from planner.cost.bands import of_role
from planner.cost.memory import (
    default_tokens_per_step,
    device_bytes,
    fullest_at,
    kv_bytes_per_seq,
    room_by_stage,
)
from planner.cost.model import CostModel
from planner.cost.transfer import CHUNKED, Overlap, hidden_s
from planner.designs.shape import Designs
from planner.operating.requests import Requests
from planner.predict.predictions import looked_up
from planner.predict.rows import parse

LOWEST = 0.8
"""Least of a length over its nominal one, where that is a multiple of 1024: `--random-range-ratio 0.8`."""

WAVES = 5
"""Requests of a slot."""

ROUNDS = 4
"""Of finding the batch at which the decode step is made linear."""

UNSTATED = "0.5.5.post2"
"""SGLang's version in rows whose tp, ep and attention-dp are placeholders: "do nothing because they are
hardcoded", says their recipe. On 4 GPUs the recipe of the next version has tp 4; on more, every GPU is a rank
with whole experts (weights in blocks of 128 x 128 cannot be cut 32 ways)."""


@dataclass(frozen=True)
class Side:
    """The workers of one phase; `designs` is one design. `recipe`: what launched prefill workers."""

    cost: CostModel
    designs: Designs
    workers: int
    recipe: Recipe = UNKNOWN

    @property
    def tokens(self) -> int:
        """Of one step of one rank."""
        told = self.recipe.step_tokens
        return told or default_tokens_per_step(self.cost.engine, device_bytes(self.cost.node_class.device))

    def prompts(self, isl: float) -> int:
        """Of a full step of all its ranks together."""
        return int(max(1, min(self.recipe.prompts, self.tokens // isl))) * int(self.designs.attn_dp[0])

    def alone_s(self, isl: float) -> float:
        """Seconds of a prompt's cache through the NIC of the rank that has most of it."""
        held, _ = self.cost.handed_bytes(self.designs, np.array([isl]))
        return float(held[0, 0]) / self.cost.node_class.nic_bytes_per_s


@dataclass(frozen=True)
class Run:
    """A measured row and what it is predicted from."""

    row: Row
    prefill: Side
    decode: Side
    isl: float
    osl: float
    concurrency: int
    emitted: float = 1.0
    """Tokens of a decode step, with those of its drafts that are accepted."""

    @property
    def group(self) -> str:
        """Engine, device, model and precision."""
        parts = (self.row[key] for key in ("backend", "system", "model_path", "gemm_quant_mode"))
        return " ".join(part.split("/")[-1] for part in parts)

    @property
    def measured(self) -> tuple[float, float]:
        """TPOT and TTFT in ms."""
        return float(self.row["silicon_tpot_ms"]), float(self.row["silicon_ttft_ms"])

    @property
    def client(self) -> Client:
        """What sent the requests: of drawn lengths where the nominal ones are longer."""
        lowest = LOWEST if self.isl < int(self.row["isl"]) else 1.0
        return Client(self.concurrency, WAVES, self.isl, self.osl, lowest, self.recipe.rate_rps)

    @property
    def recipe(self) -> Recipe:
        """What launched the workers of both phases."""
        return self.prefill.recipe

    @property
    def places(self) -> float:
        """What the run's recipe allows a decode rank."""
        return self.recipe.places


@dataclass(frozen=True)
class Predicted:
    """`tpot_ms`, `ttft_ms` of the benchmark's waves, `even_ttft_ms` of a first wave and prompts that come
    evenly from then on, `sequences` on a decode rank; `emptied_s`: when the last of all prompts at once would
    be through prefill; `sigma_tpot`, `sigma_ttft`: deviations of the bands of decode and prefill workers."""

    tpot_ms: float
    ttft_ms: float
    even_ttft_ms: float
    sequences: float
    emptied_s: float
    sigma_tpot: float
    sigma_ttft: float


def disaggregated_rows() -> list[Row]:
    """All of them; only some state workers and batches."""
    with gzip.open(RUNS, "rt", encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if row["mode"] != "agg"]


def states_workers(row: Row) -> bool:
    return all(row[name] for name in ("prefill_num_workers", "decode_num_workers", "decode_batch_size"))


def of_unknown_replicas(rows: list[Row]) -> list[Row]:
    """Those whose labels call them jobs of which it is not known how many replicas there were."""
    labels = by_id(SERVING / "train_labels.csv.gz")
    return [row for row in rows if "Dynamo job" in labels[row["row_id"]]["advice"]]


def is_unstated(row: Row) -> bool:
    """Its designs are placeholders."""
    return row["backend"] == "sglang" and row["backend_version"] == UNSTATED


def batch(row: Row) -> int:
    return round(float(row["decode_batch_size"]))


def concurrency(row: Row) -> int:
    """Requests in flight, of placeholders too: their batches are of as many ranks as they name."""
    return batch(row) * round(float(row["decode_num_workers"])) * round(float(row["decode_attn_dp"]))


def run_of(row: Row, as_stated: bool = False) -> Run:
    """The run of `row`, as its recipe launched it where that is known, unless `as_stated`."""
    drawn = DRAWN if int(row["isl"]) % 1024 == 0 else 1.0
    flying = concurrency(row)
    found = None if as_stated else recipe_of(row, None if is_unstated(row) else flying)
    recipe = found or UNKNOWN
    prefill = _side(row, "prefill", as_stated, recipe)
    decode = _side(row, "decode", as_stated, recipe)
    return Run(row, prefill, decode, drawn * int(row["isl"]), drawn * int(row["osl"]), flying)


def _side(row: Row, name: str, as_stated: bool, recipe: Recipe) -> Side:
    """Workers of a phase; pipelines do not occur in these rows, and dense models have no ep."""
    tp, attn_dp, ep, workers, gpus = (
        round(float(row[f"{name}_{column}"]))
        for column in ("attn_tp", "attn_dp", "ep", "num_workers", "gpus")
    )
    if recipe.prefill and name == "prefill":
        tp, attn_dp, ep = recipe.prefill
    elif is_unstated(row) and not as_stated:
        tp, attn_dp = (gpus, 1) if gpus <= 4 else (1, gpus)
        ep = attn_dp
    asked = {
        **checkpoint(row["model_path"], row["gemm_quant_mode"], row["moe_quant_mode"]),
        "device": row["system"],
        "engine": row["backend"],
        "engine_version": row["backend_version"],
        "tp": str(tp),
        "attn_dp": str(attn_dp),
        "ep": str(ep),
        "role": name,
        "expert_kernels": recipe.kernels[name == "decode"],
    }
    return replace(side_of(asked, workers), recipe=recipe if name == "prefill" else UNKNOWN)


def side_of(asked: Row, workers: int) -> Side:
    """Workers as a row of `predict` describes one of them."""
    group, found = looked_up(parse(asked))
    sizes = (found.tp, found.pp, found.attn_dp, found.moe_tp, found.ep)
    return Side(group.cost(), Designs.plain(*(np.array([size]) for size in sizes)), workers)


def predict(run: Run, places: float = np.inf) -> Predicted:
    """TPOT and TTFT; `places`: most sequences of a decode rank, beside what its KV cache holds."""
    prefill, decode = _prefill_pool(run), run.decode
    ranks = decode.workers * int(decode.designs.attn_dp[0])
    held, context = min(_kv_places(run), places), run.isl + run.osl / 2
    sent_s = _sent_s(run)
    each = Requests(*(np.array([[x]]) for x in (run.isl, run.isl, run.osl, 1.0)), run.emitted).in_steps
    sequences = np.array([min(run.concurrency / ranks, held)])
    for _ in range(ROUNDS):
        step = decode.cost.step_times(decode.designs, Load.of(sequences, context, 1.0))
        one_step = float(decode.cost.step_s(decode.designs, Load.of(sequences, context))[0])
        steps = 1 + run.recipe.receive_steps / 2
        handoff = sent_s + float(decode.cost.tuning.started_s(run.isl)) + steps * one_step
        pool = Pool(step, ranks, held)
        split = closed_split(
            prefill, pool, each.new, each.isl, each.osl, each.share, run.concurrency, handoff
        )
        sequences = np.maximum(split.sequences, 0.5)
    workers = Workers(
        prefill=run.prefill.workers,
        prompts=run.prefill.prompts(run.isl),
        t0_s=float(prefill.step.t0_s[0]),
        token_s=float(prefill.step.prefill_s_per_token[0]),
        handoff_s=handoff,
        tpot_s=float(split.tpot_s[0]) / run.emitted,
        places=ranks * held,
    )
    return _in_ms(split, run, mean_ttft_s(workers, run.client))


def _sent_s(run: Run) -> float:
    """What of a prompt's transfer comes after it, by what the engine does."""
    prefill, isl = run.prefill, np.array([run.isl])
    taken = max(prefill.alone_s(run.isl), run.decode.alone_s(run.isl))
    if prefill.cost.engine not in CHUNKED or run.isl <= prefill.tokens:
        return taken
    step = prefill.cost.step_times(prefill.designs, Load.of(0.0, 0.0, float(prefill.tokens)))
    behind = float(hidden_s(step, isl, isl, prefill.tokens)[0, 0])
    last = float(prefill.cost.last_share(isl, isl, prefill.tokens)[0])
    return Overlap(last, behind).seen_s(taken)


def _in_ms(split: Split, run: Run, ttft_s: float) -> Predicted:
    even_s = float((1 - 1 / WAVES) * split.ttft_s[0, 0] + split.first_ttft_s[0] / WAVES)
    most = split.rate[0] / split.prefill_used[0]
    emptied = float(split.first_ttft_s[0] + run.concurrency / most / 2)
    tpot_s = float(split.tpot_s[0]) / run.emitted
    tpot = float(of_role(run.decode.cost.sigmas(run.decode.designs), "decode")[1, 0])
    ttft = float(of_role(run.prefill.cost.sigmas(run.prefill.designs), "prefill")[0, 0])
    return Predicted(1e3 * tpot_s, 1e3 * ttft_s, 1e3 * even_s, float(split.sequences[0]), emptied, tpot, ttft)


def _prefill_pool(run: Run) -> Pool:
    """Each worker is one server: its attention-dp ranks step together.

    A prompt alone on a worker has one rank's attention and the experts of all ranks: the design with one rank
    less its messages to the others.
    """
    side, ones, prompts = run.prefill, np.ones(1, dtype=np.int64), run.prefill.prompts(run.isl)
    together = prompts // int(side.designs.attn_dp[0])

    def step_s(designs: Designs, prompts: int) -> float:
        return float(side.cost.step_s(designs, Load.of(0.0, 0.0, prompts * run.isl, run.isl / 2))[0])

    lone, full = step_s(replace(side.designs, attn_dp=ones), 1), step_s(side.designs, together)
    step = ranks_as_one(*(np.array([x]) for x in (lone, max(lone, full), float(prompts), run.isl)))
    return Pool(step, side.workers, prompts * run.isl + 1)


def _kv_places(run: Run) -> float:
    """Sequences whose KV a decode rank holds; without end where the model does not fit at all."""
    cost, designs = run.decode.cost, run.decode.designs
    available = device_bytes(cost.node_class.device)
    every = room_by_stage(cost.card, available, designs, cost.precisions, cost.engine, run.decode.tokens)
    memory = fullest_at(cost.card, designs, cost.precisions, cost.engine, every)
    context = np.array([run.isl + run.osl / 2])
    asked = (cost.card, designs, cost.precisions, cost.engine, context)
    each = kv_bytes_per_seq(*asked, stage=memory.stage)[0, 0]
    places = float(memory.kv_bytes[0] / each)
    return places if places >= 1 else np.inf

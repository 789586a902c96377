"""Prefill/decode splits: predicted gain over measured gain, and what rules of splitting bring.

`splits.csv` compares public runs of a split with runs of servers that do both phases, on GPUs of one kind.
The gain of a split is its output tokens/s of a GPU over those of the aggregated servers. InferenceX's runs
of DeepSeek-R1 are compared at equal TPOT: with the frontier of all aggregated runs of the same device,
precision and lengths, straight between its runs on log scales and flat beyond its ends. The gain predicted is
the same figure of predictions of the same runs, at the predicted TPOT of the split. Runs of engines that
cannot be planned (AMD's ATOM) are left out of both frontiers. Other comparisons are at a stated number of
requests in flight. Runs with drafts are left out; nothing is fitted.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from benchmarks.scores.render import share, table
from benchmarks.split_runs import Run, predict, run_of, side_of
from benchmarks.truth import SERVING, Row, as_asked, checkpoint, deepseek
from benchmarks.truth import table as read
from cluster_configs.reading import from_gpus
from planner.cost.transfer import nic_bytes_per_s
from planner.errors import InputError
from planner.predict.predictions import predict_rows
from planner.problems.ways import route

SOURCE = "inferencex_deepseek_r1.csv.gz"

PLANNED = ("sglang", "trtllm")
"""Engines of these runs that can be planned."""

SAME = ("device", "precision", "isl", "osl", "spec_method")
"""What runs compared with each other share."""

IN_FLIGHT = re.compile(r"in flight ([\d.]+) / ([\d.]+)")
SERVERS = re.compile(r"(\d+) x tp(\d+)")
SIDES = re.compile(r"(\d+)P tp(\d+) (\d+)D tp(\d+)")
"""Requests in flight, aggregated servers and workers of a split as `splits.csv` writes them."""


@dataclass(frozen=True)
class Comparison:
    """A split against servers that do both; `fast`: over NVLink or RDMA between nodes, not PCIe."""

    name: str
    engine: str
    device: str
    fast: bool
    measured: float
    predicted: float

    @property
    def path(self) -> str:
        """The way that caches take."""
        return "NVLink/RDMA" if self.fast else "PCIe"

    @property
    def right(self) -> bool:
        """Whether the prediction is on the measured side of 1."""
        return (self.predicted > 1) == (self.measured > 1)


RULES: Mapping[str, Callable[[Comparison], bool]] = {
    "gain above 1": lambda c: c.predicted > 1,
    "gain above 1.1": lambda c: c.predicted > 1.1,
    "not over PCIe, else above 1.1": lambda c: c.fast and c.predicted > 1.1,
    "as measured (the most there is)": lambda c: c.measured > 1,
}
"""When to split, by its words."""


def report() -> str:
    """All tables."""
    found = [*deepseek_splits(), *loaded_splits()]
    return "\n\n".join((by_class(found), by_rule(found), without_peers()))


def by_class(found: Sequence[Comparison]) -> str:
    """Predicted over measured gain by engine, device and path."""
    figures = ("gain measured", "gain predicted", "predicted / measured", "sign right")
    heads = ("splits", "n", *figures, "false", "missed")
    parts: dict[str, list[Comparison]] = {}
    for c in found:
        parts.setdefault(f"{c.engine}, {c.path}", []).append(c)
        parts.setdefault(f"  {c.engine}, {c.device}", []).append(c)
    named = sorted(parts, key=lambda name: (name.strip().split(",")[0], name.startswith(" "), name))
    return table(heads, [*(_line(name, parts[name]) for name in named), _line("all", found)])


def _line(name: str, found: Sequence[Comparison]) -> list[str]:
    measured, predicted = (np.array([getattr(c, x) for c in found]) for x in ("measured", "predicted"))
    wrong = [c for c in found if not c.right]
    false = sum(c.predicted > 1 for c in wrong)
    figures = (np.median(measured), np.median(predicted), np.exp(np.median(np.log(predicted / measured))))
    cells = [str(len(found)), *(f"{x:.2f}" for x in figures), share(1 - len(wrong) / len(found))]
    return [name, *cells, str(false), str(len(wrong) - false)]


def by_rule(found: Sequence[Comparison]) -> str:
    """What each rule brings: the mean log gain over never splitting."""
    lines = []
    for words, rule in RULES.items():
        split = [c for c in found if rule(c)]
        gained = sum(math.log(c.measured) for c in split) / len(found)
        lines.append([words, str(len(split)), f"{gained:.3f}"])
    return table(("split when", "splits", "mean log gain"), lines)


def deepseek_splits() -> Iterable[Comparison]:
    """Those of DeepSeek-R1 without drafts, each with the aggregated runs like it."""
    every = {row["row"]: row for row in read(SERVING / SOURCE)}
    for line in comparable():
        if line["id"].startswith("ix"):
            row = every[line["id"].removeprefix("ix")]
            alike = tuple(x["row"] for x in every.values() if _alike(row, x))
            measured, predicted = _frontiers(alike)
            run = split_run(row)
            tpot, out = out_per_gpu(run)
            gains = (
                float(line["split_out_per_gpu"]) / at(measured, float(line["split_tpot_ms"])),
                out / at(predicted, tpot),
            )
            yield Comparison(line["id"], run.row["backend"], row["device"], True, *gains)


def comparable() -> list[Row]:
    """Comparisons of equal GPUs and load without drafts."""
    with (SERVING / "splits.csv").open(encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if row["comparable"] == "yes"]


def _alike(row: Row, x: Row) -> bool:
    planned = x["disagg"] == "False" and x["engine"] in PLANNED
    told = x["out_tok_per_s_per_gpu"] and (x["mean_tpot_ms"] or x["median_tpot_ms"])
    return planned and bool(told) and all(x[name] == row[name] for name in SAME)


Points = list[tuple[float, float]]


@cache
def _frontiers(rows: tuple[str, ...]) -> tuple[Points, Points]:
    """Frontiers of (TPOT, output tokens/s of a GPU) of these runs, measured and predicted."""
    runs = [row for row in read(SERVING / SOURCE) if row["row"] in rows]
    measured = [
        (float(x["mean_tpot_ms"] or x["median_tpot_ms"]), float(x["out_tok_per_s_per_gpu"])) for x in runs
    ]
    predicted = Points()
    for answer in predict_rows([as_asked(deepseek(x)) for x in runs]):
        assert not isinstance(answer, InputError), answer
        if answer.fits and answer.tpot_ms and answer.out_tok_per_s_per_gpu:
            predicted.append((answer.tpot_ms, answer.out_tok_per_s_per_gpu))
    return frontier(measured), frontier(predicted)


def frontier(points: Iterable[tuple[float, float]]) -> Points:
    """Points than which none is both quicker and has more output.

    >>> frontier([(10, 5), (12, 4), (20, 9)])
    [(10, 5), (20, 9)]
    """
    best = Points()
    for tpot, out in sorted(points):
        if not best or out > best[-1][1]:
            best.append((tpot, out))
    return best


def at(points: Points, tpot: float) -> float:
    """Output at a TPOT: straight between points on log scales, flat beyond their ends.

    >>> round(at([(10, 100), (40, 400)], 20), 6), at([(10, 100), (40, 400)], 50)
    (200.0, 400.0)
    """
    x, y = np.log(np.array(points)).T
    return round(float(np.exp(np.interp(np.log(tpot), x, y))), 9)


def split_run(row: Row) -> Run:
    """A disaggregated run of DeepSeek-R1 in the columns of `split_runs`. A layout of fewer ranks than GPUs is
    a placeholder: every further GPU is an attention-dp rank."""
    told = deepseek(row | {"tp": "1", "attn_dp": "1", "ep": "1"})
    flying = int(float(row["concurrency"]))
    for name in ("prefill", "decode"):
        workers, tp, dp, ep = (int(float(row[f"{name}_{x}"])) for x in ("workers", "tp", "attn_dp", "ep"))
        gpus = int(float(row[f"{name}_gpus_all"])) // workers
        dp, ep = (dp, ep) if tp * dp == gpus else (max(gpus // tp, 1), gpus if ep > 1 else 1)
        sizes = {"attn_tp": tp, "attn_dp": dp, "ep": ep, "num_workers": workers, "gpus": gpus}
        told |= {f"{name}_{column}": str(size) for column, size in sizes.items()}
    ranks = int(told["decode_num_workers"]) * int(told["decode_attn_dp"])
    told["decode_batch_size"] = str(max(1, round(flying / ranks)))
    return replace(run_of(told), concurrency=flying)


def out_per_gpu(run: Run) -> tuple[float, float]:
    """Predicted TPOT in ms and output tokens/s of a GPU of all workers, in a closed loop."""
    found = predict(run, run.places)
    gpus = sum(side.workers * int(side.designs.gpus[0]) for side in (run.prefill, run.decode))
    whole_s = (found.ttft_ms + (run.osl - 1) * found.tpot_ms) / 1e3
    return found.tpot_ms, run.concurrency * run.osl / whole_s / gpus


def loaded_splits() -> Iterable[Comparison]:
    """Those at a stated number of requests in flight."""
    for line in comparable():
        load, servers, sides = (
            pattern.match(line[column])
            for pattern, column in ((IN_FLIGHT, "load"), (SERVERS, "agg_layout"), (SIDES, "split_layout"))
        )
        if load and servers and sides:
            count, tp = map(int, servers.groups())
            prefill, prefill_tp, decode, decode_tp = sides.groups()
            asked = described(line)
            flying = {"tp": str(tp), "concurrency": str(float(load[1]) / count)}
            (alone,) = predict_rows([asked | flying])
            assert not isinstance(alone, InputError), alone
            pools = ((prefill, prefill_tp, "prefill"), (decode, decode_tp, "decode"))
            first, second = (side_of(asked | {"tp": tp, "role": role}, int(n)) for n, tp, role in pools)
            run = Run(line, first, second, float(line["isl"]), float(line["osl"]), round(float(load[2])))
            _, out = out_per_gpu(run)
            fast = "PCIe" not in line["link"]
            gain = out / (alone.out_tok_per_s_per_gpu or math.nan)
            yield Comparison(line["id"], line["engine"], line["device"], fast, float(line["gain"]), gain)


def described(line: Row) -> Row:
    """The model, device, engine and lengths of a comparison in the columns of `predict`; prompts come evenly,
    as they do in a steady state."""
    config = line["model"].removesuffix(".json").replace("--", "/", 1)
    if config == line["model"]:
        precision = {"int4 GPTQ": "int4_wo"}.get(line["precision"], line["precision"])
        model = {"model": line["model"].lower().removesuffix("-instruct"), "precision": precision}
    else:
        model = checkpoint(config, line["precision"], line["precision"])
    same = {"device": "device", "engine": "engine", "engine_version": "version", "isl": "isl", "osl": "osl"}
    return {**model, **{name: line[column] for name, column in same.items()}, "start": "steady"}


def without_peers() -> str:
    """TTFT of vLLM on two L40S without peer-to-peer: apart, and as a prefill and a decode server of one
    each. Measured ones are medians over the run at the lowest rate alone; of the others the source says that
    the split misses its 2 s at every rate."""
    heads = ("two L40S, req/s", "TTFT s apart", "predicted", "TTFT s split", "predicted", "of it transfer")
    lines = []
    for line in comparable():
        if line["gain_kind"] == "goodput with TTFT 2 s":
            rate = float(line["load"].split()[0])
            asked = described(line) | {"start": "", "lengths": "alike"}
            rows = [asked | {"rate_rps": str(rate / 2)}, asked | {"rate_rps": str(rate), "role": "prefill"}]
            apart, split = (a.ttft_ms for a in predict_rows(rows) if not isinstance(a, InputError))
            sent_s = sent_inside_s(asked)
            told = [
                f"{float(t) / 1e3:.2f}" if t else "" for t in (line["agg_ttft_ms"], line["split_ttft_ms"])
            ]
            first, second = (
                f"{x / 1e3 + s:.2f}" if x else "too many" for x, s in ((apart, 0.0), (split, sent_s))
            )
            lines.append([f"{rate:.1f}", told[0], first, told[1], second, f"{sent_s:.3f}"])
    return table(heads, lines)


def sent_inside_s(asked: Row) -> float:
    """Seconds of a prompt's cache between two GPUs of one node, as plans count them."""
    side = side_of(asked | {"role": "prefill"}, 1)
    cluster = from_gpus(f"2x{asked['device']}")
    way = route(cluster.classes[0], cluster.classes[0], cluster)
    assert way is not None
    node = cluster.classes[0]
    over_nics = side.alone_s(float(asked["isl"])) * node.nic_bytes_per_s / nic_bytes_per_s(node)
    return way.latency_s + max(way.alone_s((over_nics, over_nics), 0.0))

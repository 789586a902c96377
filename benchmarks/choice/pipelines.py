"""Pipelines that were measured beside layouts without stages: `python -m benchmarks.choice pipelines`.

Rows of one group of `pipelines.csv` share all but the layout. A pipeline's gain is its rate over that of
the group's rows of one stage (their geometric mean), and its factor the predicted gain over the measured
one. What the cost model has wrong of the model, the device or the engine cancels. Where a group has
unlike stages, its rows of one stage span unlike GPUs, which cannot be asked: there the reference is the
pipelines of the group.

Hops: the same layout of the same model under two limits of the network between its two nodes; how much longer
its first token takes under the lower one, predicted over measured. None of these rows is in any fit.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.saturated import SERVING, read
from benchmarks.scores.render import table
from cluster_configs import devices
from cluster_configs.reading import from_document
from cluster_configs.schema import ResolvedCluster
from planner.cost.eras import number_of
from planner.errors import InputError
from planner.predict.predictions import Answer, Prediction, predict_rows
from planner.reading.documents import Document

Row = Mapping[str, str]

TURNS = {"trtllm": ((0, 0, 0), (0, 13, 0)), "vllm": ((0, 0, 0), (0, 7, 0)), "sglang": ((0, 5, 4), (0, 5, 5))}
"""Engine → first version, version after the last whose stages were seen to take turns."""

FASTER = "FasterTransformer"
"""Asked as TensorRT-LLM 0.12, the oldest there is. A batch that its stages do not divide stays whole
(`getLocalBatchSize` in its nccl_utils.cc) and passes them one after the other: it is asked as one stage,
which takes as long but for the hops."""

NODE_GB_PER_S = {
    "nvlink+8x200Gb IB": 200.0,
    "pcie in nodes, one IB NIC between (4-10 GB/s measured)": 6.3,  # geometric mean of what was measured
    "pcie5; 173 Gb/s TCP between nodes": 173 / 8,
    "pcie5; 20 Gb/s cap between nodes": 20 / 8,
}
"""The link that a row names → GB/s of a node's NICs together; other rows are of one node."""

SLOW, FAST = "pcie5; 20 Gb/s cap between nodes", "pcie5; 173 Gb/s TCP between nodes"

ASKED = (
    *("model", "precision", "kv_precision", "device", "stages", "engine", "engine_version", "role"),
    *("tp", "pp", "ep", "attn_dp", "isl", "osl", "concurrency", "rate_rps", "start", "lengths"),
    *("chunk", "max_running", "memory_share", "prefix_hit"),
)
"""Columns that `predict` reads as they stand."""

OF_STAGES = ("device", "tp", "pp", "attn_dp", "ep")
"""What `stages` says in their place."""


@dataclass(frozen=True)
class Factor:
    """One pipeline: how its stages were seen to work, what ran, and predicted over measured of its gain."""

    kind: str
    engine: str
    factor: float


def report() -> str:
    """The tables."""
    rows = read("pipelines.csv")
    answers = asked(rows)
    predicted = sum(isinstance(answer, Prediction) for answer in answers)
    tables = by_kind(factors(rows, answers)), hops_table(rows, answers)
    return "\n\n".join((f"{predicted} of {len(rows)} rows are predicted", *tables))


def asked(rows: Sequence[Row]) -> list[Answer]:
    """What is predicted of every row, on nodes as it names them."""
    places: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for i, row in enumerate(rows):
        places[tuple(row[x] for x in ("device", "stages", "gpus_per_node", "nodes", "link"))].append(i)
    found: dict[int, Answer] = {}
    for members in places.values():
        try:
            cluster = cluster_of(rows[members[0]])
            found |= zip(members, predict_rows([cells(rows[i]) for i in members], None, cluster), strict=True)
        except InputError as error:
            found |= dict.fromkeys(members, error)
    return [found[i] for i in range(len(rows))]


def cells(row: Row) -> dict[str, str]:
    """The row as `predict` reads it."""
    left_out = OF_STAGES if row["stages"] else ("stages",)
    told = {name: row[name] for name in ASKED if name not in left_out}
    if row["model"].endswith(".json"):
        told["model"] = str(SERVING / row["model"])
    if engine_of(row) == FASTER and int(row["concurrency"]) % int(row["pp"]):
        told["pp"] = "1"
    return told


def cluster_of(row: Row) -> ResolvedCluster:
    """The nodes that a row ran on: a class for each of its devices."""
    names = (
        list(dict.fromkeys(part.split(":")[0] for part in row["stages"].split("+"))) if row["stages"] else []
    )
    each = int(row["gpus_per_node"] or 8)
    nodes: list[dict[str, Any]] = []
    for name in names or [row["device"]]:
        node: dict[str, Any] = {"device": devices.find(name).name, "count": 1 if names else int(row["nodes"])}
        node |= {"gpus_per_node": each, "price_usd_per_hour": 1.0}
        if row["link"] in NODE_GB_PER_S:
            node |= {"nic_gb_per_s": NODE_GB_PER_S[row["link"]] / each}
        nodes.append(node)
    return from_document(Document({"name": "run", "nodes": nodes}, "run"))


def takes_turns(row: Row) -> bool:
    """Whether stages of the engine's release were seen to work one after the other."""
    number = number_of(row["engine"], row["engine_version"])
    first, after = TURNS.get(row["engine"], ((0, 0, 0), (0, 0, 0)))
    return number is not None and first <= number < after


def kind_of(row: Row) -> str:
    """The class of a pipeline."""
    if row["engine"] == "llama.cpp":
        return "llama.cpp, " + ("prompts" if row["role"] == "prefill" else "answers")
    if engine_of(row) == FASTER:
        return FASTER
    if takes_turns(row):
        return "in turn"
    return "overlapped, unlike stages among themselves" if row["stages"] else "overlapped"


def rates(row: Row, answer: Prediction) -> tuple[float, float] | None:
    """Predicted and measured, of the figure that says most of the row: requests of a batch by their latency,
    else output tokens, else prompt tokens a second."""
    isl, osl = (int(row[x] or 1) for x in ("isl", "osl"))
    ttft, tpot = answer.ttft_ms, answer.tpot_ms
    if row["measured_e2e_ms"] and ttft and tpot:
        return 1 / (ttft + (osl - 1) * tpot), 1 / float(row["measured_e2e_ms"])
    if row["role"] == "prefill" and row["measured_prompt_tok_s"] and ttft:
        return 1e3 * isl / ttft, float(row["measured_prompt_tok_s"])
    if row["measured_out_tok_s"] and answer.out_tok_per_s:
        return answer.out_tok_per_s, float(row["measured_out_tok_s"])
    return None


def factors(rows: Sequence[Row], answers: Sequence[Answer]) -> list[Factor]:
    """Of every pipeline that has a reference of its own group, lengths, load and way of taking turns. Layouts
    that send collectives over Ethernet are no reference: what these take is another matter."""
    groups: dict[tuple[Any, ...], list[tuple[Row, float]]] = defaultdict(list)
    for row, answer in zip(rows, answers, strict=True):
        both = rates(row, answer) if isinstance(answer, Prediction) and row["isl"] else None
        if both:
            alike = tuple(row[x] for x in ("group", "role", "isl", "osl", "concurrency"))
            groups[*alike, takes_turns(row)].append((row, math.log(both[0] / both[1])))
    found = []
    for members in groups.values():
        piped = [(row, log) for row, log in members if int(row["pp"]) > 1]
        unlike = any(row["stages"] for row, _ in piped)
        reference = [log for row, log in members if (unlike and row["stages"]) or is_whole(row)]
        if reference and len(members) > 1:
            middle = float(np.mean(reference))
            found += [Factor(kind_of(row), engine_of(row), math.exp(log - middle)) for row, log in piped]
    return found


def is_whole(row: Row) -> bool:
    """Whether a row is of one stage, on like GPUs that NVLink, PCIe or InfiniBand joins."""
    joined = row["link"] not in (SLOW, FAST) or int(row["tp"]) <= int(row["gpus_per_node"])
    return int(row["pp"]) == 1 and joined and "unlike GPUs" not in row["doubt"]


def engine_of(row: Row) -> str:
    """Engine and version; FasterTransformer, which is none of ours, by its name."""
    if FASTER in row["source"]:
        return FASTER
    return " ".join(filter(None, (row["engine"], row["engine_version"])))


def by_kind(found: Sequence[Factor]) -> str:
    """Median, typical factor and 90th percentile by class and engine."""
    heads = ("pipelines to one stage: predicted / measured", "n", "median", "typical factor", "P90")
    lines = []
    for kind in sorted({f.kind for f in found}):
        own = [f for f in found if f.kind == kind]
        lines.append([kind, *figures([f.factor for f in own])])
        engines = sorted({f.engine for f in own})
        for engine in engines if len(engines) > 1 else ():
            lines.append([f"  {engine}", *figures([f.factor for f in own if f.engine == engine])])
    return table(heads, lines)


def figures(factors: Sequence[float]) -> list[str]:
    """Their number, median, typical factor (of the median distance from 1) and 90th percentile of that.

    >>> figures([0.5, 1.0, 2.0])
    ['3', '1.00', '2.00', '2.00']
    """
    off = np.exp(np.abs(np.log(factors)))
    cells = (np.median(factors), np.median(off), np.quantile(off, 0.9))
    return [str(len(factors)), *(f"{x:.2f}" for x in cells)]


def hops_table(rows: Sequence[Row], answers: Sequence[Answer]) -> str:
    """First tokens of the same layouts on a slower network."""
    times: dict[tuple[str, ...], dict[str, tuple[float, float]]] = defaultdict(dict)
    for row, answer in zip(rows, answers, strict=True):
        if row["link"] in (SLOW, FAST) and int(row["pp"]) > 1 and isinstance(answer, Prediction):
            key = tuple(row[x] for x in ("tp", "pp", "gpus_per_node", "isl"))
            times[key][row["link"]] = (answer.ttft_ms or math.nan, float(row["measured_ttft_ms"]))
    heads = ("TTFT at 20 Gb/s over that at 173", "tokens", "predicted", "measured", "ratio")
    lines, off = [], []
    for (tp, pp, _, isl), of in sorted(times.items(), key=lambda item: [int(x) for x in item[0]]):
        if len(of) == 2:
            told, seen = (of[SLOW][i] / of[FAST][i] for i in (0, 1))
            off.append(told / seen)
            lines.append([f"tp{tp} pp{pp}", isl, f"{told:.2f}", f"{seen:.2f}", f"{off[-1]:.2f}"])
    return table(heads, [*lines, ["typical factor", "", "", "", figures(off)[2]]])

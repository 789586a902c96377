"""Small machines against measured runs: `python -m benchmarks.offload [--fit]`.

Rows of `consumer_offload_bench.csv` in a folder `shared` beside the repository: llama.cpp with Llama-3 8B and
70B in GPU memory (rates, and which ran out of memory), and DeepSeek-V3 with its experts in host memory under
KTransformers and llama.cpp. Seconds of a token and of the prompt are predicted as `plan` predicts them, one
request at a time; Q4_K_M is taken as 4.84 bits a weight, all over.

`--fit` finds what engines get of a host (planner/cost/host.yaml): shares of its bandwidth
and of its FLOP/s, from KTransformers' 18 runs. Left out in turn: each release, each number of experts a
token, and one socket against two. llama.cpp has one run, on two sockets whose memory it does not tell apart:
what it says is a half of what is taken. The releases measured computed prompts on the CPU too: none copied
experts to the GPU.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from scipy.optimize import least_squares

from benchmarks.scores.render import table
from benchmarks.truth import DATA
from cluster_configs import devices
from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Device, Host, Node, NodeClass
from model_zoo import catalog
from model_zoo.schema import ModelCard
from planner.cost.attention import Load
from planner.cost.host import HostStage, HostUse, host_use
from planner.cost.memory import fullest_at, kv_bytes_per_seq, room_by_stage
from planner.cost.model import CostModel
from planner.cost.offload import OffloadModel
from planner.cost.reserve import default_tokens_per_step, device_bytes
from planner.designs.precision import precisions
from planner.designs.shape import Designs, designs_of, like

FILE = DATA / "consumer_offload_bench.csv"

Q4_GROUP = 19
"""Weights a scale of 16 bits, for 4.84 bits a weight: Q4_K_M's mean over such models. Its embedding and LM
head, of 6 bits, count as 8."""

GIB = 2**30 / 1e9

KNOWN = {
    "3090": "rtx-3090",
    "4090": "rtx-4090",
    "RTX 4090": "rtx-4090",
    "RTX A6000": "rtx-a6000",
    "RTX 6000 Ada": "rtx-6000-ada",
    "A40": "a40",
    "L40S": "l40s",
    "A100 PCIe": "a100-pcie",
    "A100 SXM": "a100-sxm",
    "H100 PCIe": "h100-pcie",
    "M2 Ultra 76-Core GPU": "m2-ultra",
}
LIKE = {  # memory GiB, GB/s, tensor rate relative to a known device (cores x boost clock of the datasheets)
    "3070": ("rtx-3090", 8, 448, 0.57),
    "3080": ("rtx-3090", 10, 760, 0.84),
    "3080 Ti": ("rtx-3090", 12, 912, 0.96),
    "4070 Ti": ("rtx-4090", 12, 504, 0.49),
    "4080": ("rtx-4090", 16, 717, 0.59),
    "RTX 4090D": ("rtx-4090", 24, 1008, 0.89),
    "RTX 4000 Ada": ("rtx-6000-ada", 20, 360, 0.29),
    "RTX 5000 Ada": ("rtx-6000-ada", 32, 576, 0.72),
    "M1 7-Core GPU": ("m2-ultra", 8, 68, 0.084),
    "M1 Max 32-Core GPU": ("m2-ultra", 64, 400, 0.38),
    "M3 Max 40-Core GPU": ("m2-ultra", 64, 400, 0.52),
}
SOCKET = Host(memory_gb=500, gb_per_s=8 * 4.8 * 8, tflops=32 * 2.2 * 64 / 1e3, pcie_gb_per_s=32)
"""A Xeon Gold 6454S: eight channels of DDR5-4800; 32 cores at 2.2 GHz with two AVX-512 FMA units (fp32)."""

ENGINES = {"ktransformers": "sglang", "llama.cpp": "llama.cpp"}
"""KTransformers' kernels are SGLang's in today's releases."""


@dataclass(frozen=True)
class Row:
    """One run; rates in tok/s, None where it was not measured."""

    engine: str  # as the planner calls it
    release: str
    model: str
    quant: str
    gpu: str
    gpus: int
    prompt: int
    output: int
    decode: float | None
    prefill: float | None
    ran: bool
    experts: int | None  # of a token; None: the model's
    sockets: int  # 0: no host

    @property
    def label(self) -> str:
        if self.sockets:
            return f"{self.release}, experts on CPU"
        return (
            f"llama.cpp {self.model} {self.quant}, {'unified memory' if self.gpu.startswith('M') else 'GPUs'}"
        )


@dataclass(frozen=True)
class Timed:
    """A row, what was predicted of it, and the natural log of predicted over measured seconds by phase."""

    row: Row
    off: dict[str, float]


def rows() -> Iterator[Row]:
    """Of the two engines; the others of the table are offline batches of another issue."""
    with FILE.open(newline="", encoding="utf-8") as lines:
        for x in csv.DictReader(lines):
            release = x["engine"]
            engine = ENGINES.get(release.split()[0])
            if engine is None:
                continue
            note, host = x["note"], x["cpu_dram"] != ""
            yield Row(
                engine=engine,
                release=release,
                model=x["model"],
                quant=x["quant"],
                gpu=x["gpu"],
                gpus=int(x["n_gpus"]),
                prompt=int(x["prompt_len"]),
                output=int(x["output_len"] or 300),
                decode=float(x["decode_tok_s"]) if x["decode_tok_s"] else None,
                prefill=float(x["prefill_tok_s"]) if x["prefill_tok_s"] else None,
                ran=x["status"] == "ok",
                experts=int(note[0]) if "experts per token" in note else None,
                sockets=(1 if "single socket" in note else 2) if host else 0,
            )


@cache
def device(name: str) -> Device:
    """A device of the shipped ones, or one like it by its datasheet."""
    if name in KNOWN:
        return devices.find(KNOWN[name])
    base, memory, bandwidth, rate = LIKE[name]
    known = devices.find(base)
    tflops = {kind: rate * x for kind, x in known.tflops.items()}
    about = {"memory_gb": memory * GIB, "memory_gb_per_s": bandwidth, "tflops": tflops}
    return known.model_copy(update=about)


@cache
def node(gpu: str, gpus: int, sockets: int) -> NodeClass:
    """One machine."""
    own = device(gpu)
    host = None
    if sockets:
        wide = {
            name: sockets * (x or 0.0)
            for name, x in SOCKET
            if name not in ("pcie_gb_per_s", "gpus_per_pcie_root", "sockets")
        }
        host = SOCKET.model_copy(update=wide | {"sockets": sockets})
    cluster = Cluster(nodes=[Node(device=own.name, gpus_per_node=gpus, host=host)])
    made = resolve(cluster, devices={own.name: own}).classes[0]
    return replace(made, device=own)


@cache
def card(model: str, quant: str, experts: int | None) -> ModelCard:
    """The model in four bits as Q4_K_M has them, or in 16."""
    found, _ = catalog.find(model.lower().removesuffix("-671b"))
    own = {"int4_group": Q4_GROUP} | ({} if quant == "F16" else {"embedding": "int8"})
    found = found.model_copy(update={"weights": found.weights.model_copy(update=own)})
    if experts is None:
        return found
    ffns = {
        n: f.model_copy(update={"top_k": experts}) if f.kind == "moe" else f for n, f in found.ffns.items()
    }
    return ModelCard.model_validate(found.model_copy(update={"ffns": ffns}).model_dump())


def predict(row: Row, use: HostUse | None = None) -> dict[str, float]:
    """Seconds of a token ("decode") and of the prompt ("prefill")."""
    own, at = card(row.model, row.quant, row.experts), node(row.gpu, row.gpus, row.sockets)
    used = precisions(own, None if row.quant == "F16" else "int4_wo")
    if row.sockets:
        moe = sum(layer.ffn is not None and layer.ffn.kind == "moe" for layer in own.stack)
        staging = (HostStage(at.id, 1, (0, len(own.stack)), moe),)
        beside = OffloadModel(own, at, [staging], row.engine, used)
        beside.use = replace(use or beside.use, pcie=0.0)
        model: CostModel = beside
        designs: Designs = designs_of([staging])
    else:
        model, designs = CostModel(own, at, row.engine, used), like(1, 1, row.gpus)
    context = row.prompt + row.output / 2 if row.sockets else row.output / 2
    found = {"decode": float(model.step_s(designs, Load.of(1.0, context))[0])}
    most = max(row.prompt, 1) if row.sockets else default_tokens_per_step("llama.cpp", 1.0)
    chunks, pp = int(np.ceil(row.prompt / most)), int(model.concurrent(designs)[0])
    each = model.step_s(designs, Load.of(0.0, 0.0, pp * row.prompt / chunks, row.prompt / 2))
    return found | {"prefill": float((chunks + pp - 1) / pp * each[0])}


def timed(row: Row, use: HostUse | None = None) -> Timed:
    """Against what was measured; `use`: other shares of the host than the shipped ones."""
    found = predict(row, use)
    measured = {"decode": row.decode and 1 / row.decode, "prefill": row.prefill and row.prompt / row.prefill}
    return Timed(row, {k: float(np.log(found[k] / s)) for k, s in measured.items() if s})


def fits(row: Row) -> bool:
    """Whether the model and the cache of the run find room in GPU memory."""
    own, at = card(row.model, row.quant, None), node(row.gpu, row.gpus, 0)
    used = precisions(own, None if row.quant == "F16" else "int4_wo")
    designs = like(1, 1, row.gpus)
    every = room_by_stage(own, device_bytes(at.device), designs, used, "llama.cpp", 512, max_sequences=1)
    left = fullest_at(own, designs, used, "llama.cpp", every)
    prompt = np.array([float(row.prompt)])
    need = kv_bytes_per_seq(own, designs, used, "llama.cpp", prompt, stage=left.stage)
    return bool(left.kv_bytes[0] >= need[0, 0])


def main() -> None:
    """Read, predict, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fit", action="store_true", help="find what engines get of a host")
    wanted = parser.parse_args().fit
    if not FILE.is_file():
        print("skipped: no measurements beside the repository", file=sys.stderr)
        return
    every = list(rows())
    hosted = [row for row in every if row.sockets]
    if wanted:
        print(fitted(hosted))
        return
    ran = [timed(row) for row in every if row.ran]
    print(by_group(ran), each_hosted([x for x in ran if x.row.sockets]), verdicts(every), sep="\n\n")


def by_group(ran: list[Timed]) -> str:
    """Errors of each group of rows and of all."""
    groups: dict[str, list[Timed]] = defaultdict(list)
    for x in ran:
        groups[x.row.label].append(x)
    heads = ("", "n", "token: median off", "ratio", "prompt: median off", "ratio")
    lines = [_line(name, group) for name, group in groups.items()] + [_line("all", ran)]
    return table(heads, lines)


def _line(name: str, group: Iterable[Timed]) -> tuple[str, ...]:
    found = list(group)
    cells = [name, str(len(found))]
    for phase in ("decode", "prefill"):
        off = np.array([x.off[phase] for x in found if phase in x.off])
        cells += [f"{np.median(np.abs(np.expm1(off))):.1%}", f"{np.exp(np.median(off)):.2f}"]
    return tuple(cells)


def each_hosted(ran: list[Timed]) -> str:
    """Every run with experts in host memory."""
    heads = (
        "experts in host memory",
        "experts a token",
        "sockets",
        "prompt",
        "tok/s",
        "predicted",
        "prompt tok/s",
        "predicted",
    )
    lines = []
    for x in ran:
        row = x.row
        assert row.decode
        assert row.prefill
        figures = (
            row.decode,
            row.decode / np.exp(x.off["decode"]),
            row.prefill,
            row.prefill / np.exp(x.off["prefill"]),
        )
        about = (row.release, str(row.experts), str(row.sockets), str(row.prompt))
        lines.append((*about, *(f"{f:.3g}" for f in figures)))
    return table(heads, lines)


def verdicts(every: list[Row]) -> str:
    """Which runs in GPU memory were said to fit."""
    own = [(row, fits(row)) for row in every if not row.sockets]
    right = [row.ran == said for row, said in own]
    wrong = [
        f"- {row.gpus} x {row.gpu} {row.model} {row.quant}: {'ran' if row.ran else 'out of memory'}"
        for row, said in own
        if row.ran != said
    ]
    some = (
        f"fits or not: {sum(right)} of {len(own)} right ({sum(not r.ran for r, _ in own)} ran out of memory)"
    )
    return "\n".join([some + (", wrong:" if wrong else ""), *wrong])


FIGURES = ("memory", "compute")


def fitted(hosted: list[Row]) -> str:
    """The figures by engine and sockets, and errors of rows that were left out."""
    lines = []
    groups: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in hosted:
        groups[row.engine, row.sockets].append(row)
    for (engine, sockets), own in groups.items():
        use = fit(own)
        shares = f"memory {use.memory:.2f}, compute {use.compute:.2f}"
        lines.append(f"{engine}, {sockets} sockets, {len(own)} runs: {shares}")
    kt = [row for row in hosted if row.engine == "sglang"]
    parts: dict[str, Callable[[Row], object]] = {
        "release": lambda r: r.release,
        "experts a token": lambda r: r.experts,
        "sockets": lambda r: r.sockets,
    }
    for name, part in parts.items():
        off = []
        for value in sorted({part(r) for r in kt}, key=str):
            use = fit([r for r in kt if part(r) != value])
            off += [timed(r, use) for r in kt if part(r) == value]
        lines.append(_words(f"{name} left out", off))
    return "\n".join(lines)


def _words(name: str, off: list[Timed]) -> str:
    _, _, decode, by, prefill, prompt_by = _line(name, off)
    return f"{name}: token {decode} (x {by}), prompt {prefill} (x {prompt_by})"


def fit(some: list[Row]) -> HostUse:
    """The shares that predict `some` best: least squares of logs, outliers damped."""
    start = host_use(some[0].engine, some[0].sockets)

    def use(x: np.ndarray) -> HostUse:
        return replace(start, **dict(zip(FIGURES, np.exp(x).tolist(), strict=True)))

    def off(x: np.ndarray) -> np.ndarray:
        return np.array([v for r in some for v in timed(r, use(x)).off.values()])

    at = np.log([getattr(start, name) for name in FIGURES])
    return use(least_squares(off, at, loss="soft_l1", f_scale=0.1).x)


if __name__ == "__main__":
    main()

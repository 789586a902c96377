"""What balancing experts is worth to a decoding replica, and how sure that is:
`python -m benchmarks.wide_experts`.

1. DeepSeek-V3 on 32 H200 (4 nodes), attention-dp 32 and ep 32, every GPU decoding so many sequences at a mean
   context of 2,048: TPOT by where the experts are.

       in order   8 experts a GPU as the checkpoint has them
       groups     engines' default balancer, greedy: whole groups of experts to nodes, copies within the node
                  to what is loaded most, heaviest first to the GPU with the least
       greedy     the same without groups
       ours       `solvers/experts`
       ideal      every GPU the same

   Loads are drawn by a law, a layer at a time: nobody's recording is public. No run of such a replica is
   among the measurements either: the 80 % band of TPOT is as wide as for all that was never seen.

2. Kernels of its experts on one rank, against the tables. SGLang's and vLLM's rows of this shape are odd: at
   ep 1 they take less than reading the touched weights at peak bandwidth, at ep 8 and more much longer than
   those of other models. The shipped fits are over all models (5 and 7 % median), TensorRT-LLM's rows agree.
3. Tokens to their experts and back, against the tables: DeepEP on 8 GPUs, TensorRT-LLM's over NVLink on 8-64.

2 and 3 need the kernel tables beside the repository and pyarrow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec

import numpy as np

from benchmarks.expert_fits import as_case, expert_table
from benchmarks.kernel_fits import OPS, Table, read, where
from cluster_configs.reading import from_gpus
from model_zoo import catalog
from model_zoo.schema import WEIGHT_BYTES
from planner.cost.attention import Load
from planner.cost.calibration import shipped
from planner.cost.communication import MEASURED_EXCHANGE_GPUS, Links
from planner.cost.efficiency.reading import Chip, Efficiency
from planner.cost.memory import default_tokens_per_step
from planner.cost.model import CostModel
from planner.cost.popularity import Popularity
from planner.cost.tuning import AS_MEASURED
from planner.designs.precision import precisions
from planner.designs.shape import Designs, Floats, Ints
from planner.problems.balance import Balanced, fullest, place
from solvers.linear import Limits

GPUS, NODES, GROUPS, COPIES = 32, 4, 8, 32
CONTEXT = 2048.0
BATCHES = (32, 128)
LAWS = {"log-normal 0.6": 0.6, "log-normal 1.0": 1.0}
"""Standard deviation of the logarithm of an expert's load."""

Z80 = 1.2815515655


class Known(Popularity):
    """The fullest rank gets so many times the mean."""

    def __init__(self, hottest: float) -> None:
        self.full = hottest

    def hottest(self, experts: int, ep: int, redundant: int) -> float:
        return self.full


def drawn(layers: int, experts: int, spread: float) -> Floats:
    """Loads (1, layers, experts)."""
    return np.random.default_rng(5).lognormal(0.0, spread, (1, layers, experts))


def packed(load: Floats, ids: Ints, gpus: int) -> list[list[int]]:
    """Heaviest first to the GPU with the least that has a slot left."""
    each = load[ids] / np.bincount(ids, minlength=len(load))[ids]
    slots, held = len(ids) // gpus, [list[int]() for _ in range(gpus)]
    carried = np.zeros(gpus)
    for i in np.argsort(-each, kind="stable"):
        free = [g for g in range(gpus) if len(held[g]) < slots]
        gpu = min(free, key=lambda g: carried[g])
        held[gpu].append(int(ids[i]))
        carried[gpu] += each[i]
    return held


def copied(load: Floats, slots: int) -> Ints:
    """Every expert once, and each further slot for the expert whose replicas carry most."""
    counts = np.ones(len(load))
    for _ in range(slots - len(load)):
        counts[(load / counts).argmax()] += 1
    return np.repeat(np.arange(len(load)), counts.astype(int))


def greedy(load: Floats, copies: int, nodes: int) -> list[list[int]]:
    """One layer; with several `nodes` groups of experts stay whole."""
    groups = np.arange(len(load)).reshape(GROUPS, -1) if nodes > 1 else np.arange(len(load))[None]
    homes = packed(load[groups].sum(axis=1), np.arange(len(groups)), nodes)
    found: list[list[int]] = []
    for home in homes:
        own = groups[home].ravel()
        ids = own[copied(load[own], (len(load) + copies) // nodes)]
        found += packed(load, ids, GPUS // nodes)
    return found


def placements(tokens: Floats) -> list[tuple[str, int, float]]:
    """Way, copies, and how full it leaves the fullest GPU."""

    def full(copies: int, nodes: int) -> float:
        return fullest(tokens, np.array([greedy(load, copies, nodes) for load in tokens[0]]))

    def ours(copies: int) -> float:
        found = place(tokens[0], GPUS, copies, GPUS // NODES, Limits(seconds=20.0))
        return fullest(tokens, np.array(found.place))

    return [
        ("in order", 0, Balanced(tokens).in_order(tokens.shape[2], GPUS)),
        ("greedy", 0, full(0, 1)),
        ("ours", 0, ours(0)),
        ("groups", COPIES, full(COPIES, NODES)),
        ("greedy", COPIES, full(COPIES, 1)),
        ("ours", COPIES, ours(COPIES)),
        ("ideal", 0, 1.0),
        ("ideal", COPIES, 1.0),
    ]


def decoding() -> list[list[str]]:
    """One row a law and way: copies, fullest GPU, KV room, and TPOT with its band at each batch."""
    card, _ = catalog.find("deepseek-v3")
    node = from_gpus(f"{GPUS}xH200").classes[0]
    ep = np.array([GPUS])
    one = np.ones_like(ep)
    heads = ["loads", "experts", "copies", "fullest / mean", "KV GB a GPU"]
    rows = [heads + [f"TPOT ms at {b} a GPU (80 % band)" for b in BATCHES]]
    for law, spread in LAWS.items():
        for way, copies, full in placements(drawn(58, 256, spread)):
            designs = Designs(one, one, ep, one, ep, redundant=copies * one, cp=one)
            calibration = replace(shipped(), popularity=Known(full))
            cost = CostModel(card, node, "sglang", precisions(card), calibration)
            budget = default_tokens_per_step("sglang", node.device.memory_gb * 1e9)
            kv = cost.memory(designs, budget, CONTEXT).kv_bytes[0] / 1e9
            reach = math.exp(Z80 * cost.sigmas(designs)[1, 0])
            steps = [1e3 * cost.step_s(designs, Load.of(b, CONTEXT))[0] for b in BATCHES]
            times = [f"{s:.1f} ({s / reach:.1f}-{s * reach:.1f})" for s in steps]
            rows.append([law, way, str(copies), f"{full:.3f}", f"{kv:.1f}", *times])
    return rows


def kernels() -> list[list[str]]:
    """One row an engine and ep: error of the shipped fits on H200 (balanced routing, 1 to 16,384 tokens), and
    how much longer the fullest rank takes under a power law of 1.2, measured and as the model has it."""
    node = from_gpus("8xH200").classes[0]
    heads = ["engine", "ep", "rows", "median error %", "P90 %", "bias %", "power law / balanced", "model's"]
    rows = [heads]
    for engine in ("sglang", "trtllm", "vllm"):
        fit = Efficiency(node.device, engine, AS_MEASURED).fit("moe", "fp8_block")
        table = _own(expert_table("h200_sxm", engine))
        case = as_case(table, Chip.of(node.device), WEIGHT_BYTES["fp8_block"])
        off = case.predict(fit) / case.measured_s - 1
        longer = _longer(engine)
        for ep in (8, 16, 32, 64, 128, 256):
            at = (table["moe_ep_size"] == ep) & (table["moe_tp_size"] == 1)
            if at.any():
                found = (*np.quantile(np.abs(off[at]), (0.5, 0.9)), np.median(off[at]))
                full = Popularity().in_order(256, ep)
                rows.append(
                    [
                        engine,
                        str(ep),
                        str(at.sum()),
                        *(f"{100 * x:.0f}" for x in found),
                        f"{longer[ep]:.2f}",
                        f"{full:.2f}",
                    ]
                )
    return rows


def _own(table: Table) -> Table:
    """Rows of DeepSeek-V3's experts."""
    same = (table["hidden_size"] == 7168) & (table["inter_size"] == 2048) & (table["num_experts"] == 256)
    return where(table, same & (table["dtype"] == "fp8_block"))


def _longer(engine: str) -> dict[int, float]:
    """Measured time under the power law over balanced, by ep, median over at least 1,024 tokens."""
    columns = ("backend", "distribution", "dtype", "hidden_size", "inter_size", "num_experts", "num_tokens")
    table = _own(read("moe", "h200_sxm", (*columns, "moe_ep_size", "moe_tp_size", "latency_ms")))
    table = where(table, (table["backend"] == engine) & (table["moe_tp_size"] == 1))
    taken: dict[tuple[int, int], dict[str, float]] = {}
    for kind, ep, tokens, ms in zip(
        *(table[n] for n in ("distribution", "moe_ep_size", "num_tokens", "latency_ms")), strict=True
    ):
        taken.setdefault((int(ep), int(tokens)), {})[kind] = ms
    found: dict[int, list[float]] = {}
    for (ep, tokens), both in taken.items():
        if tokens >= 1024 and len(both) == 2:
            found.setdefault(ep, []).append(both["power_law_1.2"] / both["balanced"])
    return {ep: float(np.median(ratios)) for ep, ratios in found.items()}


def messages() -> list[list[str]]:
    """One row a library and group: error of the shipped alpha and beta, tokens to their experts (8 bits a
    value) and back (16)."""
    rows = [["library", "system", "GPUs", "way", "rows", "median error %", "P90 %", "bias %"]]
    for system, library, implementation in (
        ("h200_sxm", "deepep", "deepep_low_latency"),
        ("b200_sxm", "deepep", "deepep_low_latency"),
        ("gb200", "trtllm_alltoall", "NVLinkTwoSided"),
    ):
        node = from_gpus(f"72x{system.removesuffix('_sxm')}").classes[0]
        links = Links(node, Efficiency(node.device, "sglang", AS_MEASURED))
        for way in ("dispatch", "combine"):  # top-8 throughout
            table = _exchanges(system, library, implementation, way)
            for gpus in sorted(set(table["num_gpus"].tolist())):
                own = where(table, table["num_gpus"] == gpus)
                size = own["hidden_size"] * (1.0 if way == "dispatch" else 2.0)
                many = np.full(len(size), int(gpus))
                tokens = own["num_tokens"].astype(float)
                said = links.exchange_s(tokens, size, 8, many, way)
                ratio = said / (1e-3 * own["latency_ms"])
                off = (*np.quantile(np.abs(ratio - 1), (0.5, 0.9)), np.median(ratio) - 1)
                words = [f"{100 * x:.0f}" for x in off]
                rows.append([library, system, str(int(gpus)), way, str(len(ratio)), *words])
    return rows


def _exchanges(system: str, library: str, implementation: str, way: str) -> Table:
    """Measured exchanges; DeepEP's are of MEASURED_EXCHANGE_GPUS, TensorRT-LLM's in the precisions used."""
    columns = (
        "library",
        "op",
        "impl",
        "dtype",
        "num_gpus",
        "num_tokens",
        "hidden_size",
        "topk",
        "latency_ms",
    )
    table = read("comm", system, columns)
    keep = (table["library"] == library) & (table["impl"] == implementation)
    keep &= (table["topk"] == 8) & np.char.endswith(table["op"].astype(str), way)
    if library == "trtllm_alltoall":
        keep &= table["dtype"] == ("fp8" if way == "dispatch" else "bfloat16")
    table = where(table, keep)
    if library == "deepep":
        table["num_gpus"] = np.full(len(table["num_tokens"]), MEASURED_EXCHANGE_GPUS)
    return where(table, table["num_gpus"].astype(float) >= MEASURED_EXCHANGE_GPUS)


def main() -> None:
    """Three tables; the last two only where the kernel tables are."""
    print("Decoding on 32 H200 by placement of experts\n")
    print(markdown(decoding()))
    if not OPS.exists() or find_spec("pyarrow") is None:
        print("\nkernels and messages: no kernel tables beside the repository, or no pyarrow; left out")
        return
    print("\nExperts of DeepSeek-V3 on one rank of H200, against the kernel tables\n")
    print(markdown(kernels()))
    print("\nTokens to their experts and back, against the message tables\n")
    print(markdown(messages()))


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Rows as a table, the first its heads."""
    lines = [list(rows[0]), ["---"] * len(rows[0]), *rows[1:]]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


if __name__ == "__main__":
    main()

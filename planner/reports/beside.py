"""What of a plan lies beside its GPUs, what a token then waits for, and how the engine is told."""

from __future__ import annotations

from fractions import Fraction

from rich.console import Group
from rich.table import Table
from rich.text import Text

from planner.plans.schema import Plan, Replica, Tiered
from planner.reports import words as say

PLACES = {"host": "host memory", "cxl": "CXL memory", "nvme": "NVMe"}
WAYS = {"cpu": "computed on the CPU", "pcie": "copied to the GPU in every step"}

PORT = 50052
NAMES = {"nvidia": "CUDA{}", "amd": "ROCm{}", "apple": "MTL{}", "intel": "SYCL{}", "google": "…"}
"""As llama.cpp's backends call their devices (`--list-devices`)."""

NAMED = 0.05
"""Share of a step from which on what it goes to is named."""


def beside(plan: Plan) -> Group:
    """What lies where; what a token waits for; how the engine is started so."""
    layers = sum(run["times"] * len(run["of"]) for run in plan.problem.model["layers"])
    experts = max((ffn.get("experts", 0) for ffn in plan.problem.model["ffns"].values()), default=0)
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
    for part in weights(plan):
        way = WAYS[part.way] if part.tier != "nvme" else "read when it is met"
        said = what(part, layers, experts > 0) + of_node(part, plan)
        table.add_row(part.replica, said, f"{part.bytes / 1e9:,.1f} GB", way)
    lines = []
    for r in plan.replicas:
        mine = [part for part in weights(plan) if part.replica == r.id]
        if mine:
            several = len(sites(r)) > 1
            started = (
                [*servers(r, mine, plan), server(r, mine, plan)] if several else [launch(r, mine, experts)]
            )
            lines += [Text(f"{r.id}: {bound(r)}"), *(Text(text, style="dim") for text in started)]
            lines += [Text(text, style="dim") for text in interleave(mine)]
    return Group(table, *lines)


def weights(plan: Plan) -> list[Tiered]:
    """All there but idle cache (`kept`)."""
    return [part for part in plan.tiers if part.what != "cache"]


def what(part: Tiered, layers: int, moe: bool) -> str:
    """`experts of 34 of 36 layers in host memory`, a share of them where not all are there."""
    many = sum(end - first for first, end in part.layers)
    some = "" if part.share > 0.9995 else f"{say.percent(part.share)} of the "
    if part.what == "weights":
        some = some and f"{some}weights of "
        return f"{some}{many} of {layers} layers in {PLACES[part.tier]}, their cache on the GPU"
    if some and part.what == "layers":
        moe, some = False, f"{some}weights of "
    rest = "the rest of " if moe else ""
    kind = f"{some}experts of {many}" if part.what == "experts" else f"{rest}{many}"
    cache = " and their cache" if part.what == "layers" else ""
    if some and part.what == "layers":
        kind = f"{some}{many}"
    return f"{kind} of {layers} layers{cache} in {PLACES[part.tier]}"


def interleave(parts: list[Tiered]) -> list[str]:
    """How pages are dealt to host memory and CXL memory so: Linux from 6.9 on, numactl from 2.0.19 on."""
    held = {tier: sum(part.bytes for part in parts if part.tier == tier) for tier in ("host", "cxl")}
    if not held["cxl"]:
        return []
    host, cxl = page_weights(held["host"] / (held["host"] + held["cxl"]))
    return [
        f"before it, numactl --weighted-interleave=all, with {host} in /sys/kernel/mm/mempolicy/"
        f"weighted_interleave/nodeN of each node of host memory and {cxl} in those of CXL memory"
    ]


def page_weights(share: float) -> tuple[int, int]:
    """Small whole numbers in the ratio of `share` to the rest, none 0.

    >>> page_weights(0.75), page_weights(0.8235), page_weights(0.0)
    ((3, 1), (14, 3), (1, 20))
    """
    ratio = Fraction(share).limit_denominator(20)
    host, both = ratio.numerator, ratio.denominator
    if 0 < host < both:
        return host, both - host
    return (20, 1) if host else (1, 20)


def sites(r: Replica) -> list[list[int]]:
    """Stages by the nodes that they stand on: of a replica over several, the server's are the last."""
    found: dict[tuple[str, ...], list[int]] = {}
    for i, stage in enumerate(r.stages):
        found.setdefault((stage.node_class, *stage.nodes), []).append(i)
    return sorted(found.values(), key=max)


def of_node(part: Tiered, plan: Plan) -> str:
    """Which node's memory, where the replica stands on several: its name, of several replicas the first's."""
    r = next(r for r in plan.replicas if r.id == part.replica)
    if len(sites(r)) < 2:
        return ""
    return f" of {r.stages[-1 if part.stage is None else part.stage].nodes[0]}"


def servers(r: Replica, parts: list[Tiered], plan: Plan) -> list[str]:
    """How each node but the last is started: a server of its GPUs and, where layers lie there, its CPU."""
    lines = []
    for own in sites(r)[:-1]:
        devices = [*gpu_names(r, own, plan), *["CPU"] * any(part.stage in own for part in parts)]
        name = r.stages[own[0]].nodes[0]
        lines.append(
            f"on {name} start rpc-server with --host {name} --port {PORT} --device {','.join(devices)}"
        )
    return lines


def server(r: Replica, parts: list[Tiered], plan: Plan) -> str:
    """How the last node is started; layers go to its CPU, to remote devices and to its GPUs in this order."""
    *others, home = sites(r)
    at = ",".join(f"{r.stages[own[0]].nodes[0]}:{PORT}" for own in others)
    sizes = list[int]()
    for i, stage in enumerate(r.stages):
        behind = [p for p in parts if p.stage == i and p.what == "layers" and p.tier == "host"]
        sizes += [stage.layers[1] - stage.layers[0], *(b - a for p in behind for a, b in p.layers)]
    remote = [f"RPC{i}" for i in range(len(sizes) - len(home))]
    words = [
        f"--rpc {at}",
        f"--device {','.join([*remote, *gpu_names(r, home, plan)])}",
        f"--parallel {r.max_batch}",
        f"--n-gpu-layers {sum(sizes) + 1}",
        "--tensor-split " + tensor_split(sizes),
        *overrides([part for part in parts if part.stage is None], r.stages[0].layers[0]),
        "--no-mmap",
    ]
    return " ".join([f"on {r.stages[-1].nodes[0]} start llama-server with", *words, say.chunks(r)])


def gpu_names(r: Replica, stages: list[int], plan: Plan) -> list[str]:
    """As llama.cpp calls the GPUs of a node."""
    vendor = plan.problem.devices[r.stages[stages[0]].device]["vendor"]
    return [NAMES[vendor].format(i) for i in range(len(stages))]


def tensor_split(sizes: list[int]) -> str:
    """Layers by device; the output counts as one more, on the last."""
    return ",".join(map(str, [*sizes[:-1], sizes[-1] + 1]))


def overrides(parts: list[Tiered], first: int = 0) -> list[str]:
    """Experts of these layers in host memory, from the `first` on that is not there whole."""
    experts = (i for part in parts if part.what == "experts" for a in part.layers for i in range(*a))
    away = sorted({i for i in experts if i >= first})
    return [f'--override-tensor "blk\\.({"|".join(map(str, away))})\\.ffn_.*_exps\\.=CPU"'] if away else []


def bound(r: Replica) -> str:
    """What a token waits for, the most first."""
    ranked = sorted(r.step.by.items(), key=lambda item: -item[1])
    shares = [(name, seconds / max(r.step.decode_s, 1e-12)) for name, seconds in ranked]
    named = [f"{name} {say.percent(share)}" for name, share in shares if share >= NAMED]
    if not named:
        return "one token is the prompt's own: no step decodes"
    return f"a token is bound by {named[0]}" + (f"; {', '.join(named[1:])}" if named[1:] else "")


def launch(r: Replica, parts: list[Tiered], experts: int) -> str:
    """The options that place the weights so, beside those of any server, and the tokens of a step that were
    counted with: what is copied for a prompt is copied once a step. `experts`: of a layer."""
    if r.engine == "sglang":
        kept = round(experts * (1 - sum(part.share for part in parts if part.what == "experts")))
        words = [f"--tp-size {r.tp}", f"--kt-num-gpu-experts {kept}", "--kt-weight-path …", "--kt-method …"]
        return " ".join(["start sglang and kt-kernel with", *words, say.chunks(r)])
    if r.engine == "vllm":
        first, group = parts[0].layers[0]
        words = [f"--offload-group-size {group}", f"--offload-num-in-group {group - first}"]
        words += [
            "--offload-prefetch-step 2",
            f"--tensor-parallel-size {r.tp}",
            f"--max-num-seqs {r.max_batch}",
        ]
        return " ".join(["start vllm serve with", *words, say.chunks(r)])
    away = sorted({i for part in parts if part.what == "experts" for a in part.layers for i in range(*a)})
    before, end = r.stages[0].layers[0], r.stages[-1].layers[1]
    words = [f"--parallel {r.max_batch}", f"--n-gpu-layers {end - before + 1}"]
    if away and away == list(range(away[0], away[-1] + 1)) and r.pp == 1:
        words.append("--cpu-moe" if away[-1] == end - 1 else f"--n-cpu-moe {away[-1] + 1}")
    else:
        words += overrides(parts)
    if r.pp > 1:
        words.append("--tensor-split " + tensor_split([b - a for a, b in (s.layers for s in r.stages)]))
    if not any(part.tier == "nvme" for part in parts):
        words.append("--no-mmap")
    return " ".join(["start llama-server with", *words, say.chunks(r)])

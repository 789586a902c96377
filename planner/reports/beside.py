"""What of a plan lies beside its GPUs, what a token then waits for, and how the engine is told."""

from __future__ import annotations

from rich.console import Group
from rich.table import Table
from rich.text import Text

from planner.plans.schema import Plan, Replica, Tiered
from planner.reports import words as say

PLACES = {"host": "host memory", "nvme": "NVMe"}
WAYS = {"cpu": "computed on the CPU", "pcie": "copied to the GPU in every step"}

STEP_TOKENS = {"llama.cpp": "--ubatch-size 2048 --batch-size 2048", "sglang": "--chunked-prefill-size 4096"}
"""So many tokens a step are planned for: experts copied for a prompt are copied once a step."""

NAMED = 0.05
"""Share of a step from which on what it goes to is named."""


def beside(plan: Plan) -> Group:
    """What lies where; what a token waits for; how the engine is started so."""
    layers = sum(run["times"] * len(run["of"]) for run in plan.problem.model["layers"])
    experts = max((ffn.get("experts", 0) for ffn in plan.problem.model["ffns"].values()), default=0)
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
    for part in weights(plan):
        way = WAYS[part.way] if part.tier == "host" else "read when it is met"
        table.add_row(part.replica, what(part, layers, experts > 0), f"{part.bytes / 1e9:,.1f} GB", way)
    lines = []
    for r in plan.replicas:
        mine = [part for part in weights(plan) if part.replica == r.id]
        if mine:
            lines += [Text(f"{r.id}: {bound(r)}"), Text(launch(r, mine, experts), style="dim")]
    return Group(table, *lines)


def weights(plan: Plan) -> list[Tiered]:
    """All there but idle cache (`kept`)."""
    return [part for part in plan.tiers if part.what != "cache"]


def what(part: Tiered, layers: int, moe: bool) -> str:
    """`experts of 34 of 36 layers in host memory`, a share of them where not all are there."""
    many = sum(end - first for first, end in part.layers)
    if part.what == "weights":
        return f"{many} of {layers} layers in {PLACES[part.tier]}, their cache on the GPU"
    some = "" if part.share > 0.9995 else f"{say.percent(part.share)} of the "
    rest = "the rest of " if moe else ""
    kind = f"{some}experts of {many}" if part.what == "experts" else f"{rest}{many}"
    cache = " and their cache" if part.what == "layers" else ""
    return f"{kind} of {layers} layers{cache} in {PLACES[part.tier]}"


def bound(r: Replica) -> str:
    """What a token waits for, the most first."""
    ranked = sorted(r.step.by.items(), key=lambda item: -item[1])
    shares = [(name, seconds / max(r.step.decode_s, 1e-12)) for name, seconds in ranked]
    named = [f"{name} {say.percent(share)}" for name, share in shares if share >= NAMED]
    return f"a token is bound by {named[0]}" + (f"; {', '.join(named[1:])}" if named[1:] else "")


def launch(r: Replica, parts: list[Tiered], experts: int) -> str:
    """The options that place the weights so, beside those of any server; `experts`: of a layer."""
    if r.engine == "sglang":
        kept = round(experts * (1 - sum(part.share for part in parts if part.what == "experts")))
        words = [f"--tp-size {r.tp}", f"--kt-num-gpu-experts {kept}", "--kt-weight-path …", "--kt-method …"]
        return " ".join(["start sglang and kt-kernel with", *words, STEP_TOKENS[r.engine]])
    if r.engine == "vllm":
        first, group = parts[0].layers[0]
        words = [f"--offload-group-size {group}", f"--offload-num-in-group {group - first}"]
        words += [
            "--offload-prefetch-step 2",
            f"--tensor-parallel-size {r.tp}",
            f"--max-num-seqs {r.max_batch}",
        ]
        return " ".join(["start vllm serve with", *words])
    away = sorted({i for part in parts if part.what == "experts" for a in part.layers for i in range(*a)})
    before, end = r.stages[0].layers[0], r.stages[-1].layers[1]
    words = [f"--parallel {r.max_batch}", f"--n-gpu-layers {end - before + 1}"]
    if away and away == list(range(away[0], away[-1] + 1)) and r.pp == 1:
        words.append("--cpu-moe" if away[-1] == end - 1 else f"--n-cpu-moe {away[-1] + 1}")
    elif away:
        words.append(f'--override-tensor "blk\\.({"|".join(map(str, away))})\\.ffn_.*_exps\\.=CPU"')
    if r.pp > 1:
        words.append("--tensor-split " + ",".join(str(b - a) for a, b in (s.layers for s in r.stages)))
    if not any(part.tier == "nvme" for part in parts):
        words.append("--no-mmap")
    return " ".join(["start llama-server with", *words, STEP_TOKENS["llama.cpp"]])

"""Valid but odd problems: `python -m benchmarks.odd [--cases 1000] [--minutes 20] [--seed 0] [--only N]
[--keep FOLDER] [--of buy|schedule|vast] [--cpu]`.

One to five classes, nodes of 3 and 7 GPUs or with GPUs of several kinds, tiny and huge memories, prices of
0, links of a modem, answers of one token, forty buckets, models of one layer, two models at once, a request
in thirty years, limits that contradict. Each must end within its time limit and two seconds with a plan that
`check` accepts and other commands read, a proof that there is none with what would help, or exit 4 or 5; all
figures finite, no warning of numpy. Prints what came of them and what was wrong, and keeps each failure as a
folder with its command; exits with 1 where anything was wrong.
`--of` names other commands than `plan` (`odder.py`).
With `--cpu` the planner's clock tells seconds of the processor, its solvers' processes included: on a machine
that others use a limit of seconds on the wall says little.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import chdir
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.fuzz.judging import Answer, answered, memory
from benchmarks.fuzz.writing import written
from benchmarks.odder import KINDS

TIME_LIMIT_S = 5
GRACE_S = 2
EXITS = {0: "planned", 2: "refused", 3: "proven infeasible", 4: "planned, gap open", 5: "out of time"}
READERS = (
    "report plan.json -o plan.html",
    *(f"export plan.json --to {kind} -o {kind}" for kind in ("compose", "k8s", "slurm", "dynamo")),
    "diff plan.json plan.json",
)
"""Commands that read a plan, tried with every `SELDOM`th: they print something, or refuse it in words."""

SELDOM = 4
Tree = dict[str, Any]


@dataclass(frozen=True)
class Problem:
    """Files by name, and the command that plans them."""

    files: dict[str, bytes]
    command: str


@dataclass(frozen=True)
class Outcome:
    """How a problem ended; `wrong`: why it should not have ended so; `said`: why it was refused or has no
    plan."""

    number: int
    code: int
    seconds: float
    wrong: str | None
    said: str


def problem(seed: int, number: int, of: str = "plan") -> Problem:
    """The same problem on every machine."""
    if of in KINDS:
        files, command = KINDS[of](random.Random(f"{seed}/{number}/{of}"))
        return Problem(files, f"{command} --time-limit {TIME_LIMIT_S}")
    r = random.Random(f"{seed}/{number}")
    model, files = _model(r)
    cluster, workload, options = _cluster(r), _workload(r), " ".join(_options(r))
    if ("--objective" in options and "throughput" not in options) or "--survive" in options:
        workload.setdefault("rate_rps", 0.5)  # it would be refused
    if "usd" in options or "cost" in options or "rate_rps" in workload:
        for node in cluster["nodes"]:
            node.setdefault("price_usd_per_hour", 4)
    odder = random.Random(f"{seed}/{number}/odder")
    _unlike(odder, cluster)
    options += _further(odder)
    files["cluster.yaml"] = written("cluster.yaml", cluster)
    files["workload.yaml"] = written("workload.yaml", workload)
    limit = f"--time-limit {TIME_LIMIT_S}"
    command = f"plan cluster.yaml -m {model} -w workload.yaml {limit} {options} -o plan.json"
    return Problem(files, command)


def _some(r: random.Random, **fields: tuple[Any, ...]) -> Tree:
    """Each field with even odds, its value one of those given."""
    return {name: r.choice(values) for name, values in fields.items() if r.random() < 0.5}


@cache
def _devices() -> tuple[str, ...]:
    from cluster_configs.devices import names

    return tuple(names())


@cache
def _models() -> tuple[str, ...]:
    from model_zoo.catalog import names

    return tuple(names())


def _cluster(r: random.Random) -> Tree:
    kinds = r.sample(_devices(), r.choice((1, 1, 2, 2, 3, 4, 5)))
    own: Tree = {}
    if r.random() < 0.2:
        own["odd"] = {
            "generation": r.choice(("volta", "ampere", "hopper", "cdna3", "apple")),
            "memory_gb": r.choice((0.5, 3, 48, 5000)), "memory_gb_per_s": r.choice((1, 300, 1e5)),
            "tflops": {"fp16": r.choice((0.1, 40, 1e5))},
        }  # fmt: skip
        kinds[0] = "odd"
    nodes = [_node(r, f"n{i}", kind) for i, kind in enumerate(kinds)]
    zones = sorted({node.get("zone", "default") for node in nodes})
    links = [
        {
            "between": list(pair),
            "gb_per_s": r.choice((1e-6, 0.01, 1.25, 1e4)),
            "latency_ms": r.choice((0, 0.1, 30, 5000)),
        }
        for pair in pairwise(zones)
        if r.random() < 0.7
    ]
    overrides = (
        {kinds[-1]: {"memory_gb": r.choice((1, 6, 94, 4000))}}
        if r.random() < 0.15 and kinds[-1] != "odd"
        else {}
    )
    own_draws = random.Random(str(nodes))
    caps = {z: own_draws.choice((300, 3000, 3e4, 1e6)) for z in zones if own_draws.random() < 0.1}
    parts = _if(links=links, device_overrides=overrides, devices=own, power_caps_watts=caps)
    return {"name": "odd", "nodes": nodes} | parts


def _if(**parts: Any) -> Tree:
    """Those that hold anything."""
    return {name: part for name, part in parts.items() if part}


def _node(r: random.Random, name: str, device: str) -> Tree:
    per_node = r.choice((1, 1, 2, 3, 4, 5, 7, 8, 16))
    node: Tree = {
        "name": name,
        "count": r.choice((1, 1, 1, 2, 3, 7, 64, 3000)),
        "device": device,
        "gpus_per_node": per_node,
    }
    node |= _some(
        r, price_usd_per_hour=(0, 1e-6, 0.4, 12.5, 1e6), power_cap_watts=(150, 2000, 1e5), zone=("a", "b",
            "c"),
        intra_gb_per_s=(0.05, 4, 32, 900), nic_gb_per_s=(0.001, 0.125, 3, 50, 2000),
        nic=("infiniband", "roce", "ethernet"), spot=(True, False), availability=(1e-3, 0.5, 0.97, 1),
    )  # fmt: skip
    if r.random() < 0.3:
        node["host"] = {
            "memory_gb": r.choice((0.5, 16, 256, 4096)),
            "gb_per_s": r.choice((1, 40, 400)),
        } | _some(
            r, tflops=(0.01, 2, 10), pcie_gb_per_s=(0.1, 16, 55), gpus_per_pcie_root=(1, 2, 8), sockets=(1, 2)
        )
    if r.random() < 0.15 and "host" in node:
        node["tiers"] = [{"kind": r.choice(("nvme", "cxl", "remote")), "gb": r.choice((1, 512, 1e5)),
                          "read_gb_per_s": r.choice((0.05, 6, 60)), "write_gb_per_s": r.choice((0.01, 3)),
                          "shared_by": r.choice(("node", "cluster", "gpu"))}]  # fmt: skip
    return node


def _unlike(r: random.Random, cluster: Tree) -> None:
    """A node gets GPUs of several kinds, sometimes no name; links to it would be refused."""
    if r.random() >= 0.15:
        return
    node = r.choice(cluster["nodes"])
    kinds = r.sample(_devices(), r.choice((1, 2, 2, 3)))
    node["gpus"] = [{"device": kind} | _some(r, count=(1, 2, 5)) for kind in kinds]
    node["count"] = r.choice((1, 1, 2, 4))
    device, gone = node.pop("device"), {node["name"], node.get("zone", "default")}
    del node["gpus_per_node"]
    cluster["links"] = [link for link in cluster.get("links", ()) if not gone & {*link["between"]}]
    if device in cluster.get("device_overrides", {}):
        del cluster["device_overrides"]
    if r.random() < 0.3:
        del node["name"]
    for empty in [name for name in ("links", "devices") if not cluster.get(name)]:
        cluster.pop(empty, None)


def _further(r: random.Random) -> str:
    """More options of `plan`, each seldom."""
    made = []
    several = {
        "--precision": ("fp8", "int4", "bf16"), "--kv-precision": ("fp8", "bf16"),
        "--precisions": ("fp8,nvfp4",), "--e2e-ms": ("1", "30000"), "-m": ("qwen3-8b", "llama-3.1-8b"),
    }  # fmt: skip
    for option, values in several.items():
        if r.random() < 0.05:
            made += [option, r.choice(values)]
    return " ".join(("", *made))


def _workload(r: random.Random) -> Tree:
    lengths = (1, 2, 17, 128, 1000, 4096, 30_000)
    count = r.choice((1, 1, 1, 1, 2, 3, 8, 40))
    buckets = [
        {"isl": r.choice(lengths), "osl": r.choice(lengths[:6]), "share": r.choice((1e-9, 0.001, 1, 1, 5))}
        for _ in range(count)
    ]
    whole = sum(bucket["share"] for bucket in buckets)
    for bucket in buckets:
        bucket["share"] /= whole
    slo = _some(
        r,
        ttft_ms=(0.01, 50, 2000, 1e8),
        tpot_ms=(0.01, 15, 60, 1e6),
        percentile=("mean", "p50", "p90", "p99"),
    )
    load: Tree = {"name": "odd", "buckets": buckets} | _if(slo=slo)
    load |= _some(r, rate_rps=(1e-9, 1e-3, 0.5, 3, 40, 1e6), prefix_hit=(0, 0.5, 0.99))
    return load


def _model(r: random.Random) -> tuple[str, dict[str, bytes]]:
    """A model by name, or a configuration of few or many layers."""
    if r.random() < 0.75:
        return r.choice(_models()), {}
    heads = r.choice((1, 3, 8, 64))
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64 * heads,
        "intermediate_size": r.choice((64, 1000, 28_672)), "num_hidden_layers": r.choice((1, 2, 5, 31, 400)),
        "num_attention_heads": heads, "num_key_value_heads": r.choice((1, heads)),
        "vocab_size": r.choice((2, 257, 1_000_000)), "max_position_embeddings": 131_072,
        "torch_dtype": "bfloat16",
    }  # fmt: skip
    if r.random() < 0.3:
        config |= {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe",
            "num_experts": r.choice((2, 7, 128)),
                   "num_experts_per_tok": r.choice((1, 2)), "moe_intermediate_size": 64,
                   "head_dim": 64}  # fmt: skip
    return "config.json", {"config.json": written("config.json", config)}


def _options(r: random.Random) -> list[str]:
    """Options of `plan`; a limit may contradict another."""
    made = []
    several = {
        "--engine": ("vllm", "sglang", "trtllm", "llama.cpp", "chains"), "--objective": ("throughput",
        "cost", "energy", "latency", "gpus"),
        "--budget": ("usd_per_hour=1e-9", "usd_per_hour=30", "gpus=1", "gpus=5", "watts=1", "watts=900",
                     "gpus=100,usd_per_hour=20"),
        "--simple": ("0", "0.05", "0.9"), "--risk": ("1e-6", "0.01", "0.1", "0.5"),
        "--max-utilisation": ("0.01", "0.5", "0.99"),
        "--survive": ("node", "2", "1:50%"), "--gap": ("0", "0.001", "0.5"), "--speculation": ("auto",
        "ngram --acceptance 0.6", "eagle --acceptance 0.99"),
        "--percentile": ("p50", "p99"), "--ttft-ms": ("none", "1", "500"), "--tpot-ms": ("none", "1", "40"),
        "--seed": ("1", "7"),
    }  # fmt: skip
    for option, values in several.items():
        if r.random() < 0.2:
            made += [option, r.choice(values)]
    return made


def outcome(seed: int, number: int, of: str = "plan") -> Outcome:
    """Plans problem `number` and judges the answer."""
    asked = problem(seed, number, of)
    with TemporaryDirectory(prefix="odd-") as folder, chdir(folder):
        for name, data in asked.files.items():
            Path(name).write_bytes(data)
        answer = answered(asked.command, patience_s=60)
        wrong = _wrong(answer)
    return Outcome(number, answer.code, answer.seconds, wrong, _said(answer))


def _said(answer: Answer) -> str:
    lines = [line for line in answer.stderr.splitlines() if line.startswith("error:")]
    return re.sub(r"`[^`]*`|[\d.,]+", "…", lines[0])[:100] if lines else ""


def _wrong(answer: Answer) -> str | None:
    """What is wrong with an answer, None where nothing is."""
    if "this is a bug" in answer.stderr or "Traceback" in answer.stderr:
        return next((x for x in answer.stderr.splitlines() if "unexpected " in x), "traceback")[:200]
    if answer.code == 124:
        return "never came back"
    if answer.code not in EXITS:
        return f"exit code {answer.code}"
    if answer.seconds > TIME_LIMIT_S + GRACE_S:
        return f"{answer.seconds:.1f} s, of {TIME_LIMIT_S}"
    if answer.warned:
        return answer.warned[0][:200]
    if answer.code in (0, 4) and (Path("plan.json").exists() or not Path("day.csv").exists()):
        return _unsound()
    if answer.code == 3 and "hint:" not in answer.stderr:
        return "infeasible without a hint"
    return None


def _unsound() -> str | None:
    """What is wrong with plan.json."""

    def refuse(name: str) -> None:
        raise ValueError(name)

    try:
        text = Path("plan.json").read_text(encoding="utf-8")
        json.loads(text, parse_constant=refuse)
    except (OSError, ValueError) as error:
        return f"plan.json: {error}"[:200]
    checked = answered("check plan.json", patience_s=60)
    if checked.code:
        return f"check: {checked.stderr[:200]}"
    for reader in READERS if len(text) % SELDOM == 0 else ():
        read = answered(reader, patience_s=60)
        if read.code not in (0, 2) or "this is a bug" in read.stderr or read.warned:
            return f"{reader}: {read.stderr[-200:]}"
    return None


def main() -> int:
    """Tries, tells, and keeps what failed."""
    parser = argparse.ArgumentParser(description="Valid but odd problems.")
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--of", choices=("plan", *KINDS), default="plan", help="the command")
    parser.add_argument("--only", type=int, metavar="N", help="one problem, with what the planner says")
    parser.add_argument("--keep", metavar="FOLDER", type=Path, default=Path("odd-failures"))
    parser.add_argument("--cpu", action="store_true", help="seconds of the processor, not of the wall")
    given = parser.parse_args()
    if given.cpu:
        by_processor()
    if given.only is not None:
        print(keep(given.seed, outcome(given.seed, given.only, given.of), given.keep, given.of))
        return 0
    found = tried(given)
    print("| ended | problems | longest |\n|---|---|---|")
    for code, count in sorted(Counter(o.code for o in found).items()):
        longest = max(o.seconds for o in found if o.code == code)
        print(f"| {code} {EXITS.get(code, '')} | {count:,} | {longest:.1f} s |")
    wrong = [o for o in found if o.wrong]
    print(f"| wrong | {len(wrong):,} of {len(found):,} | |\n")
    for said, count in Counter(o.said for o in found if o.code == 2).most_common():
        print(f"- refused, {count} x {said}")
    for o in wrong:
        print(f"- {o.number}: {o.wrong}")
        keep(given.seed, o, given.keep, given.of)
    return int(bool(wrong))


def by_processor() -> None:
    """From now on this process and those it forks tell time by their own use of the processor."""

    def used_s() -> float:
        children = os.times()
        return time.process_time() + children.children_user + children.children_system

    time.perf_counter = time.monotonic = used_s


def tried(given: argparse.Namespace) -> list[Outcome]:
    """Outcomes of the problems that there was time for."""
    end = time.time() + 60 * given.minutes
    forked = get_context("fork")  # with the clock that this process has
    with ProcessPoolExecutor(given.jobs, forked, initializer=memory, initargs=(8,)) as pool:
        done = pool.map(partial(_in_time, given.seed, given.of, end), range(given.cases), chunksize=4)
        return [o for o in done if o is not None]


def _in_time(seed: int, of: str, end: float, number: int) -> Outcome | None:
    return outcome(seed, number, of) if time.time() < end else None


def keep(seed: int, o: Outcome, folder: Path, of: str = "plan") -> str:
    """The problem's files and its command in a folder of its own; how it ended, in words."""
    asked, place = problem(seed, o.number, of), folder / f"{of}-{seed}-{o.number}"
    place.mkdir(parents=True, exist_ok=True)
    for name, data in asked.files.items():
        (place / name).write_bytes(data)
    (place / "run.sh").write_text(f"# {o.wrong}\nmeshwright {asked.command}\n", encoding="utf-8")
    return f"{place}: exit {o.code}, {o.seconds:.1f} s; {o.wrong or 'nothing wrong'}; {o.said}"


if __name__ == "__main__":
    sys.exit(main())

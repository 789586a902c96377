"""Measured offline runs of OPT models on one cloud T4: the machine, how each was run, what it reached.

FlexLLMGen in 16 and 4 bits, Accelerate and DeepSpeed ZeRO-Inference; 32 tokens after prompts of 512 or 256.
Measured figures are read from a folder `shared` beside the repository. How each was run is public with them:
FlexLLMGen's `bench_suite.py` and `hf_opt.py` (github.com/FMInference/FlexLLMGen).
"""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.truth import DATA
from cluster_configs.reading import read_cluster
from model_zoo import catalog
from planner.cost.block import TIERS, Job, Machine, Reached, Way, job_of, machine_of
from planner.cost.block_axes import Place, axes
from planner.cost.block_schedule import block_seconds, times

FILE = DATA / "consumer_offload_bench.csv"
CASES = DATA.parent / "cases" / "flexgen"
OSL = 32

CLUSTER = Path(__file__).resolve().parents[1] / "cluster_configs" / "examples" / "t4-cloud.yaml"


@cache
def cloud_t4() -> Machine:
    """The machine: datasheet figures."""
    machine = machine_of(read_cluster(str(CLUSTER)).classes[0])
    assert machine is not None
    return machine


class Policy(NamedTuple):
    """Percent of weights and cache on GPU and host (the rest: disk), of activations on the GPU (the rest:
    host); `host_attention`: over what is not on the GPU."""

    gpu_batch: int
    batches: int
    weights: tuple[int, int]
    cache: tuple[int, int]
    activations: int
    host_attention: bool = False


ON_GPU, ON_HOST, ON_DISK = (100, 0), (0, 100), (0, 0)
POLICIES = {
    ("FlexLLMGen", "opt-6.7b", 512): Policy(2, 1, ON_GPU, ON_GPU, 100),
    ("FlexLLMGen", "opt-6.7b", 256): Policy(4, 1, ON_GPU, ON_GPU, 100),
    ("FlexLLMGen", "opt-30b", 512): Policy(48, 3, (20, 80), ON_HOST, 0, True),
    ("FlexLLMGen", "opt-30b", 256): Policy(160, 2, (10, 90), ON_HOST, 0, True),
    ("FlexLLMGen", "opt-175b", 512): Policy(32, 8, (0, 50), ON_DISK, 0, True),
    ("FlexLLMGen", "opt-175b", 256): Policy(64, 8, (0, 50), ON_DISK, 0, True),
    ("FlexLLMGen+4bit", "opt-6.7b", 512): Policy(72, 1, ON_GPU, ON_GPU, 100),
    ("FlexLLMGen+4bit", "opt-6.7b", 256): Policy(128, 1, ON_GPU, ON_GPU, 100),
    ("FlexLLMGen+4bit", "opt-30b", 512): Policy(64, 8, ON_HOST, ON_HOST, 0),
    ("FlexLLMGen+4bit", "opt-30b", 256): Policy(128, 8, ON_HOST, ON_HOST, 0),
    ("FlexLLMGen+4bit", "opt-175b", 512): Policy(48, 3, ON_HOST, ON_HOST, 0),
    ("FlexLLMGen+4bit", "opt-175b", 256): Policy(96, 3, ON_HOST, ON_HOST, 0),
}
CACHE_ONLY = "opt-30b"
"""In 4 bits its cache is packed and its weights are not."""
WEIGHTS_ON = {"none": ON_GPU, "cpu": ON_HOST, "disk": ON_DISK}
"""Of the other engines: all layers there, the cache on the GPU."""


@dataclass(frozen=True)
class Run:
    """`tokens_per_s` generated, of prompt and generation together."""

    engine: str
    model: str
    isl: int
    way: Way
    policy: Policy
    tokens_per_s: float

    @property
    def job(self) -> Job:
        return job_of(catalog.find(self.model)[0], self.isl, OSL)

    @property
    def shares(self) -> dict[Place, float]:
        """Of each tensor by tier."""
        p = self.policy
        percent = {
            "weights": p.weights,
            "cache": p.cache,
            "activations": (p.activations, 100 - p.activations),
        }
        rest = {q: (*both, 100 - sum(both)) for q, both in percent.items()}
        return {(q, t): n / 100 for q, parts in rest.items() for t, n in zip(TIERS, parts, strict=True)}


def runs() -> list[Run]:
    """All measured runs; none where there is no folder."""
    if not FILE.is_file():
        return []
    with FILE.open(encoding="utf-8") as lines:
        rows = [row for row in csv.DictReader(lines) if row["source"] == "flexllmgen"]
    return [_of_table(row) for row in rows] + [
        _run(engine, case["problem"]["model"]["name"], isl, measured[bits])
        for case in (json.loads(path.read_text(encoding="utf-8")) for path in sorted(CASES.glob("*.json")))
        if (isl := case["problem"]["workload"]["prompt_tokens"]) != 512  # those of 512 are in the table
        and (measured := case["known"].get("measured_tokens_per_s"))
        for bits, engine in (("fp16", "FlexLLMGen"), ("int4", "FlexLLMGen+4bit"))
    ]


def _of_table(row: dict[str, str]) -> Run:
    engine, model, isl = row["engine"], row["model"].lower(), int(row["prompt_len"])
    measured = float(row["generation_tok_s"])
    if engine.startswith("FlexLLMGen"):
        return _run(engine, model, isl, measured)
    policy = Policy(int(row["batch"]), 1, WEIGHTS_ON[row["offload"]], ON_GPU, 100)
    way = Way(policy.gpu_batch, overlap=False, pinned=engine != "Accelerate")
    return Run(engine, model, isl, way, policy, measured)


def _run(engine: str, model: str, isl: int, measured: float) -> Run:
    policy, packed = POLICIES[engine, model, isl], engine.endswith("4bit")
    way = Way(policy.gpu_batch, policy.host_attention, packed and model != CACHE_ONLY, packed)
    return Run(engine, model, isl, way, policy, measured)


def tokens_per_s(
    job: Job, machine: Machine, way: Way, reached: Reached, batches: int, shares: dict[Place, float]
) -> float:
    """Generated tokens/s of a block, prompt and generation together, with `shares` of each tensor by tier."""
    on = axes(machine, way.cpu_weights)
    x = np.array([*(shares.get(place, 0.0) for place in on.columns), 1.0])
    rows = block_seconds(job, machine, way, reached, batches).sum(axis=0) @ x
    phases = {
        phase: [r for r, (p, _) in zip(rows, on.busy, strict=True) if p == phase] for phase, _ in on.busy
    }
    steps = times(job)
    seconds = sum(steps[phase] * max(of) for phase, of in phases.items())
    return float(way.gpu_batch * batches * job.osl / seconds)

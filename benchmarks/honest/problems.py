"""Problems to plan: those of the table that started this benchmark, and random ones by seed and number.

A problem is a cluster in one line, a model, a workload and a goal. Its `command` asks the same of the command
line, its `arguments` of `planner.plan`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from cluster_configs import devices
from model_zoo import catalog
from model_zoo.derive import weight_bytes
from planner.inputs.options import ObjectiveName as Objective
from planner.inputs.workload import Bucket, Percentile, Slo, Workload

Rng = np.random.Generator

CHAT = Slo()
"""The limits that a workload has unless told."""

MODELS = (
    *("llama-3.1-8b", "qwen3-14b", "qwen3-32b", "gemma-3-27b", "llama-3.1-70b", "llama-3.1-70b-fp8"),
    *("llama-3.1-405b-fp8", "gpt-oss-20b", "gpt-oss-120b", "qwen3-30b-a3b", "mixtral-8x7b"),
    *("qwen3-235b-a22b-fp8", "deepseek-v3"),
)
"""Of 8B to 671B parameters, dense and with experts."""

DEVICES = (
    *("h100-sxm", "a100-sxm", "l40s", "b200-sxm", "rtx-4090", "l4", "mi300x", "h200-sxm", "a10", "a100-pcie"),
)

COUNTS, COUNT_CHANCES = (1, 2, 4, 8, 16, 32), (0.05, 0.15, 0.25, 0.33, 0.16, 0.06)
"""GPUs of one kind."""

CLASS_CHANCES = (0.6, 0.28, 0.08, 0.04)
"""Of one, two, three and four kinds of GPU."""

BUCKET_CHANCES = (0.74, 0.18, 0.05, 0.03)
"""Of one to four kinds of request."""

LENGTHS = (
    (1024, 256),
    (4000, 1000),
    (300, 40),
    (512, 128),
    (8000, 500),
    (2000, 2000),
    (150, 600),
    (12000, 200),
)
"""Prompt and answer tokens; both are then changed by up to a third."""

PERCENTILES: tuple[Percentile, ...] = ("mean", "mean", "p50", "p90", "p95", "p99")
TTFT_MS, TPOT_MS = (None, 3000.0, 10_000.0), (None, 20.0, 35.0, 50.0, 80.0, 120.0)
GOALS: tuple[Objective, ...] = ("throughput", "cost", "gpus", "energy", "latency")
GOAL_CHANCES = (0.62, 0.16, 0.14, 0.04, 0.04)

LARGE, LARGE_CHANCE = 3, 0.2
"""Kinds of GPU x kinds of request x engines from beyond which on few problems are asked: they take long."""

USABLE = 0.8
"""Of the memory of one kind of GPU, what weights may take for a problem to be posed."""

LIGHT_RPS = 0.1
"""A rate that nearly any fleet serves: a largest rate above it is one under random arrivals."""


@dataclass(frozen=True)
class Problem:
    """What is asked: `entries` are GPUs and device; without a `rate` a closed loop that serves as much as it
    can. `share`: of the largest rate under random arrivals, what a problem whose rate is not yet known asks
    for."""

    entries: tuple[tuple[int, str], ...]
    model: str
    buckets: tuple[Bucket, ...]
    slo: Slo = CHAT
    objective: Objective = "throughput"
    rate: float | None = None
    engine: str = "any"
    most_gpus: int | None = None
    risk: float = 0.5
    prefix_hit: float = 0.0
    share: float = 0.5
    survive: str = ""
    acceptance: float = 0.0  # of tokens that a head drafts; 0: none are drafted

    @property
    def gpus(self) -> str:
        """The cluster in a line.

        >>> Problem(((8, "h100-sxm"), (4, "l4")), "llama-3.1-8b", (Bucket(isl=1, osl=2),)).gpus
        '8xh100-sxm,4xl4'
        """
        return ",".join(f"{count}x{device}" for count, device in self.entries)

    @property
    def size(self) -> int:
        """Kinds of GPU x kinds of request x engines: what a plan takes grows with it."""
        return len(self.entries) * len(self.buckets) * (3 if self.engine == "any" else 1)

    @property
    def workload(self) -> Workload:
        """Stated whole, so that no limit is the planner's own to relax."""
        return Workload(
            buckets=list(self.buckets),
            rate_rps=self.rate,
            arrivals="closed" if self.rate is None else None,
            slo=self.slo,
            prefix_hit=self.prefix_hit,
        )

    @property
    def arguments(self) -> dict[str, Any]:
        """For `planner.plan`, beside limits of gap, time and work."""
        budget = None if self.most_gpus is None else {"gpus": self.most_gpus}
        named = {"gpus": self.gpus, "workload": self.workload, "objective": self.objective}
        more: dict[str, Any] = {"survive": self.survive} if self.survive else {}
        if self.acceptance:
            more |= {"speculation": "eagle", "acceptance": self.acceptance}
        return {**named, "engine": self.engine, "risk": self.risk, "budget": budget, **more}

    @property
    def command(self) -> str:
        """The same on the command line; several kinds of request by way of a file."""
        written = {
            "--gpus": self.gpus,
            "--model": self.model,
            "--ttft-ms": "none" if self.slo.ttft_ms is None else f"{self.slo.ttft_ms:.10g}",
            "--tpot-ms": "none" if self.slo.tpot_ms is None else f"{self.slo.tpot_ms:.10g}",
            "--percentile": self.slo.percentile if self.rate else "mean",
            "--rate": f"{self.rate:.10g}" if self.rate else "",
            "--objective": self.objective,
            "--engine": self.engine,
            "--budget": f"gpus={self.most_gpus}" if self.most_gpus else "",
            "--risk": f"{self.risk:g}",
            "--survive": self.survive,
            "--speculation": "eagle" if self.acceptance else "",
            "--acceptance": f"{self.acceptance:g}" if self.acceptance else "",
            "--gap": "0",
        }
        first = ""
        if len(self.buckets) == 1 and not self.prefix_hit:
            written |= {"--isl": str(self.buckets[0].isl), "--osl": str(self.buckets[0].osl)}
        else:
            told = self.workload.model_dump(include={"buckets", "prefix_hit"})
            first, written["--workload"] = f"echo '{json.dumps(told)}' > load.yaml && ", "load.yaml"
        options = " ".join(f"{name} {value}" for name, value in written.items() if value)
        return f"{first}meshwright plan {options}"

    def limited(self, ttft_ms: float | None, tpot_ms: float | None) -> Problem:
        """The same under other limits."""
        return replace(self, slo=self.slo.model_copy(update={"ttft_ms": ttft_ms, "tpot_ms": tpot_ms}))


def _of_table(entry: tuple[int, str], model: str, ttft_ms: float) -> Problem:
    return Problem((entry,), model, (Bucket(isl=1024, osl=256),), Slo(ttft_ms=ttft_ms))


FIXED = (
    _of_table((8, "h100-sxm"), "llama-3.1-70b", 500),
    _of_table((8, "h100-sxm"), "llama-3.1-70b", 800),
    _of_table((8, "b200-sxm"), "llama-3.1-405b-fp8", 900),
    _of_table((8, "a100-sxm"), "qwen3-32b", 400),
    _of_table((8, "a100-sxm"), "gpt-oss-120b", 730),
    Problem(
        ((2, "h100-sxm"),), "gemma-3-27b", (Bucket(isl=551, osl=180),), Slo(ttft_ms=500), "throughput", 1e-3
    ),
)
"""Proven bounds that a fleet found for a looser limit beat by 3.5 to 6.3 %; and the largest rate above a very
small one, whose bound was 20 times that small rate."""


def random_problem(seed: int, number: int) -> Problem:
    """Problem `number` of `seed`: always the same one, whatever was asked before."""
    rng = np.random.default_rng([seed, number])
    while True:
        problem = _drawn(rng)
        if problem.size <= LARGE or rng.random() < LARGE_CHANCE:
            return problem


def _drawn(rng: Rng) -> Problem:
    model = str(rng.choice(MODELS))
    buckets = tuple(_bucket(rng) for _ in range(_chosen(rng, BUCKET_CHANCES) + 1))
    objective = GOALS[_chosen(rng, GOAL_CHANCES)]
    entries = _entries(rng, model)
    if objective == "cost" and not all(_priced(device) for _, device in entries):
        objective = "gpus"
    slo = Slo(ttft_ms=_of(rng, TTFT_MS), tpot_ms=_of(rng, TPOT_MS), percentile=_of(rng, PERCENTILES))
    return Problem(
        entries,
        model,
        buckets,
        slo,
        objective,
        rate=LIGHT_RPS if objective == "throughput" and rng.random() < 0.2 else None,
        engine="any" if rng.random() < 0.3 else "vllm",
        risk=0.5 if rng.random() < 0.85 else 0.2,
        prefix_hit=0.0 if rng.random() < 0.85 else 0.4,
        share=float(rng.uniform(0.1, 1.05)),
    )


def _entries(rng: Rng, model: str) -> tuple[tuple[int, str], ...]:
    """One to four kinds of GPU, of which one at least has room for the model."""
    wanted = _chosen(rng, CLASS_CHANCES) + 1
    while True:
        names = [str(name) for name in rng.choice(DEVICES, size=wanted, replace=False)]
        counts = [int(rng.choice(COUNTS, p=COUNT_CHANCES)) for _ in names]
        if any(holds(model, *entry) for entry in zip(counts, names, strict=True)):
            return tuple(zip(counts, names, strict=True))


@cache
def holds(model: str, count: int, device: str) -> bool:
    """Whether so many GPUs have room for the weights and something beside them."""
    weights = sum(weight_bytes(catalog.find(model)[0]).values())
    return weights <= USABLE * count * devices.find(device).memory_gb * 1e9


def _priced(device: str) -> bool:
    return devices.find(device).price_usd_per_gpu_hour is not None


def _bucket(rng: Rng) -> Bucket:
    isl, osl = LENGTHS[int(rng.integers(len(LENGTHS)))]
    change = rng.uniform(0.67, 1.33, size=2)
    share = round(float(rng.uniform(0.1, 1.0)), 2)
    return Bucket(isl=int(isl * change[0]), osl=int(osl * change[1]), share=share)


def _chosen(rng: Rng, chances: tuple[float, ...]) -> int:
    return int(rng.choice(len(chances), p=chances))


def _of(rng: Rng, values: tuple[Any, ...]) -> Any:
    return values[int(rng.integers(len(values)))]

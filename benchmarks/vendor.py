"""The jobs of a GPU vendor's planner, by ours: `python -m benchmarks.vendor [--markdown] [--runs 3] [--mix]`.

Each job is planned by a cold process with the same model, GPUs, lengths and limits. Its seconds and figures
are the peer's own predictions, as its users see them; ours come from another cost model, so the tokens/s of
the two say what each promises, not who is right. `--mix` adds GPU counts that no single design divides.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.process import Run, planned, rows

JOBS = Path(__file__).resolve().parents[2] / "shared" / "cases" / "aiconfigurator" / "jobs.json"
DEFAULTS = {"isl": "4000", "osl": "1000", "ttft": "2000", "tpot": "30"}
"""What the peer assumes where a command leaves it out."""

MIXES = {
    "dsv3": "deepseek-v3_64xh200",
    "llama70b": "llama3.1-70b_16xh100",
    "qwen235b": "qwen3-235b-a22b_32xb200",
}
"""Short names of the jobs in the list of GPU counts."""

HEADS = ("job", "CPU s", "its CPU s", "share", "tok/s", "its tok/s", "designs", "idle GPUs", "warnings")


@dataclass(frozen=True)
class Job:
    """A question to both: the peer's options, its CPU seconds (None: not known), the tokens/s it promises."""

    name: str
    asked: dict[str, str]
    cpu_s: float | None
    tokens_s: float

    @property
    def gpus(self) -> int:
        return int(self.asked["total-gpus"])

    @property
    def options(self) -> list[str]:
        """The same question to us."""
        a = self.asked
        device = a["system"].replace("_", "-")
        limits = ["--ttft-ms", a["ttft"], "--tpot-ms", a["tpot"]]
        lengths = ["--isl", a["isl"], "--osl", a["osl"]]
        return ["--gpus", f"{a['total-gpus']}x{device}", "--model", a["model"], *lengths, *limits]


def main(argv: Sequence[str] | None = None) -> int:
    """One line a job; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.vendor")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--runs", type=int, default=3, help="of each job; the median counts (3)")
    parser.add_argument(
        "--mix", action="store_true", help="also the GPU counts that no single design divides"
    )
    options = parser.parse_args(argv)
    if not JOBS.is_file():
        print(f"skipped: the peer's jobs are not here ({JOBS.name})", file=sys.stderr)
        return 0
    facts = json.loads(JOBS.read_text())
    jobs = [*_jobs(facts), *(_mixes(facts) if options.mix else ())]
    lines = [line(job, planned(job.options, options.runs)) for job in jobs]
    print(rows([HEADS, *lines], options.markdown))
    return 0


def _jobs(facts: dict[str, Any]) -> Iterator[Job]:
    for name, job in facts["jobs"].items():
        asked = _asked(job["command"])
        best = max(_whole(job[way], int(asked["total-gpus"])) for way in ("agg", "disagg") if job.get(way))
        yield Job(name, asked, job["cpu_s_median"], best)


def _mixes(facts: dict[str, Any]) -> Iterator[Job]:
    for case in facts["replica_mix"]["cases"]:
        name = MIXES.get(case["job"])
        if name is None:
            continue
        asked = _asked(facts["jobs"][name]["command"]) | {"total-gpus": str(case["gpus"])}
        yield Job(f"{name.split('_')[0]} on {case['gpus']}", asked, None, case["aic_tokens_s"])


def _asked(command: str) -> dict[str, str]:
    """The options of the peer's command, its defaults where they are left out."""
    words = shlex.split(command)
    named = {a.removeprefix("--"): b for a, b in pairwise(words) if a.startswith("--")}
    return DEFAULTS | named


def _whole(way: dict[str, Any], gpus: int) -> float:
    """tokens/s of a replica repeated as often as it fits: what the peer hands out."""
    return float(way["tokens/s"]) * (gpus // int(way["num_total_gpus"]))


def line(job: Job, run: Run) -> tuple[str, ...]:
    """A row of the table."""
    its = "" if job.cpu_s is None else f"{job.cpu_s:.1f}"
    share = "" if job.cpu_s is None else f"1/{job.cpu_s / run.cpu_s:.1f}"
    known = (job.name, f"{run.cpu_s:.2f}", its, share)
    if run.plan is None:
        return (*known, "-", f"{job.tokens_s:,.0f}", "-", "-", run.why)
    plan = run.plan
    used = sum(r["count"] * r["tp"] * r["attn_dp"] * r["pp"] for r in plan["replicas"])
    tokens = plan["predicted"]["out_tok_per_s"]["value"]
    told = ", ".join(w["code"] for w in plan["warnings"])
    return (*known, f"{tokens:,.0f}", f"{job.tokens_s:,.0f}", _designs(plan), str(job.gpus - used), told)


def _designs(plan: dict[str, Any]) -> str:
    """ "5 mixed tp4 + 1 mixed tp2": what runs, in the order of the plan."""
    sizes = ("tp", "pp", "attn_dp", "ep")
    parts = []
    for r in plan["replicas"]:
        shape = " ".join(f"{k.removeprefix('attn_')}{r[k]}" for k in sizes if r[k] > 1) or "1 GPU"
        parts.append(f"{r['count']} {r['role']} {shape}")
    return " + ".join(parts)


if __name__ == "__main__":
    sys.exit(main())

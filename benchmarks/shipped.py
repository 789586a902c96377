"""Shipped clusters and large questions, beside an older commit:
`python -m benchmarks.shipped [--markdown] [--runs 1] [--only NAME …] [--before CHECKOUT]`.

Every question is a cold process with a gap of 1 %. With `--before` the planner of another checkout is asked
the same right after, so both see the same machine: `git worktree add /tmp/before COMMIT`. Read the ratio, not
the seconds.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.process import Run, planned, rows

FOLDER = Path(__file__).resolve().parents[1] / "cluster_configs" / "examples"

MODELS = {
    "a100-40-and-80": "mistral-nemo-12b",
    "desktop-rtx": "llama-3.1-8b",
    "cxl-768gb": "qwen3-30b-a3b",
    "four-small-boxes": "qwen3-8b",
    "gb200-nvl72": "llama-3.1-70b",
    "gh200-480gb": "llama-3.1-405b-fp8",
    "h100-8": "llama-3.1-70b",
    "h200-2x8": "qwen3-30b-a3b",
    "l40s-and-h100": "qwen3-8b",
    "lab": "llama-3.1-8b",
    "mac-and-4090": "llama-3.1-8b",
    "melange-cloud": "qwen2.5-7b",
    "mi300x-8": "llama-3.1-405b",
    "mixed-generations": "llama-3.1-8b",
    "offload-box": "qwen3-4b",
    "one-4090-128gb": "gpt-oss-120b",
    "spot-cloud": "llama-3.1-8b",
    "t4-cloud": "qwen3-4b",
    "ten-thousand": "llama-3.1-8b",
    "three-zones": "qwen3-1.7b",
    "two-4090-384gb": "qwen3-30b-a3b",
    "workstation-512gb": "qwen3-30b-a3b",
}
"""A model of a fitting size for each shipped cluster."""

KIMI = ("--model", "kimi-k2", "--percentile", "p95", "--engine", "vllm")
LARGE = {
    "cost-448": ("--gpus", "448xH100", *KIMI, "--rate", "100", "--objective", "cost"),
    "energy-448": ("--gpus", "448xH100", *KIMI, "--rate", "100", "--objective", "energy"),
    "latency-448": ("--gpus", "448xH100", *KIMI, "--rate", "100", "--objective", "latency"),
    "energy-10,000": ("--gpus", "10000xH100", *KIMI, "--rate", "1000", "--objective", "energy"),
    "five-classes-1,800": (
        *("--gpus", "400xH100,400xH200,400xB200,400xA100,200xMI300X"),
        *("--model", "deepseek-v3", "--engine", "any"),
    ),
}
"""Questions to hundreds and thousands of GPUs."""

HEADS = ("question", "CPU s", "wall s", "objective", "gap", "status")


def questions() -> dict[str, tuple[str, ...]]:
    """The options of each."""
    shipped = {
        name: (str(FOLDER / f"{name}.yaml"), "--model", model, "--engine", "any")
        for name, model in MODELS.items()
    }
    return {**shipped, **LARGE}


def main(argv: Sequence[str] | None = None) -> int:
    """A line a question; returns the exit code."""
    options = _options(argv)
    lines = [(*HEADS, "CPU s before", "ratio", "gap before") if options.before else HEADS]
    for name, asked in questions().items():
        if options.only and name not in options.only:
            continue
        now = planned((*asked, "--gap", "0.01"), options.runs)
        line = (name, *_told(now))
        if options.before:
            old = planned((*asked, "--gap", "0.01"), options.runs, options.before)
            line = (*line, f"{old.cpu_s:.1f}", f"{now.cpu_s / old.cpu_s:.2f}", _told(old)[3])
        lines.append(line)
        print("  ".join(line), file=sys.stderr, flush=True)
    print(rows(lines, options.markdown))
    return 0


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shipped")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--runs", type=int, default=1, help="of each the one of median CPU seconds (1)")
    parser.add_argument("--only", nargs="*", help="names of questions")
    parser.add_argument("--before", type=Path, help="a checkout of an older commit, asked the same")
    return parser.parse_args(argv)


def _told(run: Run) -> tuple[str, ...]:
    seconds = (f"{run.cpu_s:.1f}", f"{run.wall_s:.1f}")
    if run.plan is None or "proof" not in run.plan:
        return (*seconds, "", "", run.why)
    proof = run.plan["proof"]
    return (*seconds, f"{proof['objective']:.5g} {proof['unit']}", f"{proof['gap']:.2%}", proof["status"])


if __name__ == "__main__":
    sys.exit(main())

"""Many plans in one process: `python -m benchmarks.soak [--plans 5000] [--processes 8] [--seed 0]`.

Random questions through the Python API, one after the other: memory must stay flat after the first tenth
(20 MB), and the last plans must take no longer than the first. Then a few in so many processes at once:
each must end, with the answers that they have alone. Exits with 1 where anything is else.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import median

from planner import api
from planner.errors import MeshwrightError

MOST_MB = 20.0
SLOWER = 1.3
"""Last plans over first ones, in seconds of CPU: beyond noise."""

FLEETS = ("1xL4", "2xL4", "4xT4", "8xH100", "2xA10G,1xA100", "2xrtx-4090,1xrtx-3090", "4xL40S,4xH100")
MODELS = ("qwen3-0.6b", "qwen3-8b", "llama-3.1-8b", "mistral-nemo-12b", "gpt-oss-20b", "qwen3-30b-a3b")
ENGINES = ("vllm", "sglang", "trtllm")


def answer(seed: int) -> str:
    """What comes of a random question: the plan's objective and its replicas, or why there is none."""
    r = random.Random(seed)
    asked = {"gpus": r.choice(FLEETS), "model": r.choice(MODELS), "engine": r.choice(ENGINES)}
    load = {
        "isl": r.choice((64, 512, 4096)),
        "osl": r.choice((1, 32, 512)),
        "rate": r.choice((None, 0.5, 5.0)),
    }
    try:
        p = api.plan(None, **asked, **load, work_limit=200, explain=r.random() < 0.2)  # type: ignore[arg-type]
    except MeshwrightError as error:
        return f"{type(error).__name__}: {error.message}"
    return f"{p.proof.own:.6g} by {[(x.role, x.tp, x.pp, x.count) for x in p.replicas]}"


def resident_mb() -> float:
    """Memory of this process that is in use."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> int:
    """Both parts."""
    parser = argparse.ArgumentParser(description="Many plans in one process.")
    parser.add_argument("--plans", type=int, default=5000)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    took, memory = list[float](), list[float]()
    for i in range(given.plans):
        began = time.process_time()  # not the clock's: others may be busy here, too
        answer(given.seed + i)
        took.append(time.process_time() - began)
        memory.append(resident_mb())
    tenth = max(given.plans // 10, 1)
    warm, end = max(memory[:tenth]), median(memory[-tenth:])
    first, last = (sum(took[a:b]) for a, b in ((tenth, given.plans // 2), (given.plans // 2 + tenth, None)))
    ratio = last / first if first else 1.0
    print(f"{given.plans:,} plans in {sum(took):.0f} s of CPU; median {1e3 * median(took):.0f} ms")
    print(f"memory after warm-up {warm:.0f} MB, at the end {end:.0f} MB ({end - warm:+.1f})")
    print(f"second half over first half, in seconds of CPU: {ratio:.2f}")
    seeds = range(given.seed, given.seed + given.processes)
    alone = [answer(seed) for seed in seeds]
    with ProcessPoolExecutor(given.processes) as pool:
        together = list(pool.map(answer, seeds))
    differ = sum(a != b for a, b in zip(alone, together, strict=True))
    print(f"{given.processes} processes at once: {differ} answers differ from those alone")
    return int(end - warm > MOST_MB or ratio > SLOWER or differ > 0)


if __name__ == "__main__":
    sys.exit(main())

"""A sweep of 100 real cells, killed ten times at random and resumed, against the same sweep undisturbed.

    python -m benchmarks.sweep_kill [--kills 10] [--jobs 2] [--seed 0]

Prints when it was killed and how long both took; exits with 1 where a row differs (timing fields apart).
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

SWEEP = """
base: {workload: chat}
vary:
  gpus: [8xH100, 4xA100, "8xH100,8xL40S", 2xB200]
  model: [llama-3.1-8b, qwen3-32b, llama-3.1-70b, gpt-oss-20b, mixtral-8x7b]
  isl: {from: 512, to: 8192, times: 2}
"""
CELLS = 100
TIMING = {"seconds"}

Row = dict[str, Any]


def main() -> int:
    """Both sweeps and their comparison."""
    parser = argparse.ArgumentParser(description="A real sweep, killed at random and resumed.")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "sweep.yaml").write_text(SWEEP)
        began = time.monotonic()
        start(folder, "calm.jsonl", given.jobs).wait()
        calm = rows(Path(folder, "calm.jsonl"))
        print(f"undisturbed: {len(calm)} cells, {time.monotonic() - began:.1f} s, exit codes "
              f"{dict(Counter(row['exit_code'] for row in calm))}")  # fmt: skip
        began = time.monotonic()
        kills = kill_and_resume(folder, given.jobs, given.kills, random.Random(given.seed))
        torn = rows(Path(folder, "torn.jsonl"))
        print(f"killed {kills} times: {len(torn)} cells, {time.monotonic() - began:.1f} s")
    differ = [a["cell"] for a, b in zip(calm, torn, strict=True) if untimed(a) != untimed(b)]
    print(f"{len(differ)} rows differ", *differ[:5], sep="\n")
    return int(bool(differ) or kills < given.kills or len(calm) != CELLS)


def start(folder: str, out: str, jobs: int) -> subprocess.Popen[bytes]:
    """The command as a user runs it."""
    program = [sys.executable, "-m", "planner.cli.app"]
    options = ["sweep", f"{folder}/sweep.yaml", "-o", f"{folder}/{out}", "--jobs", str(jobs)]
    return subprocess.Popen([*program, *options], stderr=subprocess.DEVNULL)


def kill_and_resume(folder: str, jobs: int, kills: int, chance: random.Random) -> int:
    """Run the sweep until it is done, killing it `kills` times at random; how often it was killed."""
    out = Path(folder, "torn.jsonl")
    killed = 0
    for at in [*sorted(chance.sample(range(1, CELLS - 1), kills)), CELLS]:
        process = start(folder, out.name, jobs)
        while process.poll() is None and done(out) < at:
            time.sleep(0.002)
        if process.poll() is None and at < CELLS:
            time.sleep(chance.uniform(0, 0.2))
            process.send_signal(signal.SIGKILL)
        if process.wait() == -signal.SIGKILL:
            killed += 1
            print(f"  killed at {done(out)} cells done")
    return killed


def done(out: Path) -> int:
    """Finished cells on disk."""
    part = out.with_name(out.name + ".part")
    return part.read_bytes().count(b"\n") if part.exists() else 0


def rows(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def untimed(row: Row) -> Row:
    """`row` without what a clock says."""
    return {key: value for key, value in row.items() if key not in TIMING}


if __name__ == "__main__":
    sys.exit(main())

"""All that traffic is judged by, one table after the other: `python -m benchmarks.traffic [--only NAME …]`.

percentiles   plans for the p99 of recorded arrivals, replayed (`benchmarks.percentiles`)
measured      the replay against measured runs, beside `predict` (`benchmarks.replay_measured`)
peers         other planners' simulators and the schedules' cases (`benchmarks.peers`)
schedule      public days and fortnights against static and reactive fleets (`benchmarks.schedule`)
"""

from __future__ import annotations

import argparse
import subprocess
import sys

from benchmarks.results import CASES, ROOT

PARTS = {
    "percentiles": ["benchmarks.percentiles"],
    "measured": ["benchmarks.replay_measured"],
    "peers": ["benchmarks.peers", "--markdown", "simulate", "schedule"],
    "schedule": ["benchmarks.schedule"],
}


def main() -> int:
    """Run each part in a process of its own; the worst exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.traffic")
    parser.add_argument("--only", nargs="*", choices=list(PARTS), default=list(PARTS))
    worst = 0
    for name in parser.parse_args().only:
        module, *rest = PARTS[name]
        words = [str(p) for word in rest for p in _cases(word)]
        print(f"\n### {name}: python -m {' '.join([module, *rest])}\n", flush=True)
        done = subprocess.run([sys.executable, "-m", module, *words], cwd=ROOT, check=False)
        worst = max(worst, done.returncode)
    return worst


def _cases(word: str) -> list[str]:
    """The cases of a peer, or the word itself."""
    return [str(p) for p in sorted((CASES / word).glob("*.json"))] or [word]


if __name__ == "__main__":
    raise SystemExit(main())

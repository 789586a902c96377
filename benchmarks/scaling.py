"""Seconds, memory and proof by size of cluster: `python -m benchmarks.scaling [--markdown] [--most 100000]`.

One class of H100s, four classes, and seven as in cluster_configs/examples/ten-thousand.yaml with its counts
scaled; each once for the most throughput, and once at the least dollars for about half of it. Every line is a
cold process. Budgets: 2 s to 64 GPUs of one class; 5 s to 1,000 and 10 s to 10,000 GPUs at a gap of 1 %,
100,000 in twice that; 1 GiB.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.process import Run, planned, rows

EXAMPLE = Path(__file__).resolve().parents[1] / "cluster_configs" / "examples" / "ten-thousand.yaml"
SEVEN = {"a100-40": 150, "a100-80": 250, "l40s": 150, "h100": 350, "h200": 150, "b200": 100, "mi300x": 100}
"""Nodes of 8 GPUs of each class in the example."""

FOUR = ("a100-80", "h100", "h200", "b200")
SIZES = {
    1: (8, 64, 1000, 10_000, 100_000),
    4: (32, 320, 1000, 10_000, 100_000),
    7: (100, 1000, 10_000, 100_000),
}
MODEL = "llama-3.1-70b"
HEADS = (
    "GPUs",
    "classes",
    "objective",
    "seconds",
    "CPU s",
    "considered",
    "kept",
    "gap",
    "status",
    "peak MiB",
)


@dataclass(frozen=True)
class Size:
    """Nodes of 8 GPUs by class."""

    nodes: dict[str, int]

    @property
    def gpus(self) -> int:
        return 8 * sum(self.nodes.values())

    def cluster(self) -> str:
        """The example's YAML with these counts, classes without nodes left out."""
        lines = []
        for text in EXAMPLE.read_text().splitlines():
            name = text.partition("name: ")[2].partition(",")[0]
            if "- {name: " not in text:
                lines.append(text)
            elif name in self.nodes:
                lines.append(text.replace(f"count: {SEVEN[name]},", f"count: {self.nodes[name]},"))
        return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """One line a size and objective; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--most", type=int, default=100_000, help="GPUs of the largest cluster (100000)")
    options = parser.parse_args(argv)
    lines = [HEADS]
    for size in sizes(options.most):
        lines += _of(size)
    print(rows(lines, options.markdown))
    return 0


def sizes(most: int) -> Iterator[Size]:
    """Clusters of one, four and seven classes, each class with its share of the example."""
    for classes, totals in SIZES.items():
        names = ("h100",) if classes == 1 else FOUR if classes == 4 else tuple(SEVEN)
        whole = sum(SEVEN[name] for name in names)
        for gpus in totals:
            if gpus <= most:
                yield Size({name: max(1, round(gpus / 8 * SEVEN[name] / whole)) for name in names})


def _of(size: Size) -> Iterator[tuple[str, ...]]:
    """Most throughput, then the cheapest fleet for half of it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cluster.yaml"
        path.write_text(size.cluster())
        asked = [str(path), "--model", MODEL, "--isl", "3000", "--osl", "500", "--tpot-ms", "50"]
        fastest = planned([*asked, "--objective", "throughput"])
        yield _line(size, "throughput", fastest)
        if fastest.plan:
            rate = f"{fastest.plan['predicted']['rps']['value'] / 2:.4g}"
            yield _line(size, "cost", planned([*asked, "--objective", "cost", "--rate", rate]))


def _line(size: Size, objective: str, run: Run) -> tuple[str, ...]:
    head = (f"{size.gpus:,}", str(len(size.nodes)), objective, f"{run.wall_s:.1f}", f"{run.cpu_s:.2f}")
    if run.plan is None:
        return (*head, "", "", "", run.why, f"{run.peak_mib:.0f}")
    proof = run.plan["proof"]
    space = (f"{proof['space']['considered']:,}", f"{proof['space']['kept']:,}")
    return (*head, *space, f"{proof['gap']:.2%}", proof["status"], f"{run.peak_mib:.0f}")


if __name__ == "__main__":
    sys.exit(main())

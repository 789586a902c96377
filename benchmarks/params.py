"""Parameters and KV bytes of all configs and cards against a table: `python -m benchmarks.params`.

Needs the folder of calibration data beside the repository (`shared/data`); exits 1 where a count is off by
more than 0.5 % or a KV figure is not exact.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from model_zoo import catalog, derive
from model_zoo.huggingface import from_config
from model_zoo.schema import ModelCard
from planner.errors import InputError, squash

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
TOLERANCE = 0.005


@dataclass(frozen=True)
class Row:
    """One model: computed and published total and active parameters, and KV figures (full, window, index,
    state)."""

    name: str
    total: int
    published_total: int
    active: int
    published_active: int
    kv: tuple[float, ...]
    published_kv: tuple[float, ...]
    estimate: bool

    @property
    def difference(self) -> float:
        return self.total / self.published_total - 1

    @property
    def agrees(self) -> bool:
        return (abs(self.difference) <= TOLERANCE or self.estimate) and self.kv == self.published_kv


def published() -> list[dict[str, str]]:
    """Rows of the table."""
    with (DATA / "models.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def row(name: str, card: ModelCard, known: dict[str, str]) -> Row:
    """`card` beside what the table says of it."""
    columns = (
        "kv_bytes_per_token_full_bf16",
        "kv_bytes_per_token_window_bf16",
        "index_bytes_per_token_bf16",
        "state_bytes_per_seq",
    )
    computed = (
        derive.kv_bytes_per_token_full(card),
        derive.kv_bytes_per_token_window(card),
        derive.index_bytes_per_token(card),
        float(derive.state_bytes(card)),
    )
    return Row(
        name,
        derive.total_params(card),
        int(known["total_params"]),
        derive.active_params(card),
        int(known["active_params_incl_embed"]),
        computed,
        tuple(float(known[c] or 0) for c in columns),
        known["count_is_estimate"] == "True",
    )


def configs() -> Iterator[Row]:
    """Every config file through the reader."""
    for known in published():
        yield row(known["model"], from_config(DATA / "model_configs" / known["file"]), known)


def cards() -> Iterator[Row]:
    """Every shipped card whose model is in the table."""
    table = {squash(known["model"]): known for known in published()}
    for name in catalog.names():
        card = catalog.load(name)
        known = table.get(squash(card.hf_id or ""))
        if known is not None:
            yield row(f"card {name}", card, known)


def main() -> int:
    """Print the table; 0 when all of it agrees."""
    if not DATA.is_dir():
        raise InputError("no published table to compare with", str(DATA))
    rows = [*configs(), *cards()]
    print(f"{'model':<58} {'computed':>17} {'published':>17} {'diff':>9}  {'active':>9}  KV")
    for r in rows:
        active = r.active / r.published_active - 1
        kv = "exact" if r.kv == r.published_kv else f"{r.kv} for {r.published_kv}"
        mark = " (estimate)" if r.estimate else ""
        totals = f"{r.total:>17,} {r.published_total:>17,} {r.difference:>+9.4%}"
        print(f"{r.name:<58} {totals}  {active:>+9.3%}  {kv}{mark}")
    wrong = [r.name for r in rows if not r.agrees]
    worst = max(abs(r.difference) for r in rows)
    print(f"{len(rows)} rows, largest difference {worst:.4%}; disagree: {', '.join(wrong) or 'none'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

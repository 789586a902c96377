"""What a plan promises, figure by figure: the same rows in the terminal, on the page and in pictures."""

from __future__ import annotations

from dataclasses import dataclass

from planner.plans.schema import Band, Plan
from planner.reports import words as say
from planner.reports.energy import electricity


@dataclass(frozen=True)
class Figure:
    """One prediction with its 80 % band; the `limit` that it was to keep and the chance that it does, where
    there are any. `more`: whether more of it is better; None where neither is."""

    label: str
    band: Band
    unit: str
    limit: float | None = None
    kept: float | None = None
    more: bool | None = None

    @property
    def shown(self) -> str:
        """The prediction in its unit."""
        return say.amount(self.band.value, self.unit)

    @property
    def edges(self) -> str:
        """The band's ends, "" where it has no width."""
        low, high = self.band.low, self.band.high
        return "" if low == high else f"{say.number(low)} – {say.number(high)}"

    @property
    def limited(self) -> str:
        """The limit in words, "" without one."""
        return "" if self.limit is None else say.amount(self.limit, self.unit)


def figures(plan: Plan) -> list[Figure]:
    """All predictions that are known."""
    p, slo = plan.predicted, plan.problem.workload.get("slo", {})
    which = slo.get("percentile", "mean")
    first, token = f"time to first token, {which}", f"time per output token, {which}"
    rows: list[tuple[str, Band | None, str, float | None, float | None, bool]] = [
        ("output tokens", p.out_tok_per_s, "/s", None, None, True),
        ("requests", p.rps, "/s", None, None, True),
        (first, p.ttft_ms, "ms", slo.get("ttft_ms"), p.chance_ttft, False),
        (token, p.tpot_ms, "ms", slo.get("tpot_ms"), p.chance_tpot, False),
        ("cost", p.usd_per_hour, "$/h", None, None, False),
        ("cost of 1M output tokens", p.usd_per_mtok, "$", None, None, False),
        ("power of all GPUs", p.watts, "W", None, None, False),
        ("energy of an output token", p.joules_per_tok, "J", None, None, False),
    ]
    rows += [(label, band, unit, None, None, False) for label, band, unit in electricity(plan)]
    return [
        Figure(label, band, unit, limit, kept, more)
        for label, band, unit, limit, kept, more in rows
        if band is not None
    ]

"""How requests come where no rate is asked for, and what that leaves to promise."""

from __future__ import annotations

from planner.errors import InputError
from planner.inputs.options import Options
from planner.inputs.workload import Workload


def drawn(load: Workload, defaulted: list[str], closed: bool) -> tuple[Workload, list[str]]:
    """The workload with random arrivals where nobody says how requests come; not `closed` ones."""
    if closed or load.rate_rps is not None or load.arrivals is not None:
        return load, defaulted
    return load.model_copy(update={"arrivals": "open"}), [*defaulted, "arrivals"]


def refuse_percentiles(load: Workload, chosen: Options, profiled: bool) -> None:
    """A percentile of chains, whose limits are kept by means: neither stands for the other. Raises
    InputError."""
    chains = chosen.engine == "chains" and load.loop == "closed"
    if chains and not profiled and load.slo.percentile != "mean" and load.slo.limits:
        raise InputError("limits of chains are on means", "--percentile", "leave it out")

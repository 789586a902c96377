"""What no device can do: latencies below the roofline of the work that they stand for."""

from __future__ import annotations

from functools import lru_cache

from planner.calibration.runs import Measurement
from planner.cost.attention import Load
from planner.cost.model import CostModel
from planner.predict.loads import Group, Rows
from planner.predict.predictions import looked_up
from planner.predict.rows import Row, parse

SLACK = 0.9
"""Of the roofline: lengths scatter about their means, and data sheets round."""

IN_SECONDS = 0.15
"""Of the roofline: real TTFTs are 2 to 150 times theirs, TPOTs 1 to 10 times, so one in seconds is below."""


def impossible(measured: Measurement) -> str | None:
    """Why the row cannot be true on its device, None where it can. Raises InputError: a bad row.

    TPOT is held against a step of the sequences that were decoding on average (by Little's law, from the
    concurrency, TTFT and TPOT; of one where TTFT is not known), TTFT against the prompt alone on the server.
    """
    group, row = looked_up(parse(measured.cells))
    ttft, tpot = measured.ttft_ms, measured.tpot_ms
    if ttft is not None and row.role != "decode":
        floor = ttft_floor_ms(group, row)
        if ttft < SLACK * floor:
            least = f"a prompt of {row.isl} tokens takes {row.device} at least {floor:.3g} ms"
            return f"TTFT of {ttft:.3g} ms: {least}; {_guess(ttft, floor, 'a hit of the prefix cache')}"
    if tpot is not None and row.role != "prefill":
        floor = tpot_floor_ms(group, row, measured)
        if tpot < SLACK * floor:
            least = f"a step takes {row.device} at least {floor:.3g} ms"
            others = "at a lower precision, on more GPUs, or speculative"
            return f"TPOT of {tpot:.3g} ms: {least}; {_guess(tpot, floor, others)}"
    return None


def ttft_floor_ms(group: Group, row: Row) -> float:
    """The roofline of one prompt on an idle server; with attention dp, of its share of the experts' work."""
    load = Rows.of(group, [row])
    share = load.asked.prompt / load.designs.attn_dp
    return 1e3 * float(_cost(group).floor_s(load.designs, Load.of(0.0, 1.0, share, load.asked.keys))[0])


def tpot_floor_ms(group: Group, row: Row, measured: Measurement) -> float:
    """The roofline of a step of those sequences that the measurement itself says were decoding."""
    load = Rows.of(group, [row])
    decoding = min(float(load.sequences[0]), 1.0)
    if measured.ttft_ms is not None and measured.tpot_ms is not None:
        busy = (row.osl - 1) * measured.tpot_ms
        decoding = float(load.sequences[0]) * busy / (measured.ttft_ms + busy)
    step = _cost(group).floor_s(load.designs, Load.of(decoding, load.asked.context))
    return 1e3 * float(step[0]) / (1 + row.accepted_tokens)


def _guess(value: float, floor: float, otherwise: str) -> str:
    return "is it in seconds?" if value < IN_SECONDS * floor else f"was it {otherwise}?"


@lru_cache(maxsize=64)
def _cost(group: Group) -> CostModel:
    return group.cost()

"""A schedule made by hand: a day of four slots, of nodes for good and spot nodes."""

from dataclasses import replace

from planner.schedule.answer import Schedule
from planner.schedule.policies import Judged, Policy
from planner.schedule.units import Unit

UNIT = Unit("h", "h100-sxm", 1, 6, "mixed", 10.0, (10.0,) * 4, 2.5, False, 180.0, "1 x tp1 vllm")
SPOT = replace(UNIT, node_class="s", spot=True, rps=4.0, by_slot=(4.0, 2.0, 3.0, 4.0), cold_s=210.0)

DAY = Schedule(
    units=[UNIT, SPOT],
    left_out=[],
    undecided={},
    slot_s=21_600.0,
    rate_rps=[5.0, 20.0, 20.0, 0.0],
    sized_rps=[5.0, 20.0, 20.0, 0.0],
    sized_by="mean",
    margin=0.0,
    counts=[[1, 2, 2, 0], [0, 1, 1, 0]],
    reserved={"h": 0, "s": 0},
    usd=96.0,
    bound=95.9,
    gap=0.001,
    status="within_gap",
    static_usd=120.0,
    autoscaler=Judged(Policy(None, 0.25), 100.0, 0.0004),
    short=0.001,
    bare_usd=None,
    whole_usd=None,
    forecast=None,
    seconds=1.24,
)
"""A day of four slots: nothing runs in the last; 96 dollars where a fleet that stays takes 120."""

"""Idle cache in words: what it finds, how long it best stays, what more room is worth."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from planner.plans.schema import Kept, KeptTime, Price, Replica
from planner.reports.memory import keeping, sentences, span
from tests.reports.samples import ONE_NODE, replica

KEPT = Kept(
    place="host", keep_s=90.0, lasts_s=7200.0, hit=0.375, found_tokens=[384.0], bytes=210e9, shared_bytes=3e9,
    loads_gb_per_s=2.0, best_adds=0.02,
    times=[KeptTime(kind="sessions", seconds={"hbm": 4.0, "host": 600.0, "nvme": 0.01})],
    prices=[
        Price(limit="host 1 GB", one_more="1 GB", worth=0.31, unit="tok/s"),
        Price(limit="nvme 1 GB", one_more="1 GB", worth=0.0004, unit="tok/s"),
    ],
)  # fmt: skip


def with_kept(count: int = 4, engine: str = "vllm", **changes: Any) -> Replica:
    return replica(count=count, engine=engine, kept=KEPT.model_copy(update=changes))


def shown(*replicas: Replica) -> str:
    console = Console(width=120)
    with console.capture() as caught:
        for part in keeping(ONE_NODE.model_copy(update={"replicas": list(replicas)})):
            console.print(part)
    return caught.get()


def test_a_plan_that_keeps_nothing_says_nothing():
    assert keeping(ONE_NODE) == []


def test_a_row_tells_where_how_much_what_is_found_and_for_how_long():
    (row,) = [line for line in shown(with_kept()).splitlines() if line.startswith("r1 ")]

    for cell in ("host memory", "210.0", "3.0", "38 %", "90.0 s", "120 min"):
        assert cell in row


def test_best_times_are_told_tier_after_tier_and_moments_left_out():
    lines = sentences(with_kept(), KEPT)

    assert lines[0] == "r1: times to live by kind instead of one for all would save 2.0 % more"
    assert lines[1] == "r1: best kept: sessions 4.00 s in GPU memory then 10.0 min in host memory"
    assert lines[2] == "r1: one more GB here is worth, by the time it saves: host memory 0.310 tok/s"


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ({"best_adds": 0.004}, 2),
        ({"times": []}, 2),
        ({"times": KEPT.times * 7}, 2),  # too many to list
        ({"times": KEPT.times * 6}, 3),
        ({"prices": []}, 3),
    ],
)
def test_what_is_next_to_nothing_has_no_line(changes: dict[str, Any], lines: int):
    assert len(sentences(with_kept(), KEPT.model_copy(update=changes))) == lines


def test_room_that_brings_nothing_is_said_to():
    dear = KEPT.model_copy(update={"prices": KEPT.prices[1:]})

    assert (
        sentences(with_kept(), dear)[-1] == "r1: one more GB of any tier for idle cache would bring nothing"
    )


def test_sessions_need_a_router_where_there_are_several_replicas():
    assert "sessions stay on their replica: vLLM's production-stack router" in shown(with_kept())
    assert "cache_aware" in shown(with_kept(engine="sglang"))
    assert "sessions stay" not in shown(with_kept(count=1))
    assert "sessions stay" not in shown(with_kept(engine="trtllm"))


def test_times_are_seconds_minutes_or_for_good():
    assert [span(s) for s in (599.0, 600.0, 86_399.0, 86_400.0)] == [
        "599 s",
        "10.0 min",
        "1,440 min",
        "for good",
    ]

"""The overview's waves, and SGLang's cookbook: what of a run is prompts that stop all decoding."""

import pytest

from benchmarks.saturated import BUSY, REQUESTS, RUNNING, SERVING, cookbook, overview, places, stopped

pytestmark = pytest.mark.skipif(not SERVING.is_dir(), reason="no measurements beside the repository")


def test_the_overviews_requests_come_in_waves_that_fit_and_are_as_few_as_can_be():
    rows = overview()

    for row, cells, _ in rows:
        at_once = int(row["attn_dp"]) * places(cells)
        waves = REQUESTS[max(1024, int(row["isl"]), int(row["osl"]))] / float(cells["concurrency"])
        assert waves == pytest.approx(round(waves))
        assert (waves - 1) * at_once < waves * float(cells["concurrency"]) <= waves * at_once
        assert float(cells["concurrency"]) <= RUNNING * int(row["attn_dp"])
    assert len({float(cells["concurrency"]) for _, cells, _ in rows}) > 10


def test_runs_of_one_request_are_read_where_asked_for():
    every, busy = cookbook(1), cookbook()

    assert min(float(row["concurrency"]) for row, *_ in busy) == BUSY
    assert len(every) > 2 * len(busy)
    assert all(cells["concurrency"] for _, cells, _ in every)


def test_a_server_that_stops_for_prompts_is_slower_than_one_that_decodes_alone():
    lines = [line.split() for line in stopped().splitlines() if line[:4] in ("Deep", "Kimi", "Mini")]

    assert len(lines) == 10
    for *_, prompts, _, _, decoding, waits in lines:
        assert float(waits) > float(decoding)
        assert (float(waits) > 1.15 * float(decoding)) == (float(prompts) > 0.05)

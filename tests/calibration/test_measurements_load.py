"""The load of a run: what a file says of it, against Little's law."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.calibration.runs import Run, concurrency, measurement
from planner.errors import InputError

GIVEN = {"model": "llama-3.1-8b", "device": "h100-sxm", "engine": "vllm", "tp": "1"}
RUN = Run({}, isl=1000, osl=101, ttft_ms=100, tpot_ms=9, rps=10, completed=200, cap=10)
"""One second a request, ten a second: ten in flight."""


def test_a_maximum_concurrency_is_the_closed_loop() -> None:
    assert concurrency(RUN) == (10, [])


def test_little_finds_the_concurrency_that_is_not_said() -> None:
    assert concurrency(replace(RUN, cap=None)) == (10, ["10 in flight by Little's law"])


def test_an_option_says_it_too_and_is_held_against_the_law() -> None:
    assert concurrency(replace(RUN, cap=None), "12") == (12, [])
    with pytest.raises(InputError, match="finds 10 requests in flight, not 40"):
        concurrency(replace(RUN, cap=None), "40")


def test_the_mean_latency_of_the_file_goes_before_that_of_its_parts() -> None:
    assert concurrency(replace(RUN, cap=None, latency_ms=1500))[0] == 15


@pytest.mark.parametrize(("cap", "fine"), [(7.0, False), (8.0, True), (19.0, True), (21.0, False)])
def test_slots_must_be_full_and_cannot_be_fuller(cap: float, fine: bool) -> None:
    """10 / 7 is above 1.3; 10 / 21 is below 0.5."""
    if fine:
        assert concurrency(replace(RUN, cap=cap))[0] == cap
    else:
        with pytest.raises(InputError, match="Little's law"):
            concurrency(replace(RUN, cap=cap))


def test_an_open_loop_meets_one_more_than_are_in_flight_but_no_more_than_its_cap() -> None:
    unlimited, note = concurrency(replace(RUN, cap=float("inf"), asked_rps=10.5))

    assert unlimited == 11
    assert note == ["open loop at 10.5 requests/s: 10 in flight by Little's law"]
    assert concurrency(replace(RUN, cap=10.5, asked_rps=10.5))[0] == 10.5


def test_an_open_loop_that_fell_behind_is_no_steady_state() -> None:
    with pytest.raises(InputError, match="20 requests/s were sent, 10 completed"):
        concurrency(replace(RUN, cap=None, asked_rps=20))


def test_requests_sent_at_once_are_no_load_of_ours() -> None:
    for cap in (None, float("inf")):
        with pytest.raises(InputError, match="sent at once"):
            concurrency(replace(RUN, cap=cap, asked_rps=float("inf")))


def test_without_times_nothing_is_known() -> None:
    unknown = replace(RUN, cap=None, rps=None)
    with pytest.raises(InputError, match="does not say the `concurrency`"):
        concurrency(unknown)
    with pytest.raises(InputError, match="open loop"):
        concurrency(replace(unknown, asked_rps=5))


def test_replicas_share_what_is_in_flight() -> None:
    assert concurrency(replace(RUN, replicas=5))[0] == 2
    assert concurrency(replace(RUN, replicas=5, cap=None))[0] == 2
    assert concurrency(replace(RUN, replicas=5, cap=None, asked_rps=10))[0] == 3


def test_the_row_has_whole_lengths_and_no_blank_cells() -> None:
    found = measurement(replace(RUN, isl=999.6, osl=100.7), "here", GIVEN | {"precision": ""})

    assert found.cells == GIVEN | {"isl": "1000", "osl": "101", "concurrency": "10"}
    assert (found.ttft_ms, found.tpot_ms, found.where) == (100, 9, "here")


@pytest.mark.parametrize("column", GIVEN)
def test_what_has_no_default_must_be_said(column: str) -> None:
    with pytest.raises(InputError, match=f"does not say the `{column}`"):
        measurement(RUN, "here", {name: text for name, text in GIVEN.items() if name != column})


def test_one_token_has_no_tpot() -> None:
    run = replace(RUN, osl=1.0, tpot_ms=0.0, latency_ms=100, cap=1)

    assert measurement(run, "here", GIVEN).tpot_ms is None


def test_told_goes_before_given_before_guessed() -> None:
    run = replace(RUN, told={"tp": "4"}, guessed={"tp": "8", "engine": "trtllm", "precision": "fp8"})
    cells = measurement(run, "here", GIVEN).cells

    assert (cells["tp"], cells["engine"], cells["precision"]) == ("4", "vllm", "fp8")

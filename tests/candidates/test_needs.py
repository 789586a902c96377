"""What candidates take as arrays, by hand: rows by resource, and what counts beside them."""

import numpy as np
import pytest

from planner.candidates.candidate import Candidate, Design
from planner.candidates.needs import Counts, Needs, grown, moved, needs_of
from planner.cost.transfer import Overlap
from planner.objectives import named

BOTH, NEITHER = Counts(latency=True, watts=True), Counts(latency=False, watts=False)


def candidate(name: str, use: dict[str, dict[str, float]], **more) -> Candidate:
    defaults = {"watts": 5.0, "ttft_s": {"0": 1.0, "1": 2.0}, "handoff_s": {"0": 0.1}, "tpot_s": 0.5}
    return Candidate(name, "mixed", "g", "vllm", Design(tp=2), 2, use, **{**defaults, **more})


ONE = candidate("one", {"busy": {"0": 0.5, "1": 0.25}, "cache": {"0": 0.1, "1": 0.6}})
TWO = candidate("two", {"busy": {"0": 0.5}}, watts=7.0, late_s=0.3)


def test_a_resource_that_one_has_not_is_a_row_of_zeros_and_a_bucket_not_served_is_infinite():
    needs = needs_of([ONE, TWO], NEITHER, punctual=True)

    assert needs.use[0].tolist() == [[0.5, 0.25], [0.1, 0.6]]
    assert needs.use[1].tolist() == [[0.5, np.inf], [0.0, 0.0]]
    assert needs.peak[0].tolist() == [0.5, 0.6]
    assert needs.gpus.tolist() == [2, 2]


def test_what_no_objective_counts_is_nothing():
    needs = needs_of([ONE, TWO], NEITHER, punctual=True)

    assert not needs.slow.any()
    assert not needs.watts.any()


def test_latency_is_the_first_token_then_the_next_ones_and_watts_are_the_replicas():
    needs = needs_of([ONE, TWO], BOTH, punctual=False)

    assert needs.slow[0, :2].tolist() == [[1.0, 2.0], [0.5, 0.5]]
    assert needs.watts.tolist() == [[5.0], [7.0]]


def test_how_late_a_side_is_matters_only_where_pairs_are_not_known():
    late, known = (needs_of([ONE, TWO], NEITHER, punctual=p) for p in (True, False))

    assert late.late.tolist() == [0.0, 0.3]
    assert late.handoff.tolist() == [0.1, 0.1]
    assert not known.late.any()
    assert not known.handoff.any()
    assert known.copies.tolist() == [1.0, 1.0]


def test_what_hides_a_transfer_is_by_bucket():
    hides = candidate("hides", {"busy": {"0": 1.0, "1": 1.0}}, overlap={"1": Overlap(0.2, 0.7)})
    needs = needs_of([ONE, hides], NEITHER, punctual=True)

    assert needs.hidden.tolist() == [[0.0, 0.0], [0.0, 0.7]]
    assert not needs_of([ONE, hides], NEITHER, punctual=False).hidden.any()


def test_taking_some_takes_them_of_every_array():
    needs = needs_of([ONE, TWO, ONE], BOTH, punctual=True)
    taken = needs.take(np.array([1, 0]))

    assert isinstance(taken, Needs)
    for name, values in vars(needs).items():
        assert np.array_equal(getattr(taken, name), values[[1, 0]])


def test_whoever_is_no_slower_in_all_four_is_no_slower_with_any_partner():
    slow = np.array([[[1.0, 2.0]]])
    sent, hidden = np.array([[0.3, 0.0]]), np.array([[0.1, 0.0]])
    found = moved(slow, sent, hidden)[0, :, 0].tolist()

    assert found == pytest.approx([1.0, 1.3, 0.9, 1.2])
    assert moved(slow, 0 * sent, 0 * hidden) is slow


def test_what_grows_with_the_load_is_seen_at_all_the_loads_where_it_is_known():
    seconds, watts = np.array([[[1.0]]]), np.array([9.0])
    light, none = np.array([[[0.4], [0.2]]]), (np.zeros((1, 1)), np.zeros((1, 1)))
    slow, drawn = grown(Counts(latency=True, watts=False), seconds, watts, light, none)
    _, lighter = grown(Counts(latency=False, watts=True), seconds, watts, light, none)

    assert slow[0, :, 0].tolist() == [0.4, 0.2]
    assert drawn.tolist() == [[0.0]]
    assert lighter.tolist() == [[0.4, 0.2]]
    whole = [grown(BOTH, seconds, watts, None, none)[i].ravel().tolist() for i in (0, 1)]
    assert whole == [[1.0], [9.0]]


@pytest.mark.parametrize(
    ("name", "limited", "latency", "watts", "grows"),
    [
        ("throughput", False, False, False, None),
        ("throughput", True, False, True, "watts"),
        ("cost", False, False, False, None),
        ("energy", False, False, True, "watts"),
        ("latency", False, True, False, "latency"),
        ("latency", True, True, True, "latency"),
    ],
)
def test_an_objective_makes_latency_or_watts_count_and_a_budget_of_watts_too(
    name, limited, latency, watts, grows
):
    counts = Counts.of(named(name).goal, limited)

    assert (counts.latency, counts.watts, counts.grows) == (latency, watts, grows)

"""Queueing where formulas divide by what may be nothing: no load, no t0, no prompts, no room, or too much."""

import csv
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from benchmarks.queueing import MIXES, STEPS
from planner.designs.shape import Floats, StepTimes
from planner.queueing import Estimate, closed_loop, estimate

TABLE = Path(__file__).with_name("queueing_table.csv")
"""Last bucket's times, and the server's sequences and rate, as computed before edges were treated."""

PERCENTILES = ["mean", "p50", "p90", "p95", "p99"]


def often_zero(low: float, high: float) -> st.SearchStrategy[float]:
    return st.one_of(st.just(0.0), st.floats(np.log10(low), np.log10(high)).map(lambda x: 10.0**x))


TIMES = st.tuples(
    often_zero(1e-3, 0.1),
    often_zero(1e-6, 3e-4),
    often_zero(1e-11, 1e-8),
    often_zero(1e-6, 3e-4),
    often_zero(1e-9, 1e-6),
)
SHARE = st.one_of(st.just(0.0), st.floats(0.01, 1))
WILD = st.lists(
    st.tuples(st.integers(1, 10**6), st.floats(0, 1), st.sampled_from([1, 2, 20, 500, 10**5, 10**8]), SHARE),
    min_size=1,
    max_size=3,
)
"""Prompt tokens, of which computed, output tokens, share."""

TAME = st.lists(
    st.tuples(st.integers(1, 12_000), st.one_of(st.just(1), st.integers(20, 1500)), SHARE),
    min_size=1,
    max_size=3,
)


def steps(values: tuple[float, ...], stages: float = 1.0) -> StepTimes:
    return StepTimes(*(np.array([v]) for v in (*values, stages)))


def one(x: float) -> Floats:
    return np.array([[float(x)]])


def assert_defined(e: Estimate) -> None:
    for name, values in vars(e).items():
        assert not np.isnan(values).any(), name
        assert (values >= 0).all(), name


@pytest.fixture(autouse=True)
def _strict() -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize(
    "row", list(csv.DictReader(TABLE.read_text().splitlines())), ids=lambda r: " ".join(r.values())[:48]
)
def test_ordinary_servers_have_the_figures_of_the_table(row: dict[str, str]) -> None:
    """To 1e-10: exponentials of other processors differ by some 1e-16."""
    isl, osl, share = np.array(MIXES[row["mix"]], dtype=float).T
    shape, budget = (STEPS[row["step"]], isl, isl, osl), float(row["token_budget"])
    full = estimate(*shape, share[None], budget, role=row["role"]).utilisation[0]  # type: ignore[arg-type]
    rate = float(row["utilisation"]) * share[None] / full

    e = estimate(*shape, rate, budget, row["percentile"], row["loop"], row["role"])  # type: ignore[arg-type]

    found = e.ttft_s[0, -1], e.tpot_s[0, -1], e.sequences[0], e.rate[0]
    expected = [float(row[key]) for key in ("ttft_s", "tpot_s", "sequences", "rate")]
    assert found == pytest.approx(expected, rel=1e-10)


@settings(max_examples=150)
@given(
    times=TIMES,
    stages=st.sampled_from([1.0, 8.0]),
    buckets=WILD,
    budget=st.sampled_from([1, 512, 8192, np.inf]),
    percentile=st.sampled_from(PERCENTILES),
    loop=st.sampled_from(["open", "closed"]),
    role=st.sampled_from(["mixed", "prefill", "decode"]),
    room=st.sampled_from([(np.inf, np.inf), (0.0, np.inf), (1e5, 64.0), (np.inf, 0.0)]),
)
@example((0.0,) * 5, 1.0, [(1, 0.0, 1, 0.0)], 512, "p99", "open", "mixed", (np.inf, np.inf))
@example((0.0,) * 5, 8.0, [(1, 0.0, 10**8, 1.0)], np.inf, "p50", "open", "prefill", (0.0, 0.0))
def test_nothing_and_too_much_give_numbers_or_infinity(
    times: tuple[float, ...],
    stages: float,
    buckets: list[tuple[int, float, int, float]],
    budget: float,
    percentile: str,
    loop: str,
    role: str,
    room: tuple[float, float],
) -> None:
    """Never NaN, never a warning."""
    isl, hit, osl, share = np.array(buckets, dtype=float).T
    shape = steps(times, stages), np.round(isl * hit), isl, osl
    full = float(estimate(*shape, share[None], budget, role=role).utilisation[0])  # type: ignore[arg-type]
    rates = np.array([0, 1e-9, 0.5, 1.0, 3.0])[:, None] * share / (full or 1.0)
    flood = np.where(share > 0, np.inf, 0.0)[None]

    assert_defined(estimate(*shape, np.vstack([rates, flood]), budget, percentile, loop, role, *room))  # type: ignore[arg-type]
    if share.sum() > 0:
        inside = np.array([0.0, 0.5, 1.0, 50.0, 1e6])
        shape = StepTimes(*(np.repeat(x, 5) for x in vars(shape[0]).values())), *shape[1:]
        assert_defined(closed_loop(*shape, share / share.sum(), inside, budget, percentile, role, *room))  # type: ignore[arg-type]


@settings(max_examples=100)
@given(
    times=TIMES,
    buckets=TAME,
    budget=st.sampled_from([512, 2048, 8192]),
    role=st.sampled_from(["mixed", "prefill", "decode"]),
    loop=st.sampled_from(["open", "closed"]),
)
def test_means_rise_with_the_rate_from_nothing_to_overload(
    times: tuple[float, ...], buckets: list[tuple[int, int, float]], budget: int, role: str, loop: str
) -> None:
    """Within a tenth or 1 us (nearly free prompts jump). Closed-loop TPOT falls where answers are late."""
    isl, osl, share = np.array(buckets, dtype=float).T
    shape = steps(times), isl, isl, osl
    full = float(estimate(*shape, share[None], budget, role=role).utilisation[0])  # type: ignore[arg-type]
    rates = np.array([0, 1e-6, 0.01, *np.linspace(0.1, 0.95, 10), 1.1, 3.0])[:, None] * share / (full or 1.0)

    e = estimate(*shape, rates, budget, loop=loop, role=role)  # type: ignore[arg-type]

    for values in (e.ttft_s,) if loop == "closed" else (e.ttft_s, e.tpot_s):
        finite = np.minimum(values, 1e30)
        assert (finite[1:] >= 0.9 * finite[:-1] - 1e-6).all()


@pytest.mark.parametrize("role", ["mixed", "prefill"])
def test_an_idle_server_answers_after_the_prompts_own_step(role: str) -> None:
    """t0 and the prompt; a mixed server's steps go on, so half of one is waited for."""
    t0, prompt = 6e-3, 1000 * 32e-6
    e = estimate(steps((t0, 32e-6, 0, 2e-5, 0)), one(1000), one(1000), one(200), one(0), 2048, role=role)  # type: ignore[arg-type]

    assert e.ttft_s[0, 0] == pytest.approx(t0 * (1.5 if role == "mixed" else 1) + prompt, rel=1e-6)
    assert e.utilisation[0] == e.rate[0] == 0


def test_a_request_alone_decodes_in_t0_and_its_own_work() -> None:
    e = estimate(steps((6e-3, 3e-5, 0, 2e-3, 0)), one(10), one(10), one(200), one(0), 2048, role="decode")

    assert e.tpot_s[0, 0] == pytest.approx(8e-3, rel=1e-9)


def test_a_bucket_without_requests_waits_as_long_as_one_with_next_to_none() -> None:
    shape = STEPS["8b"], *[np.array([500.0, 3000.0])] * 2, np.array([100.0, 60.0])
    none, few = (estimate(*shape, np.array([[5.0, x]]), 2048, "p90") for x in (0.0, 1e-9))

    assert none.ttft_s == pytest.approx(few.ttft_s, rel=1e-3)
    assert none.tpot_s == pytest.approx(few.tpot_s, rel=1e-3)


def test_without_t0_decodes_share_the_processor() -> None:
    """TPOT = own / (1 - ρ), the limit of (t0 + own) / (1 - ρ)."""
    e = estimate(steps((0, 0, 0, 1e-3, 0)), one(1), one(1), one(101), one(5), 4096, role="decode")

    assert e.tpot_s[0, 0] == pytest.approx(1e-3 / (1 - 0.5), rel=2e-3)


@pytest.mark.parametrize("percentile", ["mean", "p90"])
def test_a_single_output_token_has_the_mean_step_for_tpot(percentile: str) -> None:
    rate, t0, prompt = 4.0, 6e-3, 1000 * 32e-6
    e = estimate(
        *(steps((t0, 32e-6, 0, 2e-5, 0)), one(1000), one(1000), one(1), one(rate), 2048, percentile)  # type: ignore[arg-type]
    )

    assert e.tpot_s[0, 0] == pytest.approx(t0 / (1 - rate * prompt), rel=1e-9)


@pytest.mark.parametrize("osl", [1e6, 1e8])
def test_very_long_outputs_are_too_much_or_finite(osl: float) -> None:
    work = (osl - 1) * (20e-6 + 44e-9 * (100 + osl / 2))
    e = estimate(STEPS["8b"], one(100), one(100), one(osl), np.array([[0.5], [2.0]]) / work, 2048)

    assert np.isfinite(e.tpot_s[0, 0])
    assert np.isinf(e.tpot_s[1, 0])


def test_a_closed_loop_of_nobody_makes_no_requests() -> None:
    e = closed_loop(STEPS["8b"], one(100), one(100), one(50), one(1), np.array([0.0]), 2048)

    assert e.rate[0] == 0
    assert np.isfinite(e.ttft_s).all()

"""The queueing formulas against the replay at fixed seeds, against exact results, and their order."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.queueing import STEPS, Setting, errors, loop_errors, loop_within
from benchmarks.replays.servers import Settings, replay
from planner.designs.shape import Floats, StepTimes
from planner.queueing import closed_loop, estimate, work_s
from planner.queueing.closed import renewed
from planner.queueing.load import Limits, Load, Parts, column
from planner.queueing.tail import gamma_of, gamma_quantile
from planner.simulate.requests import Requests as Replayed

OPEN = [
    ("8b", "chat", 2048, 0.3),
    ("8b", "chat", 8192, 0.6),
    ("8b", "long", 2048, 0.6),
    ("8b", "code", 2048, 0.5),
    ("8b", "short", 2048, 0.7),
    ("8b", "duo", 8192, 0.7),
    ("70b", "chat", 2048, 0.7),
    ("70b", "long", 8192, 0.3),
    ("70b", "conversation", 8192, 0.5),
    ("70b", "short", 8192, 0.5),
    ("moe", "duo", 2048, 0.6),
    ("moe", "conversation", 8192, 0.6),
    ("moe", "completion", 8192, 0.5),
]
"""Step times, mix, token budget, utilisation; `python -m benchmarks.queueing` has many more, up to 0.9, where
replays must be long."""

KEYS = ["ttft mean", "ttft p90", "tpot mean", "tpot p90"]


def shaped(*values: float) -> StepTimes:
    return StepTimes(*(np.array([v]) for v in values))


def one(x: float) -> Floats:
    return np.array([[float(x)]])


@pytest.mark.parametrize("row", OPEN, ids=str)
def test_means_and_90th_percentiles_are_within_a_tenth_of_the_replay(
    row: tuple[str, str, int, float],
) -> None:
    """TTFT and TPOT of every bucket of the mix, Poisson arrivals."""
    found = errors(Setting(*row), 40_000)

    assert {key: found[key] for key in KEYS if abs(found[key]) > 0.10} == {}


@pytest.mark.parametrize("row", [("8b", "code", 2048, 0.9), ("70b", "chat", 8192, 0.9)], ids=str)
def test_means_hold_near_saturation(row: tuple[str, str, int, float]) -> None:
    found = errors(Setting(*row), 150_000)

    assert abs(found["ttft mean"]) < 0.10
    assert abs(found["tpot mean"]) < 0.10


@pytest.mark.parametrize(
    ("mix", "utilisation"), [("chat", 0.5), ("long", 0.7), ("completion", 0.6), ("conversation", 0.5)]
)
def test_prefill_servers_are_within_a_tenth_of_the_replay(mix: str, utilisation: float) -> None:
    found = errors(Setting("8b", mix, 2048, utilisation), 40_000, "prefill")

    assert max(abs(found[key]) for key in ("ttft mean", "ttft p90")) < 0.10


@pytest.mark.parametrize("concurrency", [1, 8, 64])
@pytest.mark.parametrize("mix", ["chat", "long", "conversation"])
def test_closed_loops_have_the_replays_rate_and_means(mix: str, concurrency: int) -> None:
    found = loop_errors(Setting("70b", mix, 8192, 0.0), concurrency)

    assert abs(found["rate"]) < 0.03
    assert abs(found["ttft"]) < 0.10
    assert abs(found["tpot"]) < 0.05


def test_work_is_prefill_and_decode_by_hand() -> None:
    """1,000 prompt tokens of which 600 are computed: 600 a + pairs (600·400 + 600·601/2); 99 steps at 1,050
    tokens."""
    times = shaped(5e-3, 1e-5, 1e-9, 1e-5, 1e-8, 1)
    prefill, decode = 600 * 1e-5 + 1e-9 * (240_000 + 180_300), 99 * (1e-5 + 1e-8 * 1050)

    for role, expected in (("mixed", prefill + decode), ("prefill", 5e-3 + prefill), ("decode", decode)):
        assert work_s(times, one(600), one(1000), one(100), role) == pytest.approx(expected)  # type: ignore[arg-type]


def test_decode_servers_are_the_processor_sharing_queue() -> None:
    """T = (t0 + own) / (1 - ρ) exactly, and as many sequences as its negative binomial has."""
    times = shaped(10e-3, 1e-5, 0, 1e-4, 0, 1)
    e = estimate(times, one(1), one(1), one(101), one(50), 4096, role="decode")

    rho = 50 * 100 * 1e-4
    assert e.tpot_s[0, 0] == pytest.approx((10e-3 + 1e-4) / (1 - rho), rel=1e-6)
    assert e.sequences[0] == pytest.approx((10e-3 / 1e-4 + 1) * rho / (1 - rho), rel=1e-6)


def test_a_prefill_server_with_one_prompt_a_step_is_pollaczek_khinchine() -> None:
    """Deterministic service y = t0 + p: E[TTFT] = y + u y / 2 (1 - u)."""
    times = shaped(10e-3, 1e-4, 0, 0, 0, 1)
    y, rate = 10e-3 + 1500e-4, 4.0
    e = estimate(times, one(1500), one(1500), one(1), one(rate), 2048, role="prefill")

    u = rate * y
    assert e.utilisation[0] == pytest.approx(u)
    assert e.ttft_s[0, 0] == pytest.approx(y + u * y / 2 / (1 - u), rel=0.01)


@pytest.mark.parametrize("computed", [1.0, 4.0])
def test_steps_spend_all_time_on_t0_and_work(computed: float) -> None:
    """t0 / T + ρ = 1, and tokens a step, drafted ones with them, fill the budget where the utilisation says
    so."""
    times, isl, osl = STEPS["8b"], np.array([[900.0, 100.0]]), np.array([[50.0, 400.0]])
    parts = Parts.of(times, isl, isl, osl, "mixed", computed=computed)
    limits = Limits(column(1024), column(np.inf), column(np.inf))
    full = Load.of(parts, np.array([[1.0, 2.0]]), limits).utilisation[0, 0]

    load = Load.of(parts, np.array([[1.0, 2.0]]) * 0.999999 / full, limits)

    assert load.t0_s / load.step_s + load.rho == pytest.approx(1.0)
    tokens = (load.rate * (isl + computed * (osl - 1))).sum() * load.step_s
    assert float(tokens[0, 0]) == pytest.approx(1024, rel=1e-3)


def test_more_than_a_server_can_carry_takes_for_ever() -> None:
    e = estimate(STEPS["8b"], one(1000), one(1000), one(200), one(1000), 2048)

    assert e.utilisation[0] > 1
    assert np.isinf(e.ttft_s).all()
    assert np.isinf(e.tpot_s).all()


def test_no_load_leaves_a_request_alone() -> None:
    """TTFT: half a step is not waited for an idle server, but formulas count steps on: within t0/2."""
    e = estimate(STEPS["8b"], one(1000), one(1000), one(200), one(0), 2048)

    alone = 6e-3 + work_s(STEPS["8b"], one(1000), one(1000), one(1))[0, 0]
    assert alone <= e.ttft_s[0, 0] <= alone + 3.1e-3
    assert e.tpot_s[0, 0] == pytest.approx(6e-3 + 20e-6 + 44e-9 * 1100, rel=1e-3)
    assert e.sequences[0] == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(("budget", "chunks"), [(8192, 1), (2000, 4)])
def test_stages_lengthen_a_lone_prompt(budget: int, chunks: int) -> None:
    """By (c + stages - 1)/c for c chunks."""
    flat, piped = (
        estimate(shaped(1e-6, 1e-4, 0, 0, 0, stages), one(8000), one(8000), one(2), one(0), budget).ttft_s[
            0, 0
        ]
        for stages in (1.0, 4.0)
    )

    assert piped / flat == pytest.approx((chunks + 3) / chunks, rel=1e-3)


def test_requests_that_do_not_fit_in_kv_queue_outside() -> None:
    """Of 100 requests so many fit as 40 sequences take room, a prompt in work half as much; all others wait,
    as Little's law says of 100 in flight."""
    shape = STEPS["70b"], one(1000), one(1000), one(201), np.array([[1.0]])
    room = 40 * (1000 + 201 / 2)

    tight = closed_loop(*shape, np.array([100.0]), 2048, kv_tokens=room)
    prompt_s = work_s(STEPS["70b"], one(1000), one(1000), one(201), "prefill")[0, 0]
    inside = tight.rate[0] * 200 * tight.tpot_s[0, 0]

    assert inside + tight.rate[0] * prompt_s / 2 == pytest.approx(40)
    assert tight.rate[0] * (tight.ttft_s[0, 0] + 200 * tight.tpot_s[0, 0]) == pytest.approx(100)


def test_time_beside_the_server_takes_requests_out_of_it() -> None:
    """By hand: at X requests/s of 0.5 s beside it a loop of N has N - X / 2 requests in the server."""
    shape = STEPS["70b"], one(1000), one(1000), one(201), np.array([[1.0]])

    beside = closed_loop(*shape, np.array([40.0]), 2048, beside_s=0.5)
    within = closed_loop(*shape, np.array([40.0 - beside.rate[0] / 2]), 2048)

    assert beside.rate == pytest.approx(within.rate)
    assert beside.ttft_s == pytest.approx(within.ttft_s)
    assert beside.tpot_s == pytest.approx(within.tpot_s)


def test_a_decode_server_in_a_closed_loop_by_hand() -> None:
    """16 sequences, 100 steps of 10 ms + 16 x 0.1 ms each: 16 / 1.16 s."""
    times = shaped(10e-3, 1e-5, 0, 1e-4, 0, 1)
    e = closed_loop(
        times, one(500), one(500), one(101), np.array([[1.0]]), np.array([16.0]), 4096, role="decode"
    )

    assert e.rate[0] == pytest.approx(16 / 1.16)
    assert e.tpot_s[0, 0] == pytest.approx(11.6e-3)


@pytest.mark.parametrize(("percentile", "least", "most"), [("p90", 0.85, 0.99), ("p99", 0.95, 1.0)])
@pytest.mark.parametrize(("mix", "inside"), [("conversation", 16), ("duo", 16), ("duo", 64), ("code", 4)])
def test_a_closed_loops_percentile_holds_as_many_requests(mix, inside, percentile, least, most):
    within = loop_within(Setting("8b", mix, 2048, 0.5), inside, percentile)

    assert least <= min(within.values())
    assert max(within.values()) <= most


def test_percentiles_of_a_closed_loop_are_in_order():
    isl, osl, share = Setting("8b", "conversation", 2048, 0.5).buckets
    every = [
        closed_loop(STEPS["8b"], isl, isl, osl, share, np.array([30.0]), 2048, p)
        for p in ("p50", "p90", "p99")
    ]

    assert np.all(np.diff([e.tpot_s for e in every], axis=0) > 0)
    assert np.all(np.diff([e.ttft_s for e in every], axis=0) > 0)
    assert [e.rate[0] for e in every] == pytest.approx([every[0].rate[0]] * 3)


def test_others_that_always_last_as_long_come_evenly():
    """By hand: over one life each of them comes once; over next to none at random; over ten the phase
    varies: 1/6 of 10."""
    isl, share = np.array([[100.0, 100.0, 100.0]]), np.array([[1e-9, 1.0, 1e-9]])
    parts = Parts.of(STEPS["8b"], isl, isl, np.array([[2.0, 100.0, 1001.0]]), "mixed", 2048)
    load = Load.of(parts, share, Limits.of(2048, np.inf, np.inf))

    assert renewed(load)[0].tolist() == pytest.approx([0.99, 0.168, 1 / 60], abs=2e-3)


@pytest.mark.parametrize("role", ["mixed", "prefill", "decode"])
@pytest.mark.parametrize("loop", ["open", "closed"])
def test_single_token_outputs_and_absent_buckets_give_numbers(role: str, loop: str) -> None:
    lengths, outputs = np.array([[100.0, 3000.0]]), np.array([[1.0, 50.0]])
    for rate in ([[2.0, 0.0]], [[0.0, 0.0]], [[0.0, 0.1]]):
        e = estimate(STEPS["8b"], lengths, lengths, outputs, np.array(rate), 2048, "p90", loop, role)  # type: ignore[arg-type]
        assert all(np.isfinite(x).all() for x in vars(e).values())


def test_fewer_places_make_an_open_queue_longer() -> None:
    shape = STEPS["8b"], one(1000), one(1000), one(200), one(8.0), 2048
    waits = [estimate(*shape, max_sequences=most).ttft_s[0, 0] for most in (np.inf, 40, 30, 25)]

    assert waits == sorted(waits)
    assert waits[-1] > 1.2 * waits[0]


@pytest.mark.parametrize("percentile", ["mean", "p90"])
@pytest.mark.parametrize("loop", ["open", "closed"])
def test_buckets_with_the_same_prompts_wait_alike(loop: str, percentile: str) -> None:
    """Whether they are told as one bucket or as two."""

    def times(isl: list[float], osl: list[float], rate: list[float]) -> tuple[Floats, Floats]:
        lengths, asked = np.array([isl]), np.array([rate])
        found = estimate(STEPS["8b"], lengths, lengths, np.array([osl]), asked, 2048, percentile, loop)  # type: ignore[arg-type]
        return found.ttft_s[0], found.tpot_s[0]

    two = times([1000.0, 3000.0], [80.0, 80.0], [3.0, 1.0])
    three = times([1000.0, 3000.0, 1000.0], [80.0, 80.0, 80.0], [1.0, 1.0, 2.0])
    for told, once in zip(three, two, strict=True):
        assert told == pytest.approx(once[[0, 1, 0]], rel=1e-9)


def test_rows_do_not_depend_on_their_neighbours() -> None:
    times = StepTimes(*(np.array([x, 2 * x]) for x in (6e-3, 3e-5, 0.0, 2e-5, 4e-8)), np.ones(2))
    isl, osl, rate = np.array([500.0, 3000.0]), np.array([100.0, 60.0]), np.array([[3.0, 1.0], [1.0, 0.5]])
    both = estimate(times, isl, isl, osl, rate, 2048, "p90")
    for i in range(2):
        alone = estimate(
            StepTimes(*(x[[i]] for x in vars(times).values())), isl, isl, osl, rate[[i]], 2048, "p90"
        )
        assert both.ttft_s[i] == pytest.approx(alone.ttft_s[0], rel=1e-5)
        assert both.tpot_s[i] == pytest.approx(alone.tpot_s[0], rel=1e-5)


WORKLOADS = st.lists(
    st.tuples(st.integers(16, 12_000), st.integers(20, 1500), st.floats(0.05, 1)), min_size=1, max_size=3
)


@settings(max_examples=60)
@given(
    buckets=WORKLOADS,
    name=st.sampled_from(sorted(STEPS)),
    budget=st.sampled_from([512, 2048, 8192]),
    role=st.sampled_from(["mixed", "prefill", "decode"]),
    loop=st.sampled_from(["open", "closed"]),
)
def test_more_load_never_shortens_the_mean(
    buckets: list[tuple[int, int, float]], name: str, budget: int, role: str, loop: str
) -> None:
    isl, osl, share = np.array(buckets, dtype=float).T
    shape = STEPS[name], isl, isl, osl
    full = estimate(*shape, share[None], budget, role=role).utilisation[0]  # type: ignore[arg-type]
    rates = np.linspace(0.02, 0.95, 40)[:, None] * share / full
    e = estimate(*shape, rates, budget, loop=loop, role=role)  # type: ignore[arg-type]

    for times in (e.ttft_s, e.tpot_s):
        assert np.isfinite(times).all()
        if not (loop == "closed" and times is e.tpot_s):
            assert (np.diff(times, axis=0) >= -2e-3 * times[:-1]).all()


@settings(max_examples=40)
@given(buckets=WORKLOADS, name=st.sampled_from(sorted(STEPS)), budget=st.sampled_from([512, 8192]))
def test_percentiles_are_in_order(buckets: list[tuple[int, int, float]], name: str, budget: int) -> None:
    isl, osl, share = np.array(buckets, dtype=float).T
    shape = STEPS[name], isl, isl, osl
    rates = np.array([[0.2], [0.6], [0.9]]) * share / estimate(*shape, share[None], budget).utilisation[0]
    found = [estimate(*shape, rates, budget, q) for q in ("p50", "p90", "p95", "p99")]

    for less, more in pairwise(found):
        assert (less.ttft_s <= more.ttft_s * (1 + 1e-6)).all()
        assert (less.tpot_s <= more.tpot_s * (1 + 1e-6)).all()


@settings(max_examples=40)
@given(buckets=WORKLOADS, name=st.sampled_from(sorted(STEPS)), budget=st.sampled_from([512, 8192]))
def test_a_closed_loop_keeps_littles_law_and_gains_from_company(
    buckets: list[tuple[int, int, float]], name: str, budget: int
) -> None:
    isl, osl, share = np.array(buckets, dtype=float).T
    n, share = np.array([1.0, 2.0, 5.0, 20.0, 100.0]), share / share.sum()
    times = StepTimes(*(np.repeat(np.asarray(x), 5) for x in vars(STEPS[name]).values()))
    e = closed_loop(times, isl, isl, osl, share, n, budget)

    inside = e.rate * ((e.ttft_s + (osl - 1) * e.tpot_s) @ share)
    assert inside == pytest.approx(n, rel=0.025)
    assert (np.diff(e.rate) >= -1e-6 * e.rate[:-1]).all()


def test_gamma_functions_agree_with_scipy() -> None:
    special = pytest.importorskip("scipy.special")
    x, k = np.linspace(1, 6, 50), np.geomspace(0.1, 50, 200)

    assert gamma_of(x) == pytest.approx(special.gamma(x), rel=1e-6)
    for q in (0.9, 0.95, 0.99):
        assert gamma_quantile(k, q) == pytest.approx(special.gammaincinv(k, q) / k, rel=0.015)


def test_short_answers_of_a_full_server_are_within_their_p95() -> None:
    """Of 28 tokens nearly a quarter see full steps alone: a cap 1 % too low would lose them all."""
    step, (isl, osl, share) = STEPS["8b"], Setting("8b", "code", 2048, 0.85).buckets
    rate = 0.85 / estimate(step, isl, isl, osl, share, 2048).utilisation[0]
    rng = np.random.default_rng(1)
    at = np.cumsum(rng.exponential(1 / rate, 20_000))
    run = replay(step, Replayed(at, isl.repeat(20_000), osl.repeat(20_000)), Settings(2048))
    p95 = estimate(step, isl, isl, osl, np.array([rate]), 2048, "p95").tpot_s[0, 0]

    assert (run.tpot_s <= p95).mean() >= 0.94
    assert p95 <= 1.05 * np.percentile(run.tpot_s, 95)

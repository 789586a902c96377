"""The replay against stored cases, arithmetic by hand, Little's law and random small instances."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.replays.servers import Result, Settings, Transfer, replay, replay_pair, replay_prefill
from planner.designs.shape import Floats, StepTimes
from planner.errors import InputError
from planner.simulate.fleet import Fleet, Site
from planner.simulate.pools import Group, Load
from planner.simulate.requests import Requests, StepCosts
from planner.simulate.routing import Way

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases" / "simulate"
NAMES = ["8b_conv_poisson", "70b_code_bursty", "4x70b_conv_least_requests", "tightkv_conv_preempt"]


def step(t0=0.01, token=1e-4, pair=0.0, sequence=1e-3, context=0.0, stages=1.0) -> StepTimes:
    return StepTimes(*(np.asarray(x) for x in (t0, token, pair, sequence, context, stages)))


def requests(*rows: tuple[float, float, float], new: Floats | None = None) -> Requests:
    """Rows (arrival_s, isl, osl)."""
    table = np.array(rows, dtype=float)
    return Requests(table[:, 0], table[:, 1], table[:, 2], new)


def poisson(count: int, rate: float, isl: Floats, osl: Floats, seed: int = 5) -> Requests:
    rng = np.random.default_rng(seed)
    kind = rng.integers(len(isl), size=count)
    return Requests(np.cumsum(rng.exponential(1 / rate, count)), isl[kind], osl[kind])


@pytest.mark.skipif(not CASES.is_dir(), reason="the stored cases lie beside the repository and are not here")
@pytest.mark.parametrize("name", NAMES)
def test_stored_cases_come_out_to_the_digits_stored(name: str) -> None:
    case = json.loads((CASES / f"chunked_{name}.json").read_text())
    problem, known, times = case["problem"], case["known"], case["problem"]["step"]
    model = step(
        times["t0_s"], times["prefill_s_per_token"], 0.0, times["sequence_s"], times["context_s_per_token"]
    )
    rules = Settings(
        **{key: problem[key] for key in ("token_budget", "max_sequences", "kv_tokens", "replicas", "routing")}
    )

    result = replay(model, requests(*problem["requests"]), rules)

    assert (result.steps, result.preemptions) == (known["steps"], known["preemptions"])
    for key, value in known["result"].items():
        field, percent = key.rsplit("_p", 1)
        assert np.nanpercentile(getattr(result, field), int(percent)) == pytest.approx(value, rel=1e-4)


def test_an_engine_that_reserves_lets_in_what_fits_whole() -> None:
    """By hand: 100 tokens hold two of 20 + 30, the third after one ends; on demand all enter at once."""
    rows = requests((0, 20, 10), (0, 20, 10), (0, 20, 10))

    reserving = replay(step(), rows, Settings(kv_tokens=100, reserved_osl=30))
    demanding = replay(step(), rows, Settings(kv_tokens=100))

    assert reserving.queue_s.tolist() == [0.0, 0.0, reserving.end_s[0]]
    assert demanding.queue_s.tolist() == [0.0, 0.0, 0.0]
    assert reserving.kv_peak_tokens == 100


def test_a_prompt_longer_than_the_budget_takes_one_step_a_chunk() -> None:
    """By hand: 250 tokens at 100 a step: 3 steps of 10 ms and 250 x 0.1 ms; then 4 steps of 11 ms."""
    result = replay(step(), requests((0, 250, 5)), Settings(token_budget=100))

    assert result.ttft_s == pytest.approx([0.055])
    assert result.tpot_s == pytest.approx([0.011])


def test_decodes_go_before_prompts_and_prompts_in_order() -> None:
    """By hand: the first request decodes from 20 ms on; what it leaves, 99 tokens a step, goes to the second,
    then the third."""
    rows = requests((0, 100, 50), (0.001, 120, 2), (0.002, 70, 2))
    result = replay(step(), rows, Settings(token_budget=100))

    second = (
        0.020 + 2 * 0.011 + (99 + 21 + 70) * 1e-4
    )  # the third has all its 70 tokens in the second's last step
    assert result.ttft_s == pytest.approx([0.020, second - 0.001, second - 0.002])


def test_attention_pairs_and_cached_prefixes_are_priced() -> None:
    """By hand: the last 50 of 100 tokens see 51 ... 100 tokens: 3,775 pairs."""
    result = replay(step(pair=1e-6), requests((0, 100, 1), new=np.array([50.0])), Settings())

    assert result.ttft_s == pytest.approx([0.01 + 50e-4 + 3775e-6])
    assert math.isnan(result.tpot_s[0])


def test_pipeline_stages_lengthen_a_prompt_by_its_last_chunk() -> None:
    """c equal chunks take (c + stages - 1)/c times the prompt's work; a round carries one for each stage."""
    one_round, two = (
        replay(step(stages=4.0), requests((0, isl, 1)), Settings(token_budget=100)) for isl in (200, 800)
    )

    assert one_round.ttft_s == pytest.approx([0.01 + 200e-4 * (2 + 4 - 1) / 2])
    assert two.ttft_s == pytest.approx([2 * 0.01 + 800e-4 + 400e-4 * (4 - 1) / 4])


def test_a_request_that_does_not_fit_in_kv_waits_and_the_last_in_is_put_back_when_it_overflows() -> None:
    """By hand: 20 + 20 tokens and 2 x 6 fit in 52; the next token overflows, and the second request starts
    again later."""
    two = requests((0, 20, 20), (0, 20, 20))

    tight, wide = (replay(step(), two, Settings(kv_tokens=room)) for room in (52, 100))

    assert (tight.preemptions, wide.preemptions) == (1, 0)
    assert tight.kv_peak_tokens == 54
    assert tight.ttft_s == pytest.approx(wide.ttft_s)
    assert tight.e2e_s[1] > wide.e2e_s[1] + 0.1
    late = replay(step(), requests((0, 20, 20), (0, 40, 20)), Settings(kv_tokens=60))
    assert late.queue_s[1] == pytest.approx(late.e2e_s[0])


def test_a_closed_loop_keeps_its_concurrency_and_has_no_gaps() -> None:
    n, many = 8, 400
    rows = Requests(np.zeros(many), np.full(many, 100.0), np.full(many, 21.0))
    result = replay(step(), rows, Settings(concurrency=n))

    assert result.busy == pytest.approx(1.0)
    assert result.rate_rps * result.e2e_s.mean() == pytest.approx(n, rel=0.02)


@pytest.mark.parametrize("routing", ["round_robin", "least_requests"])
def test_littles_law_holds_on_every_replay(routing: str) -> None:
    """Sequences in the batch on average = requests/s x time in the batch, whatever the load."""
    rows = poisson(2000, 30.0, np.array([100.0, 900.0]), np.array([10.0, 60.0]))
    rules = Settings(token_budget=512, replicas=3, routing=routing, max_sequences=40)
    result = replay(step(), rows, rules)

    inside = result.e2e_s - result.queue_s
    assert result.mean_sequences * 3 == pytest.approx(inside.sum() / result.span_s, rel=1e-9)


def test_utilisation_is_the_work_brought() -> None:
    rows = poisson(3000, 8.0, np.array([300.0]), np.array([31.0]))
    result = replay(step(context=1e-6), rows, Settings())

    work = 300 * 1e-4 + 30 * (1e-3 + 1e-6 * (300 + 31 / 2))
    assert result.utilisation == pytest.approx(work * 3000 / result.span_s, rel=1e-9)


def test_prefill_servers_batch_whole_prompts_up_to_the_budget() -> None:
    """By hand: the first alone; then 60 + 30 tokens together, then 50."""
    rows = requests((0, 40, 1), (0.001, 60, 1), (0.002, 30, 1), (0.003, 50, 1))
    result = replay_prefill(step(), rows, Settings(100))

    assert result.ttft_s + rows.arrival_s == pytest.approx([0.014, 0.033, 0.033, 0.048])


def test_a_pair_adds_the_transfer_between_first_and_second_token() -> None:
    """By hand: prompt 20 ms, transfer 5 + 100/1000 s, then 10 steps of 11 ms."""
    transfer = Transfer(latency_s=0.005, bytes_per_token=1.0, bytes_per_s=1000.0)
    result = replay_pair(
        (step(), Settings()), (step(), Settings()), requests((0, 100, 11), (9, 100, 1)), transfer
    )

    assert result.ttft_s == pytest.approx([0.02, 0.02])
    assert result.e2e_s == pytest.approx([0.02 + 0.105 + 0.11, 0.02])
    assert result.tpot_s[0] == pytest.approx((0.105 + 0.11) / 10)


def test_a_pair_in_a_closed_loop_keeps_its_concurrency() -> None:
    many, n = 300, 6
    rows = Requests(np.zeros(many), np.full(many, 50.0), np.full(many, 11.0))
    transfer = Transfer(0.001, 1.0, 1e5)
    result = replay_pair((step(), Settings(concurrency=n)), (step(), Settings()), rows, transfer)

    assert result.rate_rps * result.e2e_s.mean() == pytest.approx(n, rel=0.03)


SMALL = st.lists(
    st.tuples(st.floats(0, 0.5), st.integers(1, 60), st.integers(1, 12)), min_size=1, max_size=12
).map(sorted)


@settings(max_examples=60)
@given(
    rows=SMALL,
    budget=st.integers(13, 80),
    kv=st.sampled_from([75.0, 120.0, math.inf]),
    most=st.integers(1, 12),
    replicas=st.integers(1, 3),
    routing=st.sampled_from(["round_robin", "least_requests"]),
    reserved=st.sampled_from([None, 1, 40]),
)
def test_every_request_ends_and_one_step_at_a_time_gives_the_same(
    rows: list[tuple[float, int, int]],
    budget: int,
    kv: float,
    most: int,
    replicas: int,
    routing: str,
    reserved: int | None,
) -> None:
    """Also against a naive server that makes every single step by itself; and first tokens come in order of
    arrival."""
    rules = Settings(budget, most, kv, reserved, replicas, routing)
    result = replay(step(context=1e-5), requests(*rows), rules)

    assert not np.isnan(result.end_s).any()
    assert (result.ttft_s > 0).all()
    assert (result.e2e_s >= result.ttft_s - 1e-12).all()
    assert result.preempted.sum() == result.preemptions
    assert reserved is None or result.preemptions == 0
    alone = max(isl + max(osl, reserved or 0) for _, isl, osl in rows)  # an empty server takes any one
    assert result.kv_peak_tokens <= max(kv if math.isfinite(kv) else 1e9, alone) + most
    if replicas == 1:
        assert_same(result, naive(step(context=1e-5), rows, rules))
        if result.preemptions == 0:
            assert (np.diff(result.ttft_s + requests(*rows).arrival_s) >= -1e-12).all()


def assert_same(result: Result, naive_times: tuple[Floats, Floats]) -> None:
    assert result.ttft_s == pytest.approx(naive_times[0])
    assert result.e2e_s == pytest.approx(naive_times[1])


def naive(model: StepTimes, rows: list[tuple[float, int, int]], rules: Settings) -> tuple[Floats, Floats]:
    """The rules written down a second time, one step and one sequence at a time."""

    def size(i: int, grown: int) -> int:
        """Tokens that request `i` takes with `grown` made."""
        return rows[i][1] + (grown if rules.reserved_osl is None else max(rules.reserved_osl, rows[i][2]))

    now, made, done, first, end = 0.0, [0] * len(rows), [0] * len(rows), {}, {}
    coming, waiting, batch, need = list(range(len(rows))), [], [], {}
    while len(end) < len(rows):
        if not waiting and not batch:
            now = max(now, rows[coming[0]][0])
        while coming and rows[coming[0]][0] <= now:
            waiting.append(coming.pop(0))
        held = sum(size(i, made[i]) for i in batch)
        while waiting and len(batch) < rules.max_sequences:
            i = waiting[0]
            if batch and held + size(i, made[i] + 1) > rules.kv_tokens:
                break
            batch.append(waiting.pop(0))
            need[i], done[i] = rows[i][1] + made[i], 0
            held += size(i, made[i])
        decodes = [i for i in batch if done[i] == need[i]]
        now += float(model.t0_s) + len(decodes) * float(model.sequence_s)
        now += float(model.context_s_per_token) * sum(rows[i][1] + made[i] for i in decodes)
        left, ready = rules.token_budget - len(decodes), []
        for i in (i for i in batch if done[i] < need[i]):
            chunk = min(left, need[i] - done[i])
            done[i], left = done[i] + chunk, left - chunk
            now += chunk * float(model.prefill_s_per_token)
            ready += [i] if done[i] == need[i] else []
        for i in decodes + ready:
            made[i] += 1
            need[i] = done[i] = max(need[i], done[i])
            first.setdefault(i, now)
            if made[i] >= rows[i][2]:
                end[i] = now
                batch.remove(i)
        while sum(size(i, made[i]) for i in batch) > rules.kv_tokens and len(batch) > 1:
            waiting.insert(0, batch.pop())
    arrival = np.array([row[0] for row in rows])
    order = range(len(rows))
    return np.array([first[i] for i in order]) - arrival, np.array([end[i] for i in order]) - arrival


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"token_budget": 0}, "token_budget"),
        ({"kv_tokens": 0.0}, "kv_tokens"),
        ({"concurrency": 0}, "closed loop"),
        ({"reserved_osl": 0}, "reserved_osl"),
    ],
)
def test_impossible_settings_are_refused(change: dict[str, float], word: str) -> None:
    with pytest.raises(InputError, match=word):
        replace(Settings(), **change)


def test_unsorted_or_empty_requests_are_refused() -> None:
    with pytest.raises(InputError, match="order of arrival"):
        requests((1, 10, 10), (0, 10, 10))
    with pytest.raises(InputError, match="at least one prompt token"):
        requests((1, 0, 10))


def test_steps_without_prompts_last_what_their_batch_does() -> None:
    """By hand: a prompt by the line, 20 ms, then ten steps of one sequence by the table, 7 ms each."""
    costs = StepCosts(0.01, 1e-4, 0.0, 1e-3, 0.0, 1.0, alone_s=(0.0, 0.007, 0.02))
    site = Site([Group("r", "mixed", 1, costs, Settings(max_sequences=2))], [[Way(1.0, "r")]], {}, {})
    one = requests((0, 100, 11))
    out = Fleet(site, Load(one, np.zeros(1, dtype=np.int64), {})).run()
    assert out.first_s == pytest.approx([0.02])
    assert out.end_s == pytest.approx([0.02 + 10 * 0.007])

"""Closed loops: crowds move time from the tokens to the first one, and KV room decides who waits."""

from dataclasses import replace

import numpy as np
import pytest

from planner.cost.attention import Load
from planner.cost.calibration import Calibration
from planner.cost.tuning import Tuning
from planner.errors import InputError
from planner.predict.loads import Places, Rows
from planner.predict.predictions import Prediction, looked_up, predict_rows
from planner.predict.rows import parse
from planner.predict.served import operate, steps_of
from planner.queueing import decode_s, prefill_s

ROW = {"model": "llama-3.1-8b", "device": "h100-sxm", "tp": "1", "isl": "2048", "osl": "256"}


def served(tuning: Tuning, concurrency: str = "32", **cells: str):
    group, row = looked_up(parse(ROW | {"concurrency": concurrency} | cells))
    cost, load = group.cost(Calibration(tuning)), Rows.of(group, [row])
    return operate(cost, load, Places.of(cost, load, group.token_budget), group.terms).estimate


def test_a_crowd_waits_for_its_first_tokens_and_is_as_long_in_the_server():
    alone, crowd = (served(Tuning(together=odds)) for odds in (1e-9, 1.0))
    total = [float(e.ttft_s[0, 0] + 255 * e.tpot_s[0, 0]) for e in (alone, crowd)]

    assert crowd.ttft_s > 2 * alone.ttft_s
    assert crowd.tpot_s < alone.tpot_s
    assert total[1] == pytest.approx(total[0], rel=1e-6)
    assert crowd.rate == pytest.approx(alone.rate)


def test_prompts_of_one_step_have_their_first_token_together():
    """By hand: four prompts of one step wait for all four, 3 beside their own; of a step each, for 1.5."""
    at = {}
    for budget in (8192, 32768):
        told = {"concurrency": "4", "isl": "8192", "chunk": str(budget)}
        alone, crowd = (served(Tuning(together=odds, arrival_s=0.0), **told) for odds in (1e-9, 1.0))
        at[budget] = float(crowd.ttft_s[0, 0] - alone.ttft_s[0, 0])

    assert at[32768] == pytest.approx(2 * at[8192], rel=0.05)


def test_one_request_has_no_crowd():
    alone, crowd = (served(Tuning(together=odds), concurrency="1") for odds in (1e-9, 1.0))

    assert crowd.ttft_s == pytest.approx(alone.ttft_s)
    assert crowd.tpot_s == pytest.approx(alone.tpot_s)


def test_more_room_for_kv_shortens_the_wait_outside():
    group, row = looked_up(parse(ROW | {"concurrency": "1024"}))
    cost, load = group.cost(), Rows.of(group, [row])
    places = Places.of(cost, load, group.token_budget)
    rooms = [replace(places, sequences=share * places.sequences) for share in (0.8, 1.0, 1.3)]
    waits = [float(operate(cost, load, room, group.terms).estimate.ttft_s[0, 0]) for room in rooms]

    assert waits == sorted(waits, reverse=True)
    assert waits[0] > 1.1 * waits[2]


def test_the_host_adds_its_time_to_first_tokens_and_to_requests_in_flight():
    """By Little's law 32 are in flight, those with the host among them: the server itself has fewer."""
    slow, fast = (served(replace(Tuning(), request_s=s, together=1e-9)) for s in (0.5, 0.1))
    inside = [float(e.rate[0] * (e.ttft_s[0, 0] + 255 * e.tpot_s[0, 0])) for e in (slow, fast)]

    assert inside == pytest.approx([32, 32], rel=1e-6)
    assert slow.ttft_s - fast.ttft_s == pytest.approx(np.array([[0.4]]), abs=0.01)
    assert slow.tpot_s < fast.tpot_s


def test_the_host_reads_the_whole_prompt_before_its_first_token():
    slow, fast = (served(replace(Tuning(), text_token_s=s, together=1e-9)) for s in (1e-4, 1e-9))

    assert slow.ttft_s - fast.ttft_s == pytest.approx(1e-4 * float(ROW["isl"]), rel=0.1)
    assert slow.tpot_s < fast.tpot_s


def test_a_steady_state_has_no_first_wave():
    wave, steady = (
        predict_rows([ROW | {"concurrency": "64", "start": start}])[0] for start in ("at_once", "steady")
    )
    assert isinstance(wave, Prediction)
    assert isinstance(steady, Prediction)
    assert steady.ttft_ms < wave.ttft_ms
    assert steady.out_tok_per_s == pytest.approx(wave.out_tok_per_s, rel=1e-6)


def replayed(step, cells, prompts_first, waves=6):
    """Mean TTFT and TPOT of requests of one length, all begun at once, each followed by another: step by
    step, with prompts alone in a step or beside those who decode."""
    n, isl, osl = (int(cells[name]) for name in ("concurrency", "isl", "osl"))
    prompt_s = float(prefill_s(step, np.array([[isl]]), np.array([[isl]]))[0, 0])
    token_s = float(decode_s(step, np.array([[isl]]), np.array([[osl]]))[0, 0]) / (osl - 1)
    waiting, decoding, now, seen = [0.0] * n, [], 0.0, []
    while len(seen) < n * waves:
        beside = 0 if prompts_first and waiting else len(decoding)
        taken, waiting = waiting[: int(cells["chunk"]) // isl], waiting[int(cells["chunk"]) // isl :]
        now += float(step.t0_s[0]) + len(taken) * prompt_s + beside * token_s
        decoding = [(came, first, done + (beside > 0)) for came, first, done in decoding]
        ended = [r for r in decoding if r[2] == osl - 1]
        decoding = [r for r in decoding if r[2] < osl - 1] + [(came, now, 0) for came in taken]
        waiting += [now] * len(ended)
        seen += [(first - came, (now - first) / (osl - 1)) for came, first, _ in ended]
    return np.mean(seen[n:], axis=0)


def test_alike_requests_stay_together_where_prompts_come_first():
    """Against a replay from its second wave on. Others' prompts are half of the wait: 2.5 times as long as a
    steady state has it, as Qwen3-32B's on SGLang were."""
    cells = ROW | {"engine": "sglang", "concurrency": "32", "chunk": "2048", "osl": "128"}
    own = Calibration(Tuning(together=1e-9, arrival_s=0.0, request_s=1e-9))
    found = {}
    for lengths in ("varied", "alike"):
        group, row = looked_up(parse(cells | {"lengths": lengths}))
        cost, load = group.cost(own), Rows.of(group, [row])
        at = operate(cost, load, Places.of(cost, load, group.token_budget), group.terms)
        found[lengths] = np.array([at.estimate.ttft_s[0, 0], at.estimate.tpot_s[0, 0]])
    step = steps_of(cost, load, at.batch, group.terms)

    assert found["alike"] == pytest.approx(replayed(step, cells, prompts_first=True), rel=0.15)
    assert found["alike"][0] > 2.5 * found["varied"][0]
    assert found["alike"] @ [1, 127] == pytest.approx(found["varied"] @ [1, 127], rel=1e-6)


def test_prompts_that_come_together_share_steps():
    """Four fill a step of 8,192 tokens, so weights are read once for them and not each time."""
    quiet = Tuning(together=1e-9, arrival_s=0.0)
    whole_s = {}
    for lengths in ("varied", "alike"):
        at = served(quiet, "32", engine="sglang", chunk="8192", lengths=lengths)
        whole_s[lengths] = float(at.ttft_s[0, 0] + 255 * at.tpot_s[0, 0])

    assert 0.9 * whole_s["varied"] < whole_s["alike"] < 0.995 * whole_s["varied"]


def test_alike_requests_of_an_engine_that_mixes_wait_for_one_other_prompt():
    """Each ends a step after another, whose successor is in work when its own comes; alone there is none."""
    quiet = Tuning(together=1e-9, arrival_s=0.0)
    for concurrency, waited in (("1", 0), ("32", 1)):
        alike, varied = (
            served(quiet, concurrency, engine="vllm", lengths=lengths) for lengths in ("alike", "varied")
        )
        group, row = looked_up(parse(ROW | {"concurrency": concurrency}))
        cost, load = group.cost(Calibration(quiet)), Rows.of(group, [row])
        at = operate(cost, load, Places.of(cost, load, group.token_budget), group.terms)
        step, isl = steps_of(cost, load, at.batch, group.terms), np.array([[float(ROW["isl"])]])

        assert alike.ttft_s - varied.ttft_s == pytest.approx(waited * prefill_s(step, isl, isl), rel=1e-6)
        total = [float(e.ttft_s[0, 0] + 255 * e.tpot_s[0, 0]) for e in (alike, varied)]
        assert total[0] == pytest.approx(total[1], rel=1e-6)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_crowd_of_one_step_has_what_the_host_launches_once(engine):
    """Four prompts of 2,048 fill a step: as long as that step takes, whose 32 layers the host launches in a
    tenth of a second each time, however many prompts there are."""
    slow = Tuning(together=1e9, arrival_s=0.0, request_s=1e-9, text_token_s=1e-12, prompt_layer_s=0.1 / 32)
    told = {"engine": engine, "concurrency": "4", "chunk": "8192", "osl": "1024"}
    group, row = looked_up(parse(ROW | told))
    cost, load = group.cost(Calibration(slow)), Rows.of(group, [row])
    at = operate(cost, load, Places.of(cost, load, group.token_budget), group.terms)
    step_s = cost.step_s(load.designs, Load.of(at.batch, load.asked.context, 4 * 2048.0, 1024.0))

    assert at.estimate.ttft_s[0] == pytest.approx(step_s, rel=0.1)


def test_a_mix_is_not_alike():
    answer = predict_rows(
        [{"model": "llama-3.1-8b", "device": "h100", "mix": "9:9:1+99:9:1", "lengths": "alike"}]
    )[0]

    assert isinstance(answer, InputError)
    assert "`mix`" in answer.message


def test_pipelined_prefill_computes_no_faster_than_its_stages_do():
    """pp2 computes at most what two GPUs at full steps do: twice what one does, however many are in
    flight."""
    rows = [ROW | {"role": "prefill", "pp": pp, "concurrency": n} for pp in "12" for n in ("2", "16", "64")]
    rates = [found.out_tok_per_s for found in predict_rows(rows) if isinstance(found, Prediction)]

    assert max(rates[3:]) <= 2.02 * max(rates[:3])


def test_a_crowd_makes_no_token_of_a_pipeline_quicker_than_a_step_without_prompts():
    """Two tokens an answer: the crowd's wait is many times the one token's, whose way through 16 stages reads
    all weights: 54 GB at 1,008 GB/s on two GPUs each."""
    pipe = {"model": "gemma-3-27b", "device": "rtx-4090", "engine": "sglang", "tp": "2", "pp": "16"}
    answer = predict_rows([pipe | {"isl": "292", "osl": "2", "concurrency": "37"}])[0]

    assert isinstance(answer, Prediction)
    assert answer.tpot_ms > 54 / 1.008 / 2


@pytest.mark.parametrize(("cells", "steps"), [({"wait_steps": "20"}, 20), ({"receive_steps": "30"}, 15)])
def test_a_first_token_waits_for_the_steps_that_prompts_are_held_back(cells, steps):
    """By hand: `batch_wait_timeout_iters` are waited whole, a look every 30 steps is half of them away.
    Prompts that are found at once are computed together."""
    plain, held = served(Tuning()), served(Tuning(), **cells)
    waited = float(held.ttft_s[0, 0] - plain.ttft_s[0, 0])

    assert waited == pytest.approx(steps * float(held.tpot_s[0, 0]), rel=0.05)
    assert held.tpot_s == pytest.approx(plain.tpot_s, rel=0.03)


def test_no_more_run_at_once_than_the_engine_is_told():
    free, told = served(Tuning()), served(Tuning(), max_running="8")

    assert float(told.tpot_s[0, 0]) < float(free.tpot_s[0, 0])
    assert float(told.ttft_s[0, 0]) > 5 * float(free.ttft_s[0, 0])  # 24 of 32 wait outside

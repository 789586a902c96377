"""Lines under what columns cost: never above the one model, at any load, and near it where they touch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from planner import plan
from planner.candidates import tangents
from planner.candidates.hull import edges, sure_of
from planner.candidates.loaded import Loaded
from planner.candidates.points import at_rate, draw
from planner.candidates.tangents import Tangents, sampled, touching
from planner.inputs.workload import Bucket, Workload
from planner.plans.operation import index_of, operate
from planner.question.asked import read
from planner.question.posed import pose
from tests.beside.solved import solved

SHARES = np.geomspace(2e-3, 1.0, 60)


def columns(objective):
    _, _, found = solved("2xH100", "llama-3.1-8b", rate=2.0, objective=objective)
    return found, [c for c in found.pool.candidates if c.tangents]


def highest(lines, c, flow):
    return max(0.0, *(a + b["0"] * flow for a, b in lines))


def cost(found, c, flow, objective):
    """Of one replica, by the one model."""
    op = operate(found.pool.setup(c), c, {"0": flow}, 1)
    if objective == "energy":
        return op.watts
    osl = found.workload.buckets[0].osl
    first = op.tpot_s[0] if c.role == "decode" else op.ttft_s[0]  # a transfer is the pair's
    return flow * (first + ((osl - 1) * op.tpot_s[0] if c.role != "prefill" else 0.0))


@pytest.mark.parametrize("objective", ["energy", "latency"])
def test_lines_are_never_above_what_a_replica_costs(objective):
    found, some = columns(objective)

    assert {c.role for c in some} == {"mixed", "prefill", "decode"}
    for c in some:
        full = 1 / max(row["0"] for row in c.use.values())
        for share in SHARES:
            told = highest(c.tangents, c, share * full)
            assert told <= cost(found, c, share * full, objective) * (1 + 1e-6), (c.id, share)


@pytest.mark.parametrize("objective", ["energy", "latency"])
@pytest.mark.parametrize("share", [0.03, 0.2, 0.9])
def test_a_line_touches_where_it_is_asked_for(objective, share):
    what = "watts" if objective == "energy" else "latency"
    found, some = columns(objective)
    near = []
    for c in some:
        s, flow = found.pool.setup(c), share / max(row["0"] for row in c.use.values())
        line = touching(c, s, index_of(s, c), flow, what)
        true = cost(found, c, flow, objective)
        assert highest([line], c, flow) <= true * (1 + 1e-6)
        near.append(highest([line, *c.tangents], c, flow) / true)
    assert np.median(near) > 0.99


def test_a_candidate_is_asked_as_its_column_was():
    found, some = columns("energy")
    for c in some:
        s = found.pool.setup(c)
        one = Loaded.of(c, s, index_of(s, c))
        full = one.asked(np.ones(1), lambda own, p: np.column_stack([p.rate, draw(own.setup, p, own.role)]))
        watts, again = full[0, 0, 1], at_rate(s, one.index, full[0, :, 0], one.role)
        assert watts == pytest.approx(draw(s, again, one.role)[0], rel=1e-3)
        assert watts == pytest.approx(c.watts, rel=1e-6)


def test_the_lines_that_latency_begins_with_are_near_it_at_any_load():
    found, some = columns("latency")
    for share in np.linspace(0.1, 0.95, 12):
        near = []
        for c in some:
            flow = share / max(row["0"] for row in c.use.values())
            near.append(highest(c.tangents, c, flow) / cost(found, c, flow, "latency"))
        assert min(near) > 0.93, share
        assert np.median(near) > 0.96, share


UNLIKE = Workload(
    buckets=[Bucket(isl=100, osl=1, share=0.5), Bucket(isl=6000, osl=400, share=0.5)], rate_rps=2.0
)


@pytest.mark.parametrize("objective", ["energy", "latency"])
def test_a_column_of_one_bucket_is_asked_under_that_bucket_alone(objective):
    """Not under the mix of the workload, in which the other bucket's requests cost far more or less."""
    what = "watts" if objective == "energy" else "latency"
    given = {"engine": "vllm", "objective": objective}
    _, pool, _ = pose(read(None, "llama-3.1-8b", "2xH100", UNLIKE, {}, given))
    some = [c for c in pool.candidates if c.tangents and len(c.bounds["busy"]) == 1]
    served = {next(iter(c.bounds["busy"])) for c in some}

    assert served == {"0", "1"}
    for c in some:
        (w,), s = c.bounds["busy"], pool.setup(c)
        for share in (0.1, 0.5, 0.95):
            flow = share / max(row[w] for row in c.bounds.values())
            a, b = touching(c, s, index_of(s, c), flow, what)
            op = operate(s, c, {w: flow}, 1)
            if not np.isfinite(op.sequences):
                assert share > 0.5  # rows of the bound let a server serve more of one bucket than it can
                continue
            osl = UNLIKE.buckets[int(w)].osl
            first = op.tpot_s[int(w)] if c.role == "decode" else op.ttft_s[int(w)]
            rest = (osl - 1) * op.tpot_s[int(w)] if c.role != "prefill" and osl > 1 else 0.0
            true = op.watts if objective == "energy" else flow * (first + rest)
            assert a + b[w] * flow <= true * (1 + 1e-6), (c.id, share)


def test_what_a_column_does_not_serve_may_take_for_ever(monkeypatch):
    found, (c, *_) = columns("latency")
    s, seconds = found.pool.setup(c), tangents._seconds
    expected, slopes = touching(c, s, index_of(s, c), 0.5, "latency")
    both = {name: np.repeat(getattr(s.mix, name), 2) for name in ("new", "isl", "osl", "held", "own")}
    two = replace(s, mix=replace(s.mix, share=np.array([0.5, 0.5]), **both))
    monkeypatch.setattr(tangents, "_seconds", lambda *asked: seconds(*asked) * np.array([1.0, np.inf]))

    again, of_bucket = touching(c, two, index_of(two, c), 0.5, "latency")

    assert again == pytest.approx(expected, rel=1e-3)
    assert of_bucket == {"0": pytest.approx(slopes["0"], rel=1e-3)}


CLUSTER = """
nodes: [{name: n, count: 7, device: odd, gpus_per_node: 5, intra_gb_per_s: 0.05, nic_gb_per_s: 0.001}]
devices:
  odd: {generation: ampere, memory_gb: 48, memory_gb_per_s: 100000, tflops: {fp16: 100000}}
"""


def test_bounds_on_latency_hold_at_next_to_no_load(tmp_path):
    """Requests that are computed in 30 ms, one in two seconds, on 35 GPUs: a line a little too steep lay
    above what two servers do, and the bound above the plan."""
    (tmp_path / "c.yaml").write_text(CLUSTER)
    asked = {"isl": 17, "osl": 1, "rate": 0.5, "tpot_ms": 1e6, "objective": "latency"}
    found = plan(tmp_path / "c.yaml", "nemotron-3-nano-30b-a3b-nvfp4", explain=False, **asked)

    assert found.proof.bound <= found.proof.objective * (1 + 1e-6)


def test_loads_at_one_rate_give_level_lines_below_all_of_them():
    """A server whose rate no longer grows with its load draws more watts at the same rate: a chord between
    two such samples had a slope of 1e30, and HiGHS refused the program (odd problems, seed 41, no. 206)."""
    x, y = np.array([[1.0, 2.0, 2.0, 2.0]]), np.array([[5.0, 6.0, 8.0, 9.0]])
    a, slope = edges(x, sure_of(x, y, np.ones_like(y)))

    assert np.abs(slope).max() <= 10
    assert np.abs(a).max() <= 100
    assert (a[:, :, None] + slope[:, :, None] * x[:, None, :] <= y[:, None, :] + 1e-12).all()


PIPELINES = {"isl": 30_000, "rate": 1.0, "ttft_ms": 20_000.0}


@pytest.mark.parametrize("objective", ["energy", "latency"])
def test_lines_of_pipelines_are_below_them_at_loads_much_nearer_than_they_were_asked_at(objective):
    """Where a server holds a sequence, or one in each stage, its step is made linear in another way, and what
    it costs jumps."""
    given = {"engine": "vllm", "objective": objective}
    _, pool, _ = pose(read(None, "llama-3.1-8b", "16xH100", "chat", PIPELINES, given))
    some = [c for c in pool.candidates if c.tangents and c.design.pp > 1]
    what = "watts" if objective == "energy" else "latency"

    assert some
    for c in some:
        s = pool.setup(c)
        rate, level = sampled(Loaded.of(c, s, index_of(s, c)), what, np.geomspace(1e-5, 1.0, 4000))
        true = level[0] * (rate[0] if what == "latency" else 1.0)
        told = np.max([a + rate[0] * b["0"] for a, b in c.tangents], axis=0)
        assert (told <= true * (1 + 1e-9)).all(), c.id


def test_a_line_is_told_once():
    twice = Tangents(np.array([[1.0, 1.0, 0.0]]), np.array([[[2.0], [2.0], [3.0]]]))

    assert twice.named(0, [0]) == ((0.0, {"0": 3.0}), (1.0, {"0": 2.0}))


def test_waits_without_end_leave_lines_under_those_that_end(monkeypatch: pytest.MonkeyPatch):
    """Under loose limits the highest loads may never answer (odd problems, seed 3412, no. 246): the lines are
    numbers, none above what ends, and no warning is printed."""
    found, some = columns("latency")
    real = tangents._seconds

    def endless(own, p):
        seconds = real(own, p)
        return np.where(
            p.rate[:, None] > 0.5 * own.full[:, None] * own.use.max(axis=1)[:, None], np.inf, seconds
        )

    monkeypatch.setattr(tangents, "_seconds", endless)
    for c in some:
        s, full = found.pool.setup(c), 1 / max(row["0"] for row in c.use.values())
        with np.errstate(invalid="raise"):
            a, b = touching(c, s, index_of(s, c), 0.2 * full, "latency")
        assert np.isfinite([a, *b.values()]).all()
        for share in (0.01, 0.1, 0.2, 0.3):
            flow = share * full
            assert highest([(a, b)], c, flow) <= cost(found, c, flow, "latency") * (1 + 1e-6)


def test_columns_are_asked_before_and_after_the_batches_at_which_their_steps_are_made_linear_otherwise():
    given = {"engine": "vllm", "objective": "latency"}
    _, pool, _ = pose(read(None, "llama-3.1-8b", "16xH100", "chat", PIPELINES, given))
    c = next(c for c in pool.candidates if c.design.pp > 1 and c.role == "mixed")
    s = pool.setup(c)

    batches = Loaded.of(c, s, index_of(s, c)).bends[0] * c.sequences

    for one in (1.0, float(c.design.pp)):
        for factor in (1.05, 1.0, 0.95):
            for beside in (1 - 1e-6, 1 + 1e-6):
                assert np.isclose(batches, one / factor * beside, rtol=1e-9).any()

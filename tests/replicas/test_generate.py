"""The space of candidates: how many, which engines, unique names, and what each serves."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from planner.candidates.ask import serving
from planner.candidates.candidate import Key
from planner.candidates.points import batched
from planner.candidates.setup import Made
from planner.designs.shape import Precisions
from planner.engines import NAMES as ENGINES
from planner.errors import OutOfTime
from planner.replicas import generate as generating
from planner.replicas.alike import setup
from planner.replicas.generate import _in_turns, generate
from tests.candidates.samples import CHAT, TWO, ask, node, one_setup
from tests.cost.samples import LLAMA_70B, SPARSE_MOE


def pool(gpus="4xH100", **wanted):
    return generate([node(gpus)], ask(**wanted), one_more=False)


def test_a_dense_model_on_four_gpus_has_each_product_of_tp_and_pp_once():
    """By hand: 1 GPU; tp2, pp2; tp4, tp2 pp2, pp4."""
    d = one_setup().designs

    found = Counter(zip(d.tp.tolist(), d.pp.tolist(), strict=True))

    assert found == Counter({(1, 1): 1, (2, 1): 1, (1, 2): 1, (4, 1): 1, (2, 2): 1, (1, 4): 1})


def test_experts_make_more_designs_than_dense_layers():
    assert len(one_setup(ask(card=SPARSE_MOE)).designs) > len(one_setup().designs)


def test_one_more_node_is_in_the_space_when_it_is_asked_for():
    small = node("4xH100")
    more, just = (setup(small, "vllm", ask(), one_more=flag) for flag in (True, False))

    assert max(just.designs.gpus) == small.gpus == 4
    assert max(more.designs.gpus) == small.gpus + small.gpus_per_node


def test_llama_cpp_is_tried_only_when_nothing_else_serves():
    assert "llama.cpp" in ENGINES
    assert "llama.cpp" not in serving(node("1xH100"), ask())
    assert serving(node("1xH100"), ask(engines=("llama.cpp",))) == ["llama.cpp"]


def test_llama_cpp_remains_where_no_other_engine_runs_on_the_device():
    assert serving(node("1xm3-ultra-512"), ask()) == ["llama.cpp"]


@pytest.mark.parametrize("objective", ["throughput", "energy", "latency"])
@pytest.mark.parametrize("workload", [CHAT, TWO], ids=["one bucket", "two"])
def test_ids_are_unique(objective, workload):
    made = pool(objective=objective, workload=workload.model_copy(update={"rate_rps": 1.0}))

    assert made.candidates
    assert len({c.id for c in made.candidates}) == len(made.candidates)


def test_every_candidate_keeps_the_promise_it_was_made_under():
    for c in pool().candidates:
        assert all(0 < u < np.inf for row in c.use.values() for u in row.values())
        assert c.role == "prefill" or c.tpot_s <= 0.050 * (1 + 1e-9)
        assert c.role == "decode" or max(c.ttft_s.values()) <= 2.0 * (1 + 1e-9)


def test_a_candidate_uses_of_itself_what_its_point_says():
    """A replica of the point's own rate is full: use["busy"] * rate = 1."""
    made = pool()
    c = next(c for c in made.candidates if c.role == "mixed")
    s = made.setup(c)
    at = np.flatnonzero((s.designs.tp == c.design.tp) & (s.designs.pp == c.design.pp))

    point = batched(s, at, np.array([float(c.batch)]), "mixed")

    assert c.use["busy"]["0"] * point.rate[0] == pytest.approx(1.0, rel=1e-3)  # its batch is rounded
    assert c.watts > 0


def test_more_is_considered_than_kept_and_fewer_designs_fit_than_there_are():
    """70B in 16 bits is more than one or two GPUs of 80 GB hold."""
    made = pool("8xH100", card=LLAMA_70B)

    assert made.considered > len(made.candidates)
    assert 0 < made.fitting < sum(len(m.setup.designs) for m in made.made.values())


def test_prefill_and_decode_come_together_or_not_at_all():
    alone = pool(
        workload=CHAT.model_copy(update={"buckets": [CHAT.buckets[0].model_copy(update={"osl": 1})]})
    )

    assert {c.role for c in pool().candidates} == {"mixed", "prefill", "decode"}
    assert {c.role for c in alone.candidates} == {"mixed"}


def test_a_power_cap_below_what_a_gpu_draws_leaves_nothing():
    capped = replace(node(), power_cap_watts=node().gpus_per_node * 150.0)

    assert generate([capped], ask()).candidates == ()


def test_precisions_that_no_engine_serves_leave_nothing():
    wanted = ask()
    odd = type(wanted)(**{**vars(wanted), "precisions": Precisions("nvfp4", "nvfp4", "bf16", "nvfp4")})

    assert generate([node("1xL40S")], odd).made == {} or not generate([node("1xA100")], odd).candidates


def test_where_designs_are_many_every_setup_has_its_turn_before_any_is_done(monkeypatch):
    """What is found until time is over is planned with: it should be something of everything."""
    monkeypatch.setattr("planner.replicas.generate.PIECE", 2)
    made = [
        Made.of(Key("h", engine), one_setup(engine=engine), None, ("mixed",)) for engine in ("vllm", "sglang")
    ]
    turns = [(own.key.engine, index.tolist()) for own, index, _ in _in_turns(made)]

    assert [engine for engine, _ in turns[:2]] == ["vllm", "sglang"]
    for own in made:
        looked = [i for engine, index in turns for i in index if engine == own.key.engine]
        assert sorted(looked) == own.setup.fitting.tolist()
    assert len(turns) == 6


def test_engines_that_there_was_no_time_for_are_named(monkeypatch):
    """The time is over with the second engine."""
    offers = generating._offers

    def stopped(s, fits, roles, at, edges):
        if at.key.engine == "sglang":
            raise OutOfTime("over")
        return offers(s, fits, roles, at, edges)

    monkeypatch.setattr(generating, "_offers", stopped)
    found = pool(engines=("vllm", "sglang", "trtllm"))

    assert found.late
    assert {c.engine for c in found.candidates} == {"vllm"}
    assert found.unseen == (("h100-sxm", "sglang"), ("h100-sxm", "trtllm"))
    monkeypatch.undo()
    assert pool(engines=("vllm", "sglang", "trtllm")).unseen == ()

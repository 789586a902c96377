"""The plain fleet stands beside every plan that is another, or it is said that it cannot be."""

from dataclasses import replace

from planner.beside.plain import PLAIN, is_plain, plain
from planner.beside.rivals import Rivals
from planner.candidates.candidate import Design
from planner.question.posed import ask_of
from solvers.linear import Limits
from tests.beside.solved import solved


def line(gpus, model, **asked):
    stated, question, found = solved(gpus, model, **asked)
    rivals = Rivals.within(question, found, Limits(work=1000))
    plain(rivals, ask_of(stated))
    return found, rivals.shown


def test_it_is_shown_where_none_of_the_plans_candidates_is_it():
    """Of DeepSeek-V3 on one node, replicas of data-parallel attention serve more in every way than tp8."""
    found, (shown,) = line("8xH200", "deepseek-v3", tpot_ms=40)

    assert not any(is_plain(c) for c in found.pool.candidates)
    assert shown.what == PLAIN
    assert shown.why.startswith("1 x tp8 h200-sxm (vllm)")
    assert shown.status == "proven"
    assert 0 < shown.loss < 0.5


def test_it_has_one_engine_even_where_two_serve_more():
    """Tensor parallel alone TensorRT-LLM is the quicker on H200s, and it runs on no MI300X."""
    _, (shown,) = line("4xH200,4xMI300X", "qwen3-235b-a22b-fp8", engine="any")

    assert len({engine for engine in ("vllm", "sglang", "trtllm") if f"({engine})" in shown.why}) == 1


def test_a_plan_that_is_plain_has_no_such_line():
    found, shown = line("1xH100", "llama-3.1-8b", tpot_ms=50)

    assert all(is_plain(found.candidates[c]) for c in found.solution.replicas)
    assert shown == []


def test_where_no_tensor_parallelism_holds_the_model_it_is_not_possible():
    """32 GB of weights on two unlike cards of 24 GB: only a pipeline over both holds them."""
    _, (shown,) = line("1xrtx-3090,1xrtx-4090", "qwen3-32b-fp8")

    assert shown.status == "infeasible"
    assert shown.objective is None


def test_what_is_plain():
    c = next(c for c in solved("1xH100", "llama-3.1-8b", tpot_ms=50)[2].pool.candidates if c.role == "mixed")

    def designed(**sizes):
        return is_plain(replace(c, design=Design(**sizes)))

    assert designed(tp=4, moe_tp=4)
    for other in ({"pp": 2}, {"attn_dp": 2}, {"ep": 2}, {"cp": 2}, {"redundant": 8}):
        assert not designed(**{"tp": 4, "moe_tp": 4} | other)

"""Figures of a served engine: which factor acts on which kernel, which level says so, how sure that is; the
popularity of experts and the streaming of weights beside it."""

from dataclasses import fields, replace
from math import log, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_configs import devices
from planner.cost.calibration import Calibration, Traits, of_table, shape_of, shipped
from planner.cost.host import HostStage
from planner.cost.popularity import SPREAD, Popularity
from planner.cost.streaming import streaming_s, streams
from planner.cost.tuning import PARAMETERS, Tuning
from planner.designs.shape import Precisions
from tests.cost.samples import LLAMA_8B, SPARSE_MOE, designs

DENSE = Traits("vllm", "hopper", "h100-sxm", "fp8", "none", "32x4096-14336", "vllm")
MOE = replace(DENSE, experts="fp8", model="48x4096-128x1536")

DOUBLED = {
    "gemm_flops": {"gemm": (2, 1)},
    "gemm_bytes": {"gemm": (1, 2)},
    "experts": {"moe": (2, 2)},
    "expert_flops": {"moe": (2, 1)},
    "decode_attention": {"decode": (2, 2), "mla_decode": (2, 2)},
    "prompt_attention": {"prefill": (2, 2), "mla_prefill": (2, 2)},
    "recurrent": {"gdn": (2, 2), "kda": (2, 2), "index": (2, 2)},
    "messages": {},
}
"""Factor → kernels that it makes slower, where FLOPs and where bytes bind them."""


@pytest.mark.parametrize("name", DOUBLED)
def test_a_factor_acts_on_its_own_kernels_alone(name):
    kernels = {kernel for acts in DOUBLED.values() for kernel in acts} | {"elementwise"}
    told = Tuning(**{name: 2.0})

    assert {k: told.on_kernel(k) for k in kernels} == {k: DOUBLED[name].get(k, (1, 1)) for k in kernels}
    assert {k: replace(told, kernels=3.0).on_kernel(k) for k in kernels} == {
        k: tuple(3 * x for x in DOUBLED[name].get(k, (1, 1))) for k in kernels
    }


def test_launches_of_experts_have_a_factor_of_their_own():
    told = Tuning(kernels=2.0, launch=3.0, expert_launch=5.0)

    assert (told.on_launch("moe"), told.on_launch("gemm"), told.on_launch("decode")) == (10.0, 6.0, 6.0)
    assert tuple(f.name for f in fields(Tuning)) == PARAMETERS


@pytest.mark.parametrize(
    ("level", "key"),
    [
        ("all", "all"),
        ("engine", "vllm"),
        ("engine+generation", "vllm hopper"),
        ("device", "h100-sxm"),
        ("gemm+experts", "fp8 none"),
        ("ffn", "dense"),
        ("model+device", "32x4096-14336 h100-sxm"),
    ],
)
def test_a_server_has_a_key_at_every_level(level, key):
    assert DENSE.key(level) == key


def test_experts_tell_a_server_from_a_dense_one():
    assert (DENSE.ffn, MOE.ffn, MOE.key("ffn+engine")) == ("dense", "moe", "moe vllm")


def test_traits_are_those_of_the_card_and_the_device():
    used = Precisions("fp8", "int4_wo", "bf16", "bf16")
    dense = Traits.of(LLAMA_8B, devices.find("h100-sxm"), "sglang-0.5.3", used)
    sparse = Traits.of(SPARSE_MOE, devices.find("l40s"), "vllm", used)

    assert (dense.engine, dense.era, dense.experts, dense.gemm) == ("sglang", "sglang-0.5.3", "none", "fp8")
    assert (sparse.engine, sparse.experts, sparse.generation) == ("vllm", "int4_wo", "ada")
    assert Traits.of(LLAMA_8B, devices.find("h100-sxm"), "vllm-0.6", used).engine == "vllm-0.6"  # of 2024
    assert shape_of(LLAMA_8B) == "32x4096-14336"
    assert shape_of(SPARSE_MOE) == "48x4096-128x1536"


def test_an_era_is_a_fault_on_its_generation_where_gemms_have_block_scales():
    def fault(gemm, era="sglang-0.5.11"):
        used = Precisions(gemm, "bf16", "bf16", "bf16")
        return Traits.of(LLAMA_8B, devices.find("mi300x"), era, used).fault

    assert [fault(gemm) for gemm in ("fp8_block", "fp8", "bf16")] == ["sglang-0.5.11", "", ""]
    assert fault("fp8_block", "sglang") == fault("fp8_block", "sglang-0.5.3") == ""


def factors(**levels: float) -> Calibration:
    """`step_s` of 1 ms, times what each level says of the server above."""
    told = {level.replace("_", "+"): {DENSE.key(level.replace("_", "+")): x} for level, x in levels.items()}
    return Calibration(Tuning(step_s=1e-3), {"step_s": told})


def test_factors_of_all_levels_multiply_and_those_of_others_count_for_nothing():
    own = factors(all=2.0, engine=3.0, engine_generation=0.5, device=1.1)

    assert own.tuning(DENSE).step_s == pytest.approx(1e-3 * 2 * 3 * 0.5 * 1.1)
    assert own.tuning(replace(DENSE, engine="sglang")).step_s == pytest.approx(1e-3 * 2 * 1.1)
    assert own.tuning(replace(DENSE, device="l40s")).step_s == pytest.approx(1e-3 * 2 * 3 * 0.5)
    assert own.tuning(DENSE).request_s == Tuning().request_s


def test_an_engine_of_2024_has_its_own_base_and_only_what_names_it():
    """Levels of many engines at once say nothing of it; its device's and model's do."""
    old = Tuning(step_s=5e-3)
    own = replace(factors(all=2.0, generation=3.0, gemm=7.0, experts=11.0, device=1.5), old={"vllm-0.6": old})

    assert own.tuning(replace(DENSE, engine="vllm-0.6")).step_s == pytest.approx(5e-3 * 1.5)
    assert own.tuning(DENSE).step_s == pytest.approx(1e-3 * 2 * 3 * 7 * 11 * 1.5)


BANDS = {"tpot": {"all": {"all": 0.3}, "engine": {"vllm": 0.2}, "engine+device": {"vllm h100-sxm": 0.1}}}


@pytest.mark.parametrize(
    ("server", "sigma", "measured"),
    [
        (DENSE, 0.1, True),
        (replace(DENSE, device="l40s"), 0.2, False),
        (replace(DENSE, engine="sglang"), 0.3, False),
    ],
)
def test_the_narrowest_level_that_knows_a_server_says_how_sure_it_is(server, sigma, measured):
    own = Calibration(bands=BANDS)

    assert own.sigma("tpot", server) == sigma
    assert own.measured("tpot", server) is measured


def test_runs_were_fitted_on_the_generations_that_factors_name():
    """Not on those of engines whose names hold one, nor for an engine of 2024."""
    told = {"step_s": {"engine+generation": {"vllm hopper": 1.1}, "engine": {"ada": 1.2}}}
    own = Calibration(factors=told, old={"vllm-0.6": Tuning()})

    assert own.fitted_on(replace(DENSE, generation="hopper"))
    assert not own.fitted_on(replace(DENSE, generation="ada"))
    assert not own.fitted_on(replace(DENSE, generation="hopper", engine="vllm-0.6"))
    assert shipped().fitted_on(replace(DENSE, generation="cdna4"))


def test_a_table_says_what_it_says_and_the_rest_is_the_base():
    own = of_table({"base": {"step_s": 2e-3}, "factors": {}, "bands": BANDS, "picked": 0.02})

    assert own.base == Tuning(step_s=2e-3)
    assert (own.picked, own.bands, own.about) == (0.02, BANDS, {})
    assert own.old.keys() == shipped().old.keys()


def test_what_is_shipped_is_a_calibration_of_known_parameters():
    own = shipped()

    assert set(own.factors) <= set(PARAMETERS)
    assert {"tpot", "ttft"} <= set(own.bands)
    assert 0 <= own.picked < 0.2
    assert all(x > 0 for levels in own.factors.values() for keys in levels.values() for x in keys.values())


def test_the_fullest_rank_is_the_largest_of_so_many_gaussians():
    """128 experts on 8 ranks: 16 each; a mean of 16 of 128 without replacement has a deviation of 0.6 x
    sqrt(7 / 128), the largest of 8 lies sqrt(2 ln 8) of them above."""
    assert Popularity().in_order(128, 8) == pytest.approx(1 + SPREAD * sqrt(2 * log(8) * 7 / 128))
    assert Popularity().in_order(128, 1) == 1.0
    assert Popularity().hottest(128, 8, 0) == Popularity().in_order(128, 8)
    assert Popularity().hottest(128, 8, 4) == 1.0  # the balancer has copies to move


def test_each_design_has_the_heat_of_its_ranks_and_copies():
    own = designs((1, 1, 8, 1, 8), (8, 1, 1, 8, 1), (1, 1, 4, 1, 4), (1, 1, 8, 1, 8))
    own = replace(own, redundant=np.array([0, 0, 0, 8]))

    assert Popularity().of(128, own) == pytest.approx(
        [Popularity().in_order(128, 8), 1.0, Popularity().in_order(128, 4), 1.0]
    )


def longest(groups: int, of: int, streamed: int, g: float, c: float, ahead: int = 2) -> float:
    """Seconds of a step in steady state, played: the last of every `of` layers are copied, one copy at a
    time, into so many buffers; a layer of g seconds waits for its copy, a copy for a free buffer."""
    steps, copied, computed, done = 40, 0.0, 0.0, []
    ends = []
    for _ in range(steps):
        for layer in range(groups * of):
            if layer % of >= of - streamed:
                free = done[-ahead] if len(done) >= ahead else 0.0
                copied = max(copied, free) + c
                computed = max(computed, copied) + g
                done.append(computed)
            else:
                computed += g
        ends.append(computed)
    return ends[-1] - ends[-2]


@settings(max_examples=60)
@given(st.integers(1, 3), st.integers(1, 6), st.integers(1, 6), st.floats(0.1, 5.0), st.floats(0.1, 5.0))
def test_a_step_that_copies_ahead_is_as_long_as_played(groups, of, streamed, g, c):
    streamed = min(streamed, of)
    own = (np.array([x]) for x in (groups * of * g, groups * streamed * g, groups * streamed * c))
    found = float(streaming_s(*own, np.array([streamed]))[0])

    assert found == pytest.approx(longest(groups, of, streamed, g, c), rel=1e-6)


def test_streamed_bytes_and_buffers_follow_the_kinds_of_layers():
    """Of eight layers in groups of four the last two each: 2, 3, 6, 7. Kinds 0 and 1 by turns: two of each,
    10 and 4 bytes at tp 1, half at tp 2; a buffer for each of two copies ahead of either size."""
    kind = np.array([0, 1] * 4)
    firsts = [HostStage("n", tp, (0, 8), group=4, streamed=2) for tp in (1, 2)]
    many, moved, ahead = streams(kind, 2, firsts, lambda tp: np.array([10.0, 4.0]) / tp)

    assert many.tolist() == [[2, 2], [2, 2]]
    assert moved.tolist() == [28.0, 14.0]
    assert ahead.tolist() == [28.0, 14.0]


def test_kinds_that_are_not_streamed_have_no_buffer():
    kind = np.array([1, 1, 1, 0])
    (first,) = [HostStage("n", 1, (0, 4), group=4, streamed=1)]
    many, moved, ahead = streams(kind, 2, [first], lambda tp: np.array([10.0, 4.0]))

    assert (many.tolist(), moved.tolist(), ahead.tolist()) == ([[1, 0]], [10.0], [20.0])

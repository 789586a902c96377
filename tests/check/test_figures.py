"""The verifier's own arithmetic against figures known by hand, and against the planner's count for every
shipped model."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from cluster_configs import devices
from model_zoo import catalog
from model_zoo.schema import ModelCard
from planner.check import cache, flops, kv, products, proof, roofline, weights
from planner.check.case import Case, open_case
from planner.cost.memory import kv_bytes_per_seq, room_by_stage
from planner.designs.precision import precisions
from planner.designs.shape import Designs
from planner.designs.stages import stage_layers
from planner.plans.schema import PrecisionUsed, Replica, Stage, Step
from planner.rules.designs import valid_designs
from tests.check.plans import dense


def replica(card: ModelCard, tp: int = 1, pp: int = 1, attn_dp: int = 1, ep: int = 1) -> Replica:
    """A replica of `card` in its own precisions; only its shape matters here."""
    used, gpus = precisions(card), tp * attn_dp
    return Replica(
        id="r",
        role="mixed",
        count=1,
        engine="vllm",
        precision=PrecisionUsed(weights=used.gemm, experts=used.experts, kv=used.kv),
        tp=tp,
        pp=pp,
        attn_dp=attn_dp,
        moe_tp=gpus // ep,
        ep=ep,
        stages=[
            Stage(device="x", node_class="x", nodes=["x-0"], gpus=gpus, tp=tp, layers=layers)
            for layers in stage_layers(len(card.stack), pp)
        ],
        max_batch=1,
        kv_tokens=0,
        step=Step(decode_s=0, prefill_s=0, engine_s=0),
        memory=[],
    )


def test_llama_70b_weighs_141_gb_in_16_bits() -> None:
    """70.55e9 parameters x 2 bytes = 141.1 GB; norms are not in the least count."""
    card = catalog.load("llama-3.1-70b")
    span = weights.stage_bytes(card, replica(card), 0).total

    assert span.low == pytest.approx(141.1e9, rel=1e-3)
    assert span.high == pytest.approx(span.low, rel=1e-3)


def test_tensor_parallel_8_holds_an_eighth() -> None:
    card = catalog.load("llama-3.1-70b")
    one, eight = (weights.stage_bytes(card, replica(card, tp=tp), 0).total.low for tp in (1, 8))

    assert eight == pytest.approx(one / 8, rel=1e-9)


def test_a_llama_8b_token_takes_131072_bytes_of_cache() -> None:
    """2 x 32 layers x 8 heads x 128 x 2 bytes."""
    card = catalog.load("llama-3.1-8b")
    whole = replica(card)

    assert kv.sequence_bytes(card, whole, whole.stages[0], 1000) == 131_072_000
    assert kv.prompt_bytes(card, "fp8", 1000) == 65_536_000


def test_kv_heads_fewer_than_ranks_are_copied() -> None:
    card = catalog.load("llama-3.1-8b")
    bytes_of = {tp: kv.sequence_bytes(card, (r := replica(card, tp=tp)), r.stages[0], 1) for tp in (1, 8, 16)}

    assert bytes_of[8] == bytes_of[1] / 8 == bytes_of[16]


def test_mla_keeps_one_latent_a_token_on_every_rank() -> None:
    """DeepSeek-V3: 61 layers x (512 + 64) x 2 bytes."""
    card = catalog.load("deepseek-v3")
    one, eight = (replica(card, tp=tp) for tp in (1, 8))

    assert kv.sequence_bytes(card, one, one.stages[0], 1) == 61 * 576 * 2
    assert kv.sequence_bytes(card, eight, eight.stages[0], 1) == 61 * 576 * 2


def floors(case: Case) -> roofline.Floors:
    """Of the first group."""
    assert case.card is not None
    group = case.plan.replicas[0]
    return roofline.Floors(case, case.card, group, case.loads[group.id])


def test_an_8b_model_decodes_no_faster_than_its_weights_are_read() -> None:
    """(8.03e9 - 0.525e9 embedding) parameters x 2 bytes / 3.35 TB/s = 4.48 ms, and the cache on top."""
    case = open_case(dense())
    assert isinstance(case, Case)
    group = floors(case)
    read_s = 2 * (8.03e9 - 0.525e9) / 3.35e12

    assert read_s < group.decode_floor_s() < case.plan.replicas[0].step.decode_s


def test_a_mean_prompt_prefills_no_faster_than_the_best_product() -> None:
    """(8.03 - 2 x 0.525)e9 parameters x 2 x 1,792 tokens / 794.5 TFLOP/s = 31.5 ms, attention apart."""
    case = open_case(dense())
    assert isinstance(case, Case)
    group = floors(case)

    assert group.prefill_floor_s() == pytest.approx(31.5e-3, rel=0.03)


def test_fp4_weights_never_run_faster_than_the_devices_best_rate() -> None:
    h100, b200 = devices.find("h100-sxm"), devices.find("b200-sxm")

    assert flops.fastest(h100, "nvfp4") == flops.fastest(h100, "fp8") == 1402.6e12
    assert flops.fastest(b200, "nvfp4") > flops.fastest(b200, "fp8") > flops.fastest(b200, "bf16")


def test_the_checkers_table_of_products_is_the_catalogs() -> None:
    """Written apart: what was measured at a device's own peaks, and of no device that is not in the table."""
    for device in map(devices.load, devices.names()):
        for rate in device.tflops:
            assert products.reached(device, rate) == pytest.approx(1e12 * device.reached_tflops[rate])


def test_a_peak_that_the_cluster_states_itself_may_be_reached() -> None:
    h100 = devices.find("h100-sxm")
    faster = h100.model_copy(update={"tflops": {**h100.tflops, "bf16": 1100.0}})
    told = h100.model_copy(
        update={
            "matmul_tflops": {"bf16": 900.0},
            "sources": {"overrides": "the cluster's own: matmul_tflops"},
        }
    )

    assert products.reached(faster, "bf16") == 1100e12
    assert products.reached(told, "bf16") == 989e12
    assert products.reached(h100, "bf16") == 794.5e12


@pytest.mark.parametrize("part", range(4))
def test_the_planners_count_lies_inside_the_band_for_every_shipped_model(part: int) -> None:
    """Two counts of the same thing, written apart: weights within [0.98 least, 1.15 most], cache at least
    ours."""
    for name in catalog.names()[part::4]:
        card = catalog.load(name)
        used = precisions(card)
        designs = valid_designs(card, "vllm", 16, 32, 8, used)
        designs = designs.take(np.unique(np.linspace(0, len(designs) - 1, 5).astype(np.int64)))
        memory = room_by_stage(card, 1e12, designs, used, "vllm", 8192)
        for i in range(len(designs)):
            check_design(card, designs.take(np.array([i])), memory.weights_bytes[i].tolist())


def check_design(card: ModelCard, design: Designs, stated: list[float]) -> None:
    tp, pp, attn_dp, ep = (int(size[0]) for size in (design.tp, design.pp, design.attn_dp, design.ep))
    own, used = replica(card, tp, pp, attn_dp, ep), precisions(card)
    for index, stage in enumerate(own.stages):
        span = weights.stage_bytes(card, own, index).total
        where = f"{card.name} tp{tp} pp{pp} dp{attn_dp} ep{ep} stage {index}"
        assert 0.98 * span.low <= stated[index] <= 1.15 * span.high, where
        context = np.array([5000.0])
        cache = float(kv_bytes_per_seq(card, design, used, "vllm", context, stage=np.array([index]))[0, 0])
        assert kv.sequence_bytes(card, own, stage, 5000.0) <= cache * (1 + 1e-9), where


def test_long_answers_may_have_shorter_steps_but_no_step_is_skipped():
    """Two buckets under a p95 of 20 ms: no request is sooner than steps of 12 ms."""
    told = SimpleNamespace(ttft_ms=SimpleNamespace(value=200.0), tpot_ms=SimpleNamespace(value=20.0))
    replica = SimpleNamespace(role="mixed", token_s=0.012)
    own_s = 0.2 + 100 * 0.02

    def soonest(answers: list[int], percentile: str) -> float:
        buckets = [SimpleNamespace(osl=osl) for osl in answers]
        workload = SimpleNamespace(buckets=buckets, slo=SimpleNamespace(percentile=percentile))
        plan = SimpleNamespace(predicted=told, replicas=[replica])
        return proof._soonest(SimpleNamespace(plan=plan, workload=workload), own_s)

    assert soonest([9], "p95") == soonest([9, 9], "mean") == own_s
    assert soonest([9, 9], "p95") == soonest([9, 8], "mean") == pytest.approx(0.2 + 100 * 0.012)


def test_the_tail_of_a_skewed_sum_is_no_less_the_nearer_to_its_mean():
    tails = [cache._beyond(z, skew=9.0) for z in np.linspace(-0.5, 3.0, 15)]

    assert tails == sorted(tails, reverse=True)
    assert tails[0] > 0.4

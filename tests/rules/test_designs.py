"""Engine rules: what engines refused in public threads, what they were measured with, and the list of
designs."""

from __future__ import annotations

import csv
import gzip
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from cluster_configs import devices
from cluster_configs.devices import find as find_device
from cluster_configs.reading import from_gpus
from model_zoo import catalog
from model_zoo.schema import ModelCard
from planner import engines
from planner.candidates.ask import serving
from planner.cost.memory import device_bytes, kv_capacity, room_by_stage
from planner.cost.reserve import reserve_bytes
from planner.designs.precision import precisions
from planner.designs.shape import Designs, Precisions, like
from planner.engines import NAMES as ENGINES
from planner.errors import InputError, MeshwrightError
from planner.fit import fits
from planner.operating.room import unfilled_tokens
from planner.rules.designs import redundancies, valid_designs, why_invalid
from planner.rules.devices import balances, picks_entries, supports, supports_cache, why_unsupported
from tests.candidates.samples import ask

RUNS = Path(__file__).resolve().parents[2] / "shared" / "data" / "silicon_train.csv.gz"


def model(name: str) -> ModelCard:
    return catalog.find(name)[0]


# Refusals


@pytest.mark.parametrize(
    ("name", "engine", "shape", "reason"),
    [
        ("llama-3.1-70b", "vllm", (3, 1), "64 heads do not divide by tp=3"),
        ("llama-3.1-70b", "vllm", (8, 81), "80 layers cannot fill 81 stages"),
        ("llama-3.1-70b", "vllm", (0, 1), "at least 1"),
        ("llama-3.1-70b", "vllm", (2, 1, 2, 4, 1), "run more replicas"),
        ("llama-3.1-70b", "vllm", (2, 1, 1, 1, 2), "no experts"),
        ("qwen3-32b", "vllm", (3, 1), "vocabulary of 151936 does not divide by tp=3"),
        ("llama-3.1-70b", "llama.cpp", (2, 1), "use pp"),
        ("deepseek-v3", "llama.cpp", (1, 1, 2, 1, 2), "neither experts nor attention dp"),
        ("deepseek-v3", "vllm", (8, 1, 1, 2, 4), "a switch: ep is 1 or 8"),
        ("deepseek-v3", "trtllm", (4, 1, 2, 1, 8), "tp must be 1"),
        ("deepseek-v3", "sglang", (8, 1, 1, 4, 4), "8 GPUs of a stage, but moe_tp x ep = 16"),
        ("deepseek-v3", "sglang", (1, 1, 96, 1, 96), None),  # 288 slots
        ("deepseek-v3", "sglang", (1, 1, 100, 1, 100), "256 experts do not divide by ep=100"),
        ("mixtral-8x7b", "sglang", (8, 1, 1, 8, 1), None),
        ("mixtral-8x7b", "sglang", (1, 1, 3, 1, 3), None),  # 9 slots for 8 experts
        ("mixtral-8x7b", "sglang", (1, 1, 5, 1, 5), "8 experts do not divide by ep=5"),
        # published: 2560 / 8 = 320 is no multiple of the 128 x 128 blocks; experts whole on 8 ranks are fine
        ("qwen3-coder-480b-a35b-fp8", "vllm", (8, 1, 1, 8, 1), "a shard of 320 at moe_tp=8"),
        ("qwen3-coder-480b-a35b-fp8", "vllm", (8, 1, 1, 1, 8), None),
        ("qwen3-coder-480b-a35b", "vllm", (8, 1, 1, 8, 1), None),
        # published: 18432 / 32 = 576
        ("deepseek-v3", "vllm", (32, 1, 1, 1, 32), "fp8_block's block of 128"),
        ("deepseek-v3", "vllm", (16, 1, 1, 16, 1), None),
        # the vendors' own recipes
        ("deepseek-v3", "vllm", (1, 1, 16, 1, 16), None),
        ("deepseek-v3", "sglang", (2, 2, 8, 1, 16), None),
        ("deepseek-v3", "trtllm", (1, 1, 72, 1, 72), None),
        ("qwen3-235b-a22b", "vllm", (8, 1, 1, 8, 1), None),  # 4 KV heads, each twice
    ],
)
def test_designs_are_refused_with_the_reason_or_accepted(
    name: str, engine: str, shape: tuple[int, ...], reason: str | None
):
    tp, pp, attn_dp, moe_tp, ep = (*shape, *(1, shape[0], 1)[len(shape) - 2 :])

    told = why_invalid(model(name), engine, tp, pp, attn_dp, moe_tp, ep)

    assert told is None if reason is None else told is not None and reason in told


@pytest.mark.parametrize(
    ("name", "engine", "reason"),
    [
        ("llama-3.1-8b", "vllm", None),
        ("deepseek-v3", "vllm", None),
        ("deepseek-v3.2", "vllm", "sparse attention is not divided"),
        ("minimax-m3", "vllm", "sparse attention is not divided"),
        ("qwen3-next-80b-a3b", "vllm", "recurrent layers"),
        ("llama-3.1-8b", "sglang", "for vLLM only"),
    ],
)
def test_contexts_are_divided_where_the_kernels_can(name: str, engine: str, reason: str | None):
    told = why_invalid(model(name), engine, 2, moe_tp=4, cp=2)

    assert told is None if reason is None else told is not None and reason in told


def test_another_precision_has_other_blocks():
    card = model("qwen3-coder-480b-a35b-fp8")

    assert why_invalid(card, "vllm", 8, 1, 1, 8, 1) is not None
    assert why_invalid(card, "vllm", 8, 1, 1, 8, 1, used=precisions(card, "fp8")) is None


def test_kv_heads_that_neither_divide_nor_repeat_evenly_are_refused():
    assert (
        why_invalid(_with_kv_heads(6), "vllm", 4)
        == "6 KV heads neither divide by tp=4 nor can be repeated evenly"
    )
    assert why_invalid(_with_kv_heads(4), "vllm", 8) is None


def _with_kv_heads(kv_heads: int) -> ModelCard:
    card = model("llama-3.1-70b")
    form = card.model_dump(exclude={"stack"})
    for mixer in form["mixers"].values():
        mixer |= {"heads": 48, "kv_heads": kv_heads}
    return ModelCard.model_validate(form)


def test_an_unknown_engine_is_refused():
    with pytest.raises(InputError, match="unknown engine"):
        why_invalid(model("llama-3.1-8b"), "tgi", 1)


# Against public measurements: what ran, runs


def test_every_measured_replica_is_valid_and_fits():
    if not RUNS.exists():
        pytest.skip("shared/data/silicon_train.csv.gz is not beside the repository")
    with gzip.open(RUNS, "rt") as file:
        runs = [r for r in csv.DictReader(file) if r["mode"] == "agg" and not r["suspect"]]

    different = {_key(r): r for r in runs}.values()  # concurrency apart
    assert len(different) > 150
    refused = {_key(r): reason for r in different if (reason := _why_not(r))}

    # two rows serve 236 GB of weights on two 80 GB cards: misrecorded
    assert {key[:3] for key in refused} <= {("Qwen/Qwen3-235B-A22B-FP8", "h100_sxm", "2.0")}, refused


def _key(run: dict[str, str]) -> tuple[str, ...]:
    shape = ("gpus", "attn_tp", "attn_dp", "moe_tp", "ep", "gemm_quant_mode", "moe_quant_mode", "isl", "osl")
    return run["model_path"], run["system"], *(run[k] for k in shape), run["backend"]


def _why_not(run: dict[str, str]) -> str | None:
    """Why we would not have run what was run; None also for models that the zoo lacks."""
    try:
        card = model(run["model_path"])
    except MeshwrightError:
        return None
    device, engine = find_device(run["system"]), run["backend"]
    tp, attn_dp, ep = (int(float(run[k])) for k in ("attn_tp", "attn_dp", "ep"))
    own = precisions(card)
    used = Precisions(
        run["gemm_quant_mode"] or own.gemm, run["moe_quant_mode"] or own.experts, "bf16", own.kv
    )
    moe_tp = tp * attn_dp // ep
    reason = why_invalid(card, engine, tp, 1, attn_dp, moe_tp, ep, used)
    reason = reason or why_unsupported(device, engine, used, moe=bool(run["moe_quant_mode"]))
    if reason:
        return reason
    one = Designs.plain(*np.array([[tp, 1, attn_dp, moe_tp, ep]], dtype=np.int64).T)
    by_stage = room_by_stage(card, device_bytes(device), one, used, engine, 8192)
    context = np.array([float(run["isl"]) + float(run["osl"])])
    return None if kv_capacity(card, one, used, engine, by_stage, context)[0, 0] >= 1 else "does not fit"


# The list of designs


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["llama-3.1-70b", "deepseek-v3", "qwen3.5-397b-a17b", "gpt-oss-120b"])
def test_listed_designs_are_those_that_trying_all_finds(name: str, engine: str):
    card = model(name)
    moe = any(ffn.kind == "moe" for ffn in card.ffns.values())
    sizes = range(1, 9)
    tried = {
        (tp, pp, attn_dp, moe_tp, ep)
        for tp, pp, attn_dp, ep in product(sizes, (1, 2, 3), sizes, sizes)
        if tp * attn_dp <= 8 and tp * attn_dp * pp <= 16 and (tp * attn_dp) % ep == 0
        for moe_tp in [tp * attn_dp // ep]
        if why_invalid(card, engine, tp, pp, attn_dp, moe_tp, ep) is None
        and (not moe or all(ffn.experts % ep == 0 for ffn in card.ffns.values() if ffn.kind == "moe"))
    }

    d = valid_designs(card, engine, max_gpus_per_stage=8, max_gpus=16)

    listed = {tuple(row) for row in _rows(d) if row[1] <= 3}
    assert listed == tried
    assert len(_rows(d)) == len({tuple(row) for row in _rows(d)})


def _rows(d: Designs) -> list[list[int]]:
    return np.stack([d.tp, d.pp, d.attn_dp, d.moe_tp, d.ep], axis=1).tolist()


def test_designs_keep_to_the_limits_and_come_by_gpus():
    d = valid_designs(model("deepseek-v3"), "sglang", 72, 144, max_tp=8)

    assert d.tp.max() == 8
    assert (d.tp * d.attn_dp).max() <= 72
    assert (np.diff(d.gpus) >= 0).all()
    assert 72 < d.gpus.max() <= 144
    assert ((d.tp * d.attn_dp) == (d.moe_tp * d.ep)).all()


def test_wide_expert_parallelism_fills_a_rack_with_redundant_experts():
    card = model("deepseek-v3")

    even = valid_designs(card, "trtllm", 72, 72, max_tp=8)
    filled = valid_designs(card, "trtllm", 72, 72, max_tp=8, redundant=True)

    assert even.ep.max() == 64
    assert filled.ep.max() == 72
    assert not even.redundant.any()
    assert ((256 + filled.redundant) % filled.ep == 0).all()


@pytest.mark.parametrize(
    ("device", "engine", "experts", "kept"),
    [
        ("a100-sxm", "trtllm", "bf16", False),
        ("h200-sxm", "trtllm", "fp8_block", True),
        ("gb200", "trtllm", "fp8_block", False),
        ("gb200", "trtllm", "nvfp4", True),
        ("gb200", "vllm", "fp8_block", True),
        ("h100-sxm", "vllm", "mxfp4", False),
        ("h100-sxm", "llama.cpp", "bf16", False),
    ],
)
def test_balancers_keep_copies_of_experts_where_their_pages_say_so(device, engine, experts, kept):
    assert balances(devices.find(device), engine, experts) is kept


def test_copies_of_experts_are_offered_by_rank_up_to_half_of_them():
    card = model("deepseek-v3")

    assert redundancies(card, 1, 32) == [0, 32]
    assert redundancies(card, 1, 128) == [0, 128]
    assert redundancies(card, 1, 72) == [32, 104]
    assert redundancies(card, 2, 32) == [0]  # experts cut in two are not balanced
    assert redundancies(card, 1, 32, balanced=False) == [0]
    assert redundancies(card, 1, 72, balanced=False) == []
    assert redundancies(card, 1, 1) == [0]


def test_a_model_that_nothing_divides_still_runs_on_one_gpu():
    d = valid_designs(_with_kv_heads(1), "vllm", 1, 1)

    assert _rows(d) == [[1, 1, 1, 1, 1]]


# Devices and precisions


@pytest.mark.parametrize(
    ("device", "engine", "precision", "served"),
    [
        ("h100-sxm", "vllm", "fp8", True),
        ("a100-sxm", "vllm", "fp8", True),  # weights alone
        ("a100-sxm", "trtllm", "fp8", False),
        # TensorRT-LLM, "Quantization: hardware support matrix"; issue 5581
        ("h100-sxm", "trtllm", "fp8_block", True),
        ("b300-sxm", "trtllm", "fp8_block", True),
        ("rtx-4090", "trtllm", "fp8_block", False),
        ("l40s", "trtllm", "fp8_block", False),
        ("rtx-pro-6000-server", "trtllm", "fp8_block", False),
        ("gb10", "trtllm", "fp8_block", False),
        ("l40s", "trtllm", "fp8", True),
        ("h100-sxm", "trtllm", "int4_wo", True),
        ("b200-sxm", "trtllm", "int4_wo", False),
        ("rtx-5090", "trtllm", "int4_wo", False),
        ("h100-sxm", "trtllm", "int8", False),
        ("v100-sxm2-32gb", "vllm", "fp8", False),
        ("h100-sxm", "vllm", "nvfp4", True),  # weights alone
        ("h100-sxm", "trtllm", "nvfp4", False),
        ("b200-sxm", "sglang", "nvfp4", True),
        ("mi300x", "vllm", "fp8", True),
        ("mi300x", "trtllm", "bf16", False),
        ("m3-ultra", "vllm", "bf16", False),
        ("m3-ultra", "llama.cpp", "int4_wo", True),
        ("h100-sxm", "llama.cpp", "fp8", False),
        ("gaudi3", "vllm", "bf16", True),
        ("gaudi3", "sglang", "bf16", False),
        ("tpu-v5e", "vllm", "bf16", True),
        ("p100-pcie", "vllm", "bf16", False),
        ("p100-pcie", "llama.cpp", "bf16", True),
    ],
)
def test_devices_serve_what_the_engines_documents_say(device: str, engine: str, precision: str, served: bool):
    assert (supports(find_device(device), engine, precision) is None) == served


def test_the_reason_names_what_is_missing():
    device = find_device("t4")

    assert supports(device, "trtllm", "bf16") == "trtllm does not run on t4 (turing)"
    assert supports(device, "sglang", "nvfp4") == "sglang has no nvfp4 weights on t4 (turing)"
    assert supports_cache(device, "vllm", "fp8") == "vllm has no fp8 KV cache on t4 (turing)"


def test_sparse_latents_need_kernels_of_their_own():
    sparse, dense = (precisions(model(name), "fp8") for name in ("deepseek-v3.2", "deepseek-v3"))
    told = {
        (device, engine): why_unsupported(find_device(device), engine, sparse, True, picks=True)
        for device in ("h200-sxm", "b200-sxm", "mi300x", "l40s", "a100-sxm", "rtx-pro-6000-server")
        for engine in ("vllm", "sglang")
    }

    assert {pair for pair, reason in told.items() if reason} == {
        ("l40s", "vllm"), ("l40s", "sglang"), ("a100-sxm", "vllm"), ("a100-sxm", "sglang"),
        ("rtx-pro-6000-server", "sglang"),
    }  # fmt: skip
    assert told["l40s", "vllm"] == "vllm has no sparse attention on l40s (ada)"
    assert why_unsupported(find_device("l40s"), "vllm", dense, True) is None
    assert [picks_entries(model(n)) for n in ("deepseek-v4-pro", "glm-5", "minimax-m3", "kimi-k2")] == [
        True, True, False, False,
    ]  # fmt: skip


def test_no_class_without_sparse_kernels_is_offered():
    found = fits.fit(fits.Ask(model("glm-5-nvfp4"), None, None, None, "vllm"), from_gpus("8xl40s,8xh100"))
    classes, glm = from_gpus("8xl40s,8xh100").classes, ask(model("glm-5-fp8"), engines=("vllm",))

    assert [c.reason for c in found.classes] == ["vllm has no sparse attention on l40s (ada)", None]
    assert [serving(node, glm) for node in classes] == [[], ["vllm"]]


def test_fp8_caches_go_back_to_ampere():
    assert supports_cache(find_device("a100-sxm"), "trtllm", "fp8") is None


def test_every_precision_used_counts_but_the_experts_of_a_dense_model():
    device, used = find_device("h100-sxm"), Precisions("bf16", "nvfp4", "bf16", "bf16")

    assert "nvfp4" in str(why_unsupported(device, "sglang", used, moe=True))
    assert why_unsupported(device, "sglang", used, moe=False) is None
    assert "KV cache" in str(
        why_unsupported(device, "vllm", Precisions("bf16", "bf16", "bf16", "nvfp4"), moe=True)
    )


def test_every_device_of_the_catalog_runs_some_engine():

    for name in devices.names():
        assert any(supports(find_device(name), engine, "bf16") is None for engine in ENGINES), name


def test_precisions_are_only_promised_where_the_engine_runs():
    for engine in engines.ENGINES:
        for table in (engine.weights, engine.cache, engine.balanced):
            assert all(generations <= engine.generations for generations in table.values())
        assert (engine.sparse or set()) <= engine.generations


def test_a_toy_engine_is_a_file_and_a_line(monkeypatch):
    """As vLLM, on one generation: known to the rules and to its memory, by nothing but its entry."""
    toy = replace(engines.named("vllm"), name="toy", generations={"hopper"}, block_tokens=64)
    monkeypatch.setattr(engines, "ENGINES", (*engines.ENGINES, toy))
    designs, flat = like(1, 1), np.zeros((1, 1))

    assert supports(find_device("h100-sxm"), "toy", "bf16") is None
    assert "does not run" in str(supports(find_device("a100-sxm"), "toy", "bf16"))
    assert why_invalid(model("llama-3.1-8b"), "toy", tp=8) is None
    assert unfilled_tokens("toy") == 31.5
    reserved = [reserve_bytes(e, 80e9, designs, 8192, flat, flat) for e in ("toy", "vllm")]
    assert reserved[0] == pytest.approx(reserved[1])

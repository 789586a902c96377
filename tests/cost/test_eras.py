"""Engines of older eras: which release is whose, and what follows for kernels, links and engine time."""

import numpy as np
import pytest

from cluster_configs.devices import find
from planner.cost.calibration import Calibration, Traits, old_engines, shipped
from planner.cost.efficiency.reading import SAME_SILICON, Efficiency, load
from planner.cost.eras import ERAS, engine_of, engine_of_era
from planner.cost.tuning import AS_MEASURED, Tuning
from planner.predict.predictions import predict_rows
from tests.cost.samples import cost, tensor_parallel

OLD = Traits("vllm-0.6", "hopper", "h100-sxm", "bf16", "none", "sample")
LLAMA = {"model": "llama-3.1-8b", "device": "h100-sxm", "concurrency": "16"}


@pytest.mark.parametrize(
    ("engine", "version", "key"),
    [
        ("vllm", "0.6.3.post1", "vllm-0.6"),
        ("vllm", "V0.5.4", "vllm-0.6"),
        ("vllm", " vllm 0.6 ", "vllm-0.6"),
        ("vllm", "vllm==0.6.6", "vllm-0.6"),
        ("vllm", "0.6.3+cu118", "vllm-0.6"),
        ("vllm", "0.7.0", "vllm"),
        ("vllm", "0.11.2", "vllm"),
        ("vllm", "1.0", "vllm"),
        ("vllm", "nightly-5b8c30d62b754b57", "vllm"),
        ("vllm", "nightly-dev-20260216-d3bae71e", "vllm"),
        ("vllm", "latest", "vllm"),
        ("vllm", "", "vllm"),
        ("trtllm", "0.12.0", "trtllm-0.12"),
        ("trtllm", "0.10.0.dev2024043000", "trtllm-0.12"),
        ("trtllm", "0.13.0", "trtllm-1.0"),
        ("trtllm", "1.0.0rc3", "trtllm-1.0"),
        ("trtllm", "1.1.0rc1", "trtllm-1.1"),
        ("trtllm", "gpt-oss-dev", "trtllm-1.1"),
        ("trtllm", "a-dev", "trtllm"),
        ("trtllm", "0.8.1.post2", "trtllm-1.1"),  # of a Dynamo image
        ("trtllm", "0.9.0", "trtllm"),
        ("trtllm", "1.2.0rc6.post1", "trtllm-1.1"),
        ("trtllm", "1.3.0rc14", "trtllm"),
        ("sglang", "0.5.1.post1", "sglang-0.5.3"),
        ("sglang", "0.5.4", "sglang-0.5.6"),
        ("sglang", "0.5.7", "sglang-0.5.9"),
        ("sglang", "nightly-dev-20260216-d3bae71e", "sglang-0.5.9"),
        ("sglang", "nightly-dev-20260402-d7256eb6", "sglang"),
        ("sglang", "0.5.10.post1", "sglang"),
    ],
)
def test_a_version_belongs_to_one_era(engine, version, key):
    assert engine_of_era(engine, version, "hopper") == key
    assert engine_of(key) == engine


@pytest.mark.parametrize(
    ("version", "key"), [("1.1.0rc2", "trtllm-1.1"), ("1.2.0rc6.post1", "trtllm"), ("0.8.1.post2", "trtllm")]
)
def test_tensorrt_llm_became_faster_a_release_earlier_on_blackwell(version, key):
    assert engine_of_era("trtllm", version, "blackwell_dc") == key


def test_no_engine_of_2024_runs_on_blackwell():
    assert engine_of_era("vllm", "0.6.1", "blackwell_dc") == "vllm"


def test_every_era_has_its_own_time():
    assert {key for eras in ERAS.values() for _, _, key in eras} == set(old_engines())


def test_an_old_engine_takes_its_own_time_and_kernels_as_measured():
    own = load("era/2024")["overheads"]["vllm-0.6"]
    tuning = shipped().tuning(OLD)

    assert tuning.step_s == pytest.approx(1e-6 * own["step_us"])
    assert tuning.sequence_s == pytest.approx(1e-6 * own["sequence_us"])
    assert (tuning.kernels, tuning.gemm_flops, tuning.launch) == (1, 1, 1)


def test_only_factors_that_name_the_server_act_on_an_old_engine():
    factors = {"step_s": {"all": {"all": 2.0}, "generation": {"hopper": 3.0}, "device": {"h100-sxm": 5.0}}}
    calibration = Calibration(Tuning(), factors, old={"vllm-0.6": AS_MEASURED})

    assert calibration.tuning(OLD).step_s == pytest.approx(5 * AS_MEASURED.step_s)


def test_predictions_follow_the_engine_version():
    """Of old releases a token takes longer by a step's host time and 16 sequences' at least; the rest as
    today's."""
    today, blank, unknown, old = predict_rows(
        [LLAMA | {"engine_version": v} for v in ("0.19.0", "", "nightly", "v0.6.2")]
    )
    own = shipped().tuning(OLD)

    assert today == blank == unknown
    assert old.tpot_ms - today.tpot_ms > 1e3 * (own.step_s + 16 * own.sequence_s) / 2
    assert old.memory_bytes_per_gpu == today.memory_bytes_per_gpu


def test_releases_whose_steps_differ_may_share_what_first_tokens_wait_for():
    factors = {
        "request_s": {"host": {"trtllm": 0.5, "trtllm-1.1": 5.0}},
        "launch": {"era": {"trtllm-1.0": 2.0, "trtllm-1.1": 3.0}},
    }
    made = Calibration(factors=factors)
    tunings = [made.tuning(cost(engine=e).traits) for e in ("trtllm", "trtllm-1.0", "trtllm-1.1")]

    assert [t.request_s / Tuning().request_s for t in tunings] == pytest.approx([0.5, 5.0, 5.0])
    assert [t.launch / Tuning().launch for t in tunings] == pytest.approx([1.0, 2.0, 3.0])


def test_an_engine_of_2025_is_todays_but_for_factors_of_its_era():
    factors = {
        "request_s": {
            "all": {"all": 2.0},
            "engine": {"trtllm": 3.0},
            "era": {"trtllm": 0.5, "trtllm-1.1": 5.0},
        }
    }
    made = Calibration(factors=factors, old=old_engines())
    today, late = (cost(engine=engine).traits for engine in ("trtllm", "trtllm-1.1"))

    assert (today.engine, late.engine) == ("trtllm", "trtllm")
    assert cost(engine="trtllm-1.1").engine == "trtllm"
    assert made.tuning(today).request_s == pytest.approx(3 * Tuning().request_s)
    assert made.tuning(late).request_s == pytest.approx(30 * Tuning().request_s)
    assert made.tuning(late).step_s == Tuning().step_s


def test_kernels_of_an_era_come_first_where_a_device_has_them():
    old, today = (Efficiency(find("mi300x"), engine) for engine in ("vllm-0.6", "vllm"))

    assert old.fit("gemm", "bf16").level == "runs"
    assert today.fit("gemm", "bf16").level == "datasheet"
    assert "all_reduce" in old.links
    assert "all_reduce" not in today.links
    assert old.fit("gemm", "fp8") == today.fit("gemm", "fp8")
    assert Efficiency(find("h100-sxm"), "vllm-0.6").fit("gemm", "bf16").level == "device"


@pytest.mark.parametrize(
    ("device", "level"),
    [
        ("mi300x", "runs"),
        ("h100-sxm", "runs"),
        ("b200-sxm", "runs"),
        ("rtx-4090", "datasheet"),
        ("l40s", "datasheet"),
    ],
)
def test_llama_cpp_looks_at_its_own_kernels_only(device, level):
    for precision in ("bf16", "int4_wo"):
        assert Efficiency(find(device), "llama.cpp").fit("gemm", precision).level == level


@pytest.mark.parametrize(("name", "same"), SAME_SILICON.items())
def test_the_same_silicon_has_the_same_kernels(name, same):
    fits = [
        Efficiency(find(device), "llama.cpp" if find(device).vendor == "amd" else "vllm")
        for device in (name, same)
    ]

    assert fits[0].fit("gemm", "bf16") == fits[1].fit("gemm", "bf16")
    assert fits[0].fit("gemm", "bf16").level != "datasheet"


def test_links_of_the_same_silicon_go_by_their_own_rate():
    """An A800 has 200 of an A100's 300 GB/s: a large message takes half as long again."""
    a100, a800 = (cost(device=device).links for device in ("a100-sxm", "a800-sxm"))
    message, eight = np.array([1e9]), tensor_parallel(8).tp

    assert a800.all_reduce_s(message, eight) == pytest.approx(
        1.5 * a100.all_reduce_s(message, eight), rel=0.02
    )

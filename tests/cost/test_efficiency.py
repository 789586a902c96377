"""The efficiency files: complete, physical, and found in the right order."""

import pytest

from cluster_configs.devices import find
from planner.cost.efficiency.reading import HERE, Chip, Efficiency, load
from planner.engines import NAMES as ENGINES

KERNELS = ("gemm", "moe", "decode", "prefill", "mla_decode", "mla_prefill")


def rows(table):
    """All fits of a file, at whatever depth."""
    for value in table.values():
        if isinstance(value, dict):
            yield from [value] if "compute" in value and "p" in value else rows(value)


@pytest.mark.parametrize("file", sorted(HERE.rglob("*.yaml")), ids=lambda f: f.stem)
def test_no_efficiency_beats_the_datasheet(file):
    name = str(file.relative_to(HERE).with_suffix(""))
    found = list(rows(load(name)["engines"]))

    assert found
    assert all(0 < row["compute"] <= 1 and 0 < row["memory"] <= 1 for row in found)
    assert all(
        row.get("t0_us", 0) <= 100 and 0.5 <= row["p"] <= 20 and 0 < row["error"] < 0.6 for row in found
    )


def test_files_name_their_source():
    for file in HERE.rglob("*.yaml"):
        text = file.read_text()
        assert "Source:" in text or file.stem == "datasheet"
        assert "Apache-2.0" in text or "BSD-3-Clause" in text or file.stem == "datasheet"


@pytest.mark.parametrize("name", sorted({path.stem for path in HERE.glob("*.yaml")} - {"datasheet"}))
def test_a_measured_device_is_in_the_catalog(name):
    assert find(name).name == name


def test_fits_fall_back_from_device_to_generation_to_datasheet():
    h100, pcie, mi300x = (Efficiency(find(d), "vllm") for d in ("h100-sxm", "h100-pcie", "mi300x"))

    assert [e.fit("gemm", "fp8").level for e in (h100, pcie, mi300x)] == ["device", "generation", "datasheet"]
    assert h100.fit("gemm", "nvfp4").level == "datasheet"  # Hopper has no FP4 units, so nobody measured it


def test_engines_differ_on_the_same_device():
    fits = [Efficiency(find("h100-sxm"), e).fit("decode", "bf16", 128) for e in ("vllm", "sglang", "trtllm")]

    assert len({fit.t0_s for fit in fits}) == 3


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("device", ["h100-sxm", "a100-sxm", "t4", "m2-ultra"])
def test_every_engine_finds_every_kernel(device, kernel, engine):
    attention = kernel not in ("gemm", "moe")
    for precision in (
        ("bf16", "fp8", "nvfp4") if attention else ("bf16", "fp8", "nvfp4", "mxfp4", "int4_wo", "int8")
    ):
        assert Efficiency(find(device), engine).fit(
            kernel, precision, 128 if attention and "mla" not in kernel else None
        )


def test_the_nearest_head_size_is_taken():
    fits = Efficiency(find("h100-sxm"), "vllm")

    assert fits.fit("decode", "bf16", 80) == fits.fit("decode", "bf16", 64)
    assert fits.fit("decode", "bf16", 512) == fits.fit("decode", "bf16", 256)


def test_artefacts_of_the_measurements_are_not_carried_over():
    """vLLM block-fp8 GEMMs were timed with 64 us of host time; TensorRT-LLM's fp8 with an unfused
    quantisation."""
    for device in ("h100-sxm", "b200-sxm", "l40s"):
        for engine in ("vllm", "sglang", "trtllm"):
            fits = Efficiency(find(device), engine)
            assert fits.fit("gemm", "fp8_block").t0_s <= 5e-6
            assert fits.fit("gemm", "fp8").t0_s <= 5e-6
            assert fits.fit("mla_decode", "bf16").t0_s < 60e-6


def test_a_precision_without_units_runs_at_the_next_wider_rate():
    chip = Chip.of(find("a100-sxm"))

    assert chip.peak("fp8") == (312e12, "bf16")
    assert chip.peak("int8") == (624e12, "int8")
    assert Chip.of(find("b200-sxm")).peak("fp4")[1] == "fp4"

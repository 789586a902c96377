"""The device catalog: complete, sourced, found by any sensible spelling."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from cluster_configs import devices
from cluster_configs.devices import find, load, names
from planner.engines import ENGINES
from planner.errors import InputError
from planner.rules.devices import supports

FACTS = Path(__file__).resolve().parents[3] / "shared" / "data" / "devices.csv"


@pytest.mark.parametrize("name", names())
def test_each_file_is_a_device_of_its_own_name_with_sources(name: str):
    device = load(name)

    assert device.name == name
    assert {"specs", "tdp"} <= set(device.sources)
    assert ("price" in device.sources) == (device.price_usd_per_gpu_hour is not None)
    assert set(device.tflops) & {"bf16", "fp16"}
    assert ("matmul" in device.sources) == (device.matmul_tflops is not None)
    for precision, best in (device.matmul_tflops or {}).items():
        assert 0.3 * device.tflops[precision] < best <= device.tflops[precision]
    whole_nodes = device.scale_up_gpus % device.gpus_per_node == 0
    assert whole_nodes or device.scale_up_gpus < device.gpus_per_node


@pytest.mark.skipif(not FACTS.exists(), reason="the table of device facts is not beside this checkout")
def test_every_device_of_the_table_is_shipped_with_its_figures():
    by_figures = {(d.memory_gb, d.memory_gb_per_s, *sorted(d.tflops.items())) for d in map(load, names())}
    columns = {"bf16": "bf16_flops", "fp16": "fp16_flops", "fp8": "fp8_flops", "fp4": "fp4_flops"}
    columns |= {"int8": "int8_ops", "fp32": "fp32_flops"}
    with FACTS.open() as file:
        for row in csv.DictReader(file):
            flops = {p: float(f"{float(row[c]) / 1e12:.12g}") for p, c in columns.items() if row[c]}
            figures = (int(row["memory_bytes"]) / 1e9, float(row["mem_bw_bytes_s"]) / 1e9)
            assert (*figures, *sorted(flops.items())) in by_figures, row["name"]
            assert find(row["name"]).memory_gb == figures[0]


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("H100", "h100-sxm"), ("h100_sxm", "h100-sxm"), ("H100/SXM", "h100-sxm"),
        ("h100 sxm5", "h100-sxm"), ("A100", "a100-sxm"), ("B200", "b200-sxm"), ("H200", "h200-sxm"),
        ("P100", "p100-sxm2"), ("V100", "v100-sxm2-16gb"), ("v100-32gb", "v100-sxm2-32gb"),
        ("a100-40gb", "a100-sxm-40gb"), ("a100-sxm-80gb", "a100-sxm"),
        ("A100-80GB-PCIe", "a100-pcie"), ("rtx4090", "rtx-4090"), ("4090", "rtx-4090"),
        ("rtx409024gb", "rtx-4090"), ("l40s-48gb", "l40s"), ("mi300x 192 GB", "mi300x"),
        ("gaudi 3", "gaudi3"), ("GB200", "gb200"), ("tpu v5e", "tpu-v5e"), ("v6e", "tpu-v6e"),
        ("M3 Ultra", "m3-ultra"), ("dgx-spark", "gb10"),
        ("NVIDIA GH200 480GB", "gh200-96gb"), ("h20", "h20"), ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("NVIDIA A100-SXM4-40GB", "a100-sxm-40gb"), ("Tesla T4", "t4"),
        ("NVIDIA GeForce RTX 3090", "rtx-3090"), ("NVIDIA H100 NVL", "h100-nvl"),
        ("a100_sxm_40", "a100-sxm-40gb"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx-pro-6000-server"),
        ("A6000", "rtx-a6000"), ("rtx4070ti super", "rtx-4070-ti-super"), ("4060 Ti", "rtx-4060-ti"),
        ("NVIDIA GeForce RTX 4060 Ti 16GB", "rtx-4060-ti-16gb"), ("A100-80", "a100-sxm"),
        ("A100 80GB", "a100-sxm"), ("H100 80GB HBM3", "h100-sxm"), ("NVIDIA L40S", "l40s"),
        ("GTX 1080 Ti", "gtx-1080-ti"), ("1080", "gtx-1080"), ("AMD Radeon RX 7900 XTX", "rx-7900-xtx"),
        ("7900-xtx", "rx-7900-xtx"), ("Intel(R) Arc(TM) A770 Graphics", "arc-a770"), ("b580", "arc-b580"),
        ("AMD_Instinct_MI300X_OAM", "mi300x"), ("5070ti", "rtx-5070-ti"), ("RTX 5080", "rtx-5080"),
    ],
)  # fmt: skip
def test_spelling_that_does_not_matter_does_not_matter(spelling: str, name: str):
    assert find(spelling).name == name


@pytest.mark.parametrize("name", names())
def test_each_name_finds_itself_however_it_is_written(name: str):
    assert (
        find(name).name
        == find(name.upper().replace("-", "_")).name
        == find(name.replace("-", " ")).name
        == name
    )


def test_an_unknown_device_names_the_three_nearest():
    with pytest.raises(InputError) as caught:
        find("h100-sxn", "lab.yaml:4:13, nodes[0].device")

    assert caught.value.message == "unknown GPU `h100-sxn`"
    assert caught.value.where == "lab.yaml:4:13, nodes[0].device"
    assert (caught.value.hint or "").startswith("did you mean `h100-sxm` or `a100-sxm` or")


def test_a_memory_that_is_not_sold_names_those_that_are():
    with pytest.raises(InputError, match="60 GB") as caught:
        find("a100-60gb")

    assert "`a100-sxm` (80 GB)" in (caught.value.hint or "")
    assert "`a100-sxm-40gb` (40 GB)" in (caught.value.hint or "")


@pytest.mark.parametrize("name", ["", "x" * 10_000, "80gb", "-", "gb", "h100-sxm\n- x", "\0"])
def test_nonsense_is_an_unknown_device(name: str):
    with pytest.raises(InputError):
        find(name)


def test_finding_a_device_parses_only_its_own_file(monkeypatch: pytest.MonkeyPatch):
    read: list[Path] = []
    original = devices.read
    monkeypatch.setattr(devices, "read", lambda path: read.append(path) or original(path))
    load.cache_clear()

    find("l40s")
    find("L40S")

    assert [path.name for path in read] == ["l40s.yaml"]


def test_figures_known_by_heart():
    """From vendors' published tables: H100 SXM 3.35 TB/s and 700 W, A100 400 W, a GB200 domain of 72 GPUs."""
    h100, gb200 = find("h100"), find("gb200")

    assert (h100.memory_gb_per_s, h100.tdp_watts, h100.tflops["fp8"]) == (3350, 700, 1978)
    assert (find("a100").tdp_watts, find("rtx-3090").gpus_per_node) == (400, 2)
    assert (gb200.gpus_per_node, gb200.scale_up_gpus) == (4, 72)


def test_figures_of_desktop_cards_known_by_heart():
    """RTX 4080 97.5 and RTX 5080 112.6 TFLOP/s (fp16, fp32 accumulate): the vendor's whitepapers."""
    cards = {name: find(name) for name in ("rtx-4080", "rtx-5080", "gtx-1080-ti", "rx-7900-xtx", "rtx-3060")}

    assert cards["rtx-4080"].tflops["bf16"] == pytest.approx(97.5, abs=0.1)
    assert cards["rtx-5080"].tflops["bf16"] == pytest.approx(112.6, abs=0.1)
    assert cards["rtx-5080"].tflops["fp4"] == pytest.approx(900.4, abs=1)
    assert [c.memory_gb_per_s for c in cards.values()] == [716.8, 960, 484, 960, 360]
    assert "bf16" not in cards["gtx-1080-ti"].tflops


@pytest.mark.parametrize(
    ("name", "engines"),
    [
        ("gtx-1080", {"llama.cpp"}),
        ("rx-7900-xtx", {"vllm", "llama.cpp"}),
        ("arc-a770", {"llama.cpp"}),
        ("arc-b580", {"vllm", "llama.cpp"}),
        ("t4", {"vllm", "sglang", "llama.cpp"}),
        ("rtx-5080", {"vllm", "sglang", "trtllm", "llama.cpp"}),
    ],
)
def test_each_generation_runs_the_engines_that_say_so(name: str, engines: set[str]):
    assert {e.name for e in ENGINES if supports(find(name), e.name, "bf16") is None} == engines


def test_vllm_serves_radeon_cards_in_16_bit_alone():
    assert all(supports(find("7900 xtx"), "vllm", p) for p in ("fp8", "int4_wo", "int8", "mxfp4"))


@pytest.mark.parametrize(
    ("name", "link"),
    [
        ("rtx-4090", ("PCIe", 32)),
        ("gh200-96gb", ("NVLink-C2C", 450)),
        ("gb200", ("NVLink-C2C", 225)),
        ("m3-ultra", ("unified memory", 0)),
    ],
)
def test_each_device_is_joined_to_its_host_by_the_link_it_has(name: str, link: tuple[str, float]):
    assert load(name).host_link == link

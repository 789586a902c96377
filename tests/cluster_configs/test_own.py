"""A GPU of one's own, under `devices:` of a cluster file."""

from __future__ import annotations

import pytest

from cluster_configs.reading import as_document, from_document
from cluster_configs.schema import Device, ResolvedCluster
from planner.errors import InputError
from planner.reading.documents import Document, read_text

OWN = """\
nodes:
  - {device: RTX 2080 Ti, gpus_per_node: 2}
devices:
  rtx-2080-ti: {generation: turing, memory_gb: 11.8, memory_gb_per_s: 616, tflops: 53.8}
"""


def cluster(text: str) -> ResolvedCluster:
    return from_document(read_text(text, "lab.yaml"))


def own(text: str = OWN) -> Device:
    return cluster(text).classes[0].device


def test_four_figures_make_a_device_and_the_rest_is_of_the_nearest_one():
    device = own()

    assert (device.name, device.memory_gb, device.memory_gb_per_s) == ("rtx-2080-ti", 11.8, 616)
    assert device.tflops == {"fp16": 53.8, "int8": 107.6}  # Turing: no bf16, int8 twice as fast
    assert (device.vendor, device.compute_capability, device.intra_gb_per_s) == ("nvidia", "7.5", 16)
    assert device.sources["rest"] == "as of t4, the nearest turing device known"
    assert device.price_usd_per_gpu_hour is None
    assert cluster(OWN).warnings == (
        "devices.rtx-2080-ti: tdp_watts 70, pcie_gb_per_s 16, nic_gb_per_s 1.5625 as of t4, the nearest "
        "turing device known; write your own",
    )


def test_what_is_written_is_not_taken_from_the_nearest():
    text = OWN.replace("tflops: 53.8", "tflops: {fp16: 107.6, int8: 215}, tdp_watts: 250, intra_gb_per_s: 50")
    device = own(text)

    assert (device.tdp_watts, device.intra_gb_per_s) == (250, 50)
    assert device.tflops == {"fp16": 107.6, "int8": 215}


def test_links_are_pcie_though_the_nearest_device_has_nvlink():
    h100 = "{generation: hopper, memory_gb: 94, memory_gb_per_s: 3350, tflops: {bf16: 900}}"
    device = own(f"nodes: [{{device: mine}}]\ndevices: {{mine: {h100}}}\n")

    assert (device.intra_link, device.intra_gb_per_s, device.tflops["fp8"]) == ("pcie", 64, 1800)


def test_it_stands_before_a_device_of_the_catalog_that_has_its_name():
    """Also where the node calls it by another of its names: the file's own entry never is passed over."""
    assert own(OWN.replace("RTX 2080 Ti", "T4").replace("rtx-2080-ti", "t4")).memory_gb == 11.8
    assert own(OWN.replace("RTX 2080 Ti", "H100").replace("rtx-2080-ti", "h100-sxm")).memory_gb == 11.8


@pytest.mark.parametrize(
    ("name", "says"), [("RTX-2080 Ti", "are the same name"), ("''", "no name"), ('"a\\nb"', "no name")]
)
def test_two_of_one_name_and_none_are_refused(name, says):
    with pytest.raises(InputError, match=says) as caught:
        cluster(OWN + OWN.splitlines(keepends=True)[-1].replace("rtx-2080-ti", name))
    assert caught.value.where.startswith("lab.yaml:5:3, devices.")


def test_the_form_with_defaults_reads_back_to_the_same_device():
    found = cluster(OWN)

    assert from_document(Document(as_document(found), "again")).classes == found.classes


@pytest.mark.parametrize(
    ("old", "new", "message", "line"),
    [
        ("turing", "touring", "`generation` must be", 4),
        ("memory_gb: 11.8, ", "", "`memory_gb` is missing", 4),
        ("memory_gb: 11.8", "memory_gb: null", "`memory_gb` must be", 4),
        ("tflops: 53.8", "tflops: {fp8: 20}", "`tflops` needs the 16-bit rate", 4),
        ("tflops: 53.8", "tflops: 0", "greater than 0", 4),
        ("tflops: 53.8", "flops: 53.8", "unknown field `flops`", 4),
    ],
)
def test_what_is_missing_or_wrong_is_named_with_its_line(old: str, new: str, message: str, line: int):
    with pytest.raises(InputError) as caught:
        cluster(OWN.replace(old, new))

    assert message in caught.value.message
    assert (caught.value.where or "").startswith(f"lab.yaml:{line}:")


def test_one_that_no_node_has_is_told():
    assert cluster(OWN.replace("device: RTX 2080 Ti", "device: t4")).warnings == (
        "devices names rtx-2080-ti, but no node has it",
    )

"""The page on cluster files is true: its example reads, and gives the classes it speaks of."""

from __future__ import annotations

import re
from pathlib import Path

from cluster_configs.reading import from_document
from planner.clusters.sources import SOURCES
from planner.cost.host import host_of
from planner.reading.documents import read_text

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cluster.md"
EXAMPLES = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)


def test_the_example_reads_without_a_warning():
    text = EXAMPLES[0]
    found = from_document(read_text(text, "two-sites.yaml"))

    assert found.warnings == ()
    assert {c.id: c.node_count for c in found.classes} == {"a": 3, "a-0": 1, "t": 8}
    of = {c.id: c for c in found.classes}
    first = [next(x for x in found.links if x.joins(of[a], of["t"])).bytes_per_s for a in ("a", "a-0")]
    assert first == [0.0125e9, 0.125e9]


def test_the_electricity_of_the_page_is_that_of_its_zones():
    found = from_document(read_text(EXAMPLES[0] + EXAMPLES[1], "two-sites.yaml"))

    assert {zone: said.overhead for zone, said in (found.source.energy or {}).items()} == {
        "west": 1.5,
        "east": 1,
    }


def test_the_device_of_ones_own_and_the_unlike_gpus_read_as_the_page_says():
    _, _, own, unlike, _ = EXAMPLES
    (card,) = from_document(read_text(own, "own.yaml")).classes
    parts = from_document(read_text(unlike, "pc.yaml")).classes

    assert (card.device.tflops["fp16"], card.device.tdp_watts, card.price_usd_per_hour) == (53.8, 250, None)
    assert [part.id for part in parts] == ["pc/rtx-4090", "pc/rtx-3090"]
    assert [part.host.memory_gb for part in parts if part.host] == [64, 32]


def test_every_source_of_clusters_is_on_the_page():
    assert all(f"`from-{source.name}`" in PAGE.read_text() for source in SOURCES)


def test_the_host_of_the_second_example_is_one_that_offloads():
    text = EXAMPLES[-1]
    (box,) = from_document(read_text(text, "box.yaml")).classes
    host = host_of(box, 2, 2)

    assert host is not None
    assert (host.bytes_per_s, host.pcie_bytes_per_s, host.nvme_bytes) == (358e9, 32e9, 4e12)

"""The known cases: outputs of tools as people posted them, and what a reader must find in each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from planner.clusters.found import Found, Input
from planner.clusters.sources import SOURCES, completed
from planner.clusters.writing import write
from planner.errors import InputError
from planner.reading.documents import decoded, read_bytes

CASES = Path(__file__).resolve().parents[3] / "shared" / "engines" / "cluster_inputs"
READERS = {"smi": "nvidia-smi", "topo": "nvidia-smi", "kubectl": "k8s", "sinfo": "slurm", "scontrol": "slurm"}
READERS |= {"ray": "ray", "sky": "skypilot"}
NOT_IN_THE_OUTPUT = {
    ("topo_4x_l40s_two_sockets.txt", "device"),
    ("topo_1gpu_ansi_underline.txt", "device"),
    ("scontrol_show_node_a40.txt", "socket_suffix"),
    ("scontrol_show_node_gres_null.txt", "truth"),
    ("sinfo_nodes_states_infn.txt", "gpus_per_node"),
    ("sinfo_nodes_states_infn.txt", "device"),
    ("ray_status_2x1_l4.txt", "device"),
}
"""What the post around an output says, or words about how to read it: no reader may say these."""
TOLD = {
    "topo_8x_h100_pairs_of_numa_18nics_partial.txt": "3 of their rows",
    "smi_x_a100_mig_schema_v12.xml": "split by MIG into 4 slices",
    "smi_x_rtx2080_pair_schema_v13_partial.xml": "2 GPUs, only 1 is described",
    "kubectl_nodes_a100_mig.json": "split by MIG (1 mig-7g.40gb)",
    "scontrol_show_node_gres_null.txt": "no GPU is configured in Slurm",
    "sinfo_partition_mixed_gres.txt": "down or drained",
    "ray_status_2x8gpu_idle.txt": "how many GPUs each node has is not told",
    "ray_status_4x8_a100.txt": "it may be `a100-pcie` or `a100-pcie-40gb` or `a100-sxm-40gb`, too",
    "ray_status_mixed_types_pending.txt": "none is free",
    "ray_status_2x1_l4.txt": "one GPU a node: tensor parallelism between them crosses the network",
    "sky_show_gpus_k8s_2025_none_names.txt": "its nodes are not named",
    "sky_show_gpus_quantity.txt": "the number of nodes is not in this table",
}
"""What must be said beside the cluster, by what truth.json expects of a case."""


def truths() -> list[dict[str, Any]]:
    return json.loads((CASES / "truth.json").read_text()) if CASES.exists() else []


def found_in(file: str) -> Found:
    reader = next(s for s in SOURCES if s.name == READERS[file.split("_")[0]])
    return reader.read((Input.of(file, decoded(read_bytes(CASES / file), file, coloured=True)),))


@pytest.mark.skipif(not CASES.exists(), reason="the outputs are not beside this checkout")
@pytest.mark.parametrize("case", truths(), ids=lambda case: case["file"])
def test_what_stands_in_an_output_is_found_and_nothing_else(case: dict[str, Any]):
    facts = json.loads(json.dumps(found_in(case["file"]).facts))

    for name, value in case["truth"].items():
        if name == "expect":
            continue
        if (case["file"], name) in NOT_IN_THE_OUTPUT:
            assert facts.get(name) in (None, "unknown (no accelerator_type line)")
        else:
            assert facts[name] == value, name


@pytest.mark.skipif(not CASES.exists(), reason="the outputs are not beside this checkout")
@pytest.mark.parametrize(("file", "words"), TOLD.items())
def test_what_a_reader_must_know_is_said(file: str, words: str):
    found = found_in(file)
    said = [*found.warnings, *found.assumed]
    if found.machines:
        said += write(found, "it").warnings

    assert words in " ".join(said)


@pytest.mark.skipif(not CASES.exists(), reason="the outputs are not beside this checkout")
def test_nodes_without_gpus_in_the_output_are_planned_once_the_user_says_what_they_have():
    found = found_in("sinfo_nodes_states_infn.txt")
    with pytest.raises(InputError, match="no GPU that a plan could use"):
        write(found, "Slurm")

    machines = completed(found, "H100", 4).machines
    assert len(machines) == 10
    assert {(g.model, g.count) for m in machines for g in m.gpus} == {("h100-sxm", 4)}

"""Readers of what tools print: their forms, the traps in each, and the cluster file that comes out."""

from __future__ import annotations

import pytest

from cluster_configs.reading import from_document
from cluster_configs.schema import ResolvedCluster
from planner.clusters import k8s, nvidia_smi, ray, skypilot, slurm
from planner.clusters.found import Found, Input
from planner.clusters.sources import SOURCES
from planner.clusters.writing import write
from planner.errors import InputError
from planner.reading.documents import read_text

READERS = {
    "k8s": k8s.read,
    "nvidia-smi": nvidia_smi.read,
    "ray": ray.read,
    "skypilot": skypilot.read,
    "slurm": slurm.read,
}
L40S = "GPU 0: NVIDIA L40S (UUID: GPU-1)\nGPU 1: NVIDIA L40S (UUID: GPU-2)\n"
PAIRS = """\
        GPU0 GPU1 GPU2 GPU3 CPU Affinity NUMA Affinity
GPU0     X   NV4  SYS  SYS  0-15  0
GPU1    NV4   X   SYS  SYS  0-15  0
GPU2    SYS  SYS   X   NV4  16-31 1
GPU3    SYS  SYS  NV4   X   16-31 1
"""
DESCRIBED = """\
Name:               gpu-1
Roles:              <none>
Labels:             kubernetes.io/hostname=gpu-1
                    nvidia.com/gpu.count=8
                    nvidia.com/gpu.product=NVIDIA-A100-SXM4-80GB
Annotations:        a: b
Unschedulable:      false
Conditions:
  Type             Status  LastHeartbeatTime
  ----             ------  -----------------
  MemoryPressure   False   now
  Ready            True    now
Capacity:
  cpu:                128
  nvidia.com/gpu:     8
Allocatable:
  cpu:                127
  nvidia.com/gpu:     8
Allocated resources:
  Resource           Requests    Limits
  --------           --------    ------
  cpu                1 (0%)      0 (0%)
  nvidia.com/gpu     3           3
Events:              <none>
"""


def read(source: str, *texts: str) -> Found:
    return READERS[source](tuple(Input.of(f"{i}.txt", text) for i, text in enumerate(texts)))


def cluster(found: Found) -> ResolvedCluster:
    return from_document(read_text(write(found, "it").text, "cluster.yaml"))


def shape(found: Found) -> list[tuple[str, int, int]]:
    """(device, nodes, GPUs a node) of the file that is written, as it reads back."""
    return [(c.device.name, c.node_count, c.gpus_per_node) for c in cluster(found).classes]


@pytest.mark.parametrize(
    "text",
    [
        L40S,
        "index, name, memory.total [MiB], power.limit [W]\n0, NVIDIA L40S, 46068 MiB, 350.00 W\n"
        "1, NVIDIA L40S, 46068 MiB, 350.00 W\n",
        "name,memory.total [MiB]\nNVIDIA L40S,46068\nNVIDIA L40S,46068\n",
        "NVIDIA L40S, 46068 MiB\nNVIDIA L40S, 46068 MiB\n",
    ],
)
def test_lists_and_tables_of_nvidia_smi_name_the_same_node(text: str):
    assert shape(read("nvidia-smi", text)) == [("l40s", 1, 2)]


def test_names_that_a_table_cut_are_completed_by_their_memory():
    old = """\
|   0  NVIDIA A100-SXM...  On   | 00000000:07:00.0 Off |                    0 |
| N/A   30C    P0    50W / 400W |      0MiB / 40960MiB |      0%      Default |
|                               |                      |             Disabled |
+-------------------------------+----------------------+----------------------+
"""
    assert shape(read("nvidia-smi", old)) == [("a100-sxm-40gb", 1, 1)]


def test_files_of_one_form_are_nodes_and_files_of_two_forms_one_node():
    assert shape(read("nvidia-smi", L40S, L40S)) == [("l40s", 2, 2)]
    csv = "name, memory.total [MiB]\nNVIDIA L40S, 46068 MiB\nNVIDIA L40S, 46068 MiB\n"
    assert shape(read("nvidia-smi", L40S, csv)) == [("l40s", 1, 2)]


def test_a_card_in_use_is_told_and_a_desktop_is_not():
    row = "name, memory.total [MiB], memory.used [MiB]\nNVIDIA L40S, 46068 MiB, {} MiB\n"

    assert "GPU 0 (NVIDIA L40S) is in use: 30,000 of 46,068 MiB" in " ".join(
        read("nvidia-smi", row.format(30000)).warnings
    )
    assert read("nvidia-smi", row.format(600)).warnings == ()


def test_slices_are_left_out_and_whole_gpus_beside_them_kept():
    text = L40S + "GPU 2: NVIDIA A100-SXM4-40GB (UUID: GPU-3)\n  MIG 3g.20gb Device 0: (UUID: MIG-1)\n"
    found = read("nvidia-smi", text)

    assert shape(found) == [("l40s", 1, 2)]
    assert "GPU 2 (NVIDIA A100-SXM4-40GB) is split by MIG into 1 slice" in found.warnings[0]


def test_nvlink_of_all_gpus_makes_the_rate_and_nvlink_of_pairs_is_told():
    two = "      GPU0 GPU1 CPU Affinity NUMA Affinity\nGPU0   X   NV4  0-15  0\nGPU1  NV4   X   0-15  0\n"
    cards = "GPU {}: NVIDIA RTX A6000 (UUID: x)\n"
    (pair,) = cluster(read("nvidia-smi", cards.format(0) + cards.format(1), two)).classes
    (four,) = cluster(read("nvidia-smi", "".join(map(cards.format, range(4))), PAIRS)).classes

    assert pair.intra_bytes_per_s == 56.25e9  # 4 links of 14.0625 GB/s
    assert four.intra_bytes_per_s == four.device.intra_gb_per_s * 1e9
    text = write(read("nvidia-smi", "".join(map(cards.format, range(4))), PAIRS), "it").text
    assert "NVLink joins GPUs 0, 1 or GPUs 2, 3 only" in text


def test_a_board_behind_a_switch_counts_no_more_links_than_it_has():
    row = ["NV12"] * 8
    lines = ["     " + " ".join(f"GPU{i}" for i in range(8)) + " CPU Affinity NUMA Affinity"]
    lines += [f"GPU{i} " + " ".join("X" if i == j else row[j] for j in range(8)) + " 0-9 0" for i in range(8)]
    cards = "".join(f"GPU {i}: NVIDIA A100-SXM4-80GB (UUID: x)\n" for i in range(8))
    (board,) = cluster(read("nvidia-smi", cards, "\n".join(lines))).classes

    assert board.intra_bytes_per_s == 300e9


def test_ports_of_ibstat_give_the_rate_of_the_nics():
    port = "CA 'mlx5_{}'\n\tPort 1:\n\t\tState: {}\n\t\tRate: {}\n\t\tLink layer: {}\n"
    ports = port.format(0, "Active", 400, "InfiniBand") + port.format(1, "Down", 400, "InfiniBand")
    (node,) = cluster(read("nvidia-smi", L40S, ports + port.format(2, "Active", 25, "Ethernet"))).classes

    assert (node.nic_bytes_per_s, node.nic) == (25e9, "infiniband")  # 400 Gbit/s for two GPUs


def test_memory_that_the_driver_tells_otherwise_is_written():
    found = read("nvidia-smi", "name, memory.total [MiB]\nTesla T4, 15360 MiB\n")

    assert cluster(found).classes[0].device.memory_gb == pytest.approx(15 * 2**30 / 1e9, rel=1e-4)


def test_described_nodes_say_what_pods_have_taken():
    found = read("k8s", DESCRIBED)

    assert shape(found) == [("a100-sxm", 1, 8)]
    assert found.warnings == ("gpu-1: 3 of 8 GPUs are requested by pods that run now",)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("Unschedulable:      false", "Unschedulable:      true", "unschedulable"),
        ("Ready            True", "Ready            Unknown", "not Ready"),
        ("nvidia.com/gpu:     8\nAllocated", "nvidia.com/mig-3g.40gb: 2\nAllocated", "split by MIG"),
    ],
)
def test_described_nodes_that_a_plan_may_not_use_are_left_out(old: str, new: str, why: str):
    found = read("k8s", DESCRIBED.replace(old, new))

    assert found.machines == ()
    assert why in found.left_out["gpu-1"]


def test_a_cordoned_node_of_a_table_is_left_out():
    table = (
        "NAME STATUS ROLES AGE VERSION LABELS\n"
        "a Ready <none> 1d v1 nvidia.com/gpu.product=NVIDIA-L4,nvidia.com/gpu.count=2\n"
        "b Ready,SchedulingDisabled <none> 1d v1 nvidia.com/gpu.product=NVIDIA-L4,nvidia.com/gpu.count=2\n"
    )
    found = read("k8s", table)

    assert shape(found) == [("l4", 1, 2)]
    assert found.left_out == {"b": "unschedulable"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n[1-2]|idle|gpu:a40:4\nn3|down*|gpu:a40:4\n", [("a40", 2, 4)]),
        ("NODELIST STATE GRES\nn1 idle gpu:a100-sxm:2\n", [("a100-sxm", 1, 2)]),
        ("NODELIST STATE GRES\nn[01-02] idle gpu:l40s:2(S:0)\nn03 mix gpu:l4:1\n", [("l40s", 2, 2), ("l4",
        1, 1)]),
        ("NodeName=a State=IDLE Gres=gpu:a40:2 CfgTRES=x\nNodeName=b State=DOWN+DRAIN Gres=gpu:a40:2\n",
        [("a40", 1, 2)]), ("PARTITION NODES(A/I/O/T) GRES\np* 1/2/1/4 gpu:l4:2\n", [("l4", 3, 2)]),
        ("dev 0/2/0/2 64 0/128/0/128 gpu:l4:2 512000 infinite\n", [("l4", 2, 2)]), ],
)  # fmt: skip
def test_slurm_is_read_with_any_columns(text: str, expected: list[tuple[str, int, int]]):
    assert shape(read("slurm", text)) == expected


def test_slurm_tells_gpus_that_are_allocated():
    found = read("slurm", "NodeName=a State=MIXED Gres=gpu:a40:4 AllocTRES=cpu=8,gres/gpu=3\n")

    assert found.warnings == ("a: 3 of 4 GPUs are in use now; a plan takes all of them",)


def test_a_list_of_nodes_that_was_cut_is_refused():
    with pytest.raises(InputError, match="is cut"):
        read("slurm", "NODELIST STATE GRES\nn[01- idle gpu:l40s:2\n")


def test_skypilot_reads_both_spellings_of_what_is_free():
    text = (
        "GPU  REQUESTABLE_QTY_PER_NODE  UTILIZATION\nL4   1, 2, 4  3 of 8 free\n\n"
        "NODE  vCPU  Memory (GB)  GPU  GPU UTILIZATION  NODE STATUS\n"
        "a     8     32           L4   2 of 4 free      Healthy\n"
        "b     8     32           L4   1 of 4 free      NotReady\n"
    )
    found = read("skypilot", text)

    assert shape(found) == [("l4", 1, 4)]
    assert found.left_out == {"b": "notready"}
    assert found.facts["free"] == {"L4": 3}


def test_a_device_that_nobody_knows_is_left_to_fill_in_and_refused_until_then():
    written = write(read("nvidia-smi", "GPU 0: NVIDIA GeForce FX 5200 (UUID: x)\n"), "nvidia-smi")

    assert "fx-5200:\n    generation: null" in written.text
    with pytest.raises(InputError, match="`generation` must be"):
        from_document(read_text(written.text, "cluster.yaml"))


@pytest.mark.parametrize("source", [s.name for s in SOURCES])
@pytest.mark.parametrize("text", ["", "hello\n", "{}", "[1, 2]", "<nvidia_smi_log>", "a b c\n1 2 3\n"])
def test_other_text_is_refused_with_what_to_run(source: str, text: str):
    with pytest.raises(InputError) as caught:
        read(source, text)

    assert caught.value.hint


def test_unlike_cards_of_one_node_stay_one_node():
    cards = "GPU 0: NVIDIA GeForce RTX 4090 (UUID: a)\nGPU 1: NVIDIA GeForce RTX 3090 (UUID: b)\n"
    found = read("nvidia-smi", cards)

    assert "gpus: [{device: rtx-4090, count: 1}, {device: rtx-3090, count: 1}]" in write(found, "it").text
    assert {c.box for c in cluster(found).classes} == {"node"}


def test_ray_tells_each_nodes_gpus_where_nodes_are_listed():
    text = """\
---
-   node_id: aa
    node_name: head
    state: ALIVE
    resources_total:
        CPU: 8.0
-   node_id: bb
    node_name: big
    state: ALIVE
    resources_total:
        GPU: 8.0
        accelerator_type:H200: 1.0
-   node_id: cc
    node_name: gone
    state: DEAD
    resources_total:
        GPU: 8.0
"""
    found = read("ray", text)

    assert shape(found) == [("h200-sxm", 1, 8)]
    assert (found.facts["nodes"], found.facts["gpus"], found.left_out) == (3, 8, {"gone": "dead"})


def test_totals_of_ray_are_not_those_of_the_last_node_listed_below_them():
    text = "Active:\n 2 w\n\nTotal Usage:\n 0.0/16.0 GPU\n\nNode: w\n Usage:\n  0.0/8.0 GPU\n"

    assert read("ray", text).facts["gpus"] == 16


def test_contexts_of_skypilot_add_up_and_their_sum_is_not_added_again():
    one = "GPU  REQUESTABLE_QTY_PER_NODE  UTILIZATION\nL4   1, 2, 4  {} of {} free\n\n"

    assert read("skypilot", one.format(3, 8) + one.format(1, 4)).facts["gpus"] == {"L4": 12}
    both = one.format(4, 12) + one.format(3, 8) + one.format(1, 4)
    assert read("skypilot", both).facts["gpus"] == {"L4": 12}


def test_slurm_is_read_as_json_and_below_a_date():
    node = '{"name": "a", "state": ["IDLE"], "gres": "gpu:a40:4", "gres_used": "gpu:a40:1(IDX:0)"}'
    found = read("slurm", f'{{"nodes": [{node}]}}')
    dated = "Mon Nov 23 13:00:00 2026\nNODELIST NODES PARTITION STATE GRES\na 1 p idle gpu:a40:4\n"

    assert shape(found) == shape(read("slurm", dated)) == [("a40", 1, 4)]
    assert found.warnings == ("a: 1 of 4 GPUs are in use now; a plan takes all of them",)


def test_memory_in_a_name_may_be_the_cpus():
    row = "name, memory.total [MiB]\nNVIDIA GH200 480GB, 97871 MiB\n"

    assert shape(read("nvidia-smi", row)) == [("gh200-96gb", 1, 1)]


def test_cpus_tell_sockets_apart_where_numa_nodes_are_not_said():
    head = "GPU0 GPU1 CPU Affinity NUMA Affinity GPU NUMA ID\n"
    text = f"{head}GPU0 X SYS 0-15 N/A N/A\nGPU1 SYS X 16-31 N/A N/A\n"

    assert read("nvidia-smi", text).facts["numa_groups"] == [[0], [1]]


def test_slices_are_known_by_labels_where_quantities_are_not_told():
    labels = (
        "nvidia.com/gpu.product=NVIDIA-A100-SXM4-40GB,nvidia.com/gpu.count=1,nvidia.com/mig-1g.5gb.count=7"
    )
    found = read("k8s", f"NAME STATUS ROLES AGE VERSION LABELS\na Ready x 1d v1 {labels}\n")

    assert "split by MIG" in found.left_out["a"]


def test_an_empty_cell_does_not_shift_the_others():
    text = "GRES      NODES STATE NODELIST\ngpu:l4:2      1 idle  g1\n              3 idle  c[1-3]\n"
    found = read("slurm", text)

    assert shape(found) == [("l4", 1, 2)]
    assert found.facts["node_names"] == ["g1", "c1", "c2", "c3"]


def test_shared_gpus_are_known_by_their_replicas_too():
    labels = "nvidia.com/gpu.product=NVIDIA-L4,nvidia.com/gpu.count=2,nvidia.com/gpu.replicas=4"
    found = read("k8s", f"NAME STATUS ROLES AGE VERSION LABELS\na Ready x 1d v1 {labels}\n")

    assert found.left_out["a"].startswith("time-sliced")


def test_ray_counts_gpus_on_the_nodes_that_have_a_type():
    text = "Active:\n 20 cpu\n 2 gpu\n\nTotal Usage:\n 0.0/16.0 GPU\n 0.0/2.0 accelerator_type:H200\n"

    assert shape(read("ray", text)) == [("h200-sxm", 2, 8)]

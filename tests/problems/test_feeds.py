"""Watts of racks and zones as numbers: of feeds, of replicas, and limits to be told."""

from dataclasses import replace

import pytest

from cluster_configs.reading import from_gpus, read_cluster
from planner.candidates.candidate import Candidate, Design, Key
from planner.errors import InputError
from planner.problems.feeds import check_feeds, feed_watts, limits_of, most_watts, replica_watts

RACKS = """
nodes:
  - {name: h, count: 2, device: h100-sxm, zone: west}
  - {name: i, count: 2, device: h100-sxm, zone: west}
  - {name: l, count: 1, device: l40s, gpus_per_node: 8, zone: east, power_cap_watts: 2000}
power_caps_watts: {west: 18000, i: 7000, east: 5000}
"""


@pytest.fixture
def racks(tmp_path):
    path = tmp_path / "cluster.yaml"
    path.write_text(RACKS)
    return read_cluster(path)


def candidate(node_class: str, gpus: int, told: float = 0.0) -> Candidate:
    key = Key(node_class, "vllm", power=told)
    return Candidate(
        "c", "mixed", node_class, "vllm", Design(tp=gpus), gpus, {"busy": {"0": 1.0}}, 1.0, key=key
    )


def test_a_feed_holds_a_zone_or_the_nodes_of_an_entry_which_are_a_class_then(racks):
    assert [c.id for c in racks.classes] == ["h", "i", "l"]
    assert [(f.name, f.watts, f.classes) for f in racks.feeds] == [
        ("west", 18000.0, ("h", "i")),
        ("i", 7000.0, ("i",)),
        ("east", 5000.0, ("l",)),
    ]


def test_what_gpus_draw_at_rest_is_taken_off_a_feed_by_hand(racks):
    """32 GPUs at rest with 12 % of 700 W, 16 of them on `i`; eight with 12 % of 350 W."""
    assert feed_watts(racks) == pytest.approx(
        {"west": 18000 - 32 * 84, "i": 7000 - 16 * 84, "east": 5000 - 336}
    )


def test_a_replica_may_draw_its_limit_on_every_feed_above_it_by_hand(racks):
    """Of eight GPUs at 700 W, or told 500 W; of L40S at the 250 W that their node's cap leaves each."""
    assert replica_watts(candidate("h", 8), racks) == pytest.approx({"west": 8 * (700 - 84)})
    assert replica_watts(candidate("i", 8, told=500.0), racks) == pytest.approx(
        {"west": 8 * 416, "i": 8 * 416}
    )
    assert replica_watts(candidate("l", 2), racks) == pytest.approx({"east": 2 * (250 - 42)})


def test_limits_are_told_where_a_feed_cannot_hold_its_gpus_as_they_come(racks):
    """`west` holds 562 W for each of its GPUs, `i` 437 W; `east` all that its eight may draw: 2,000 W."""
    assert limits_of(racks) == {"h": (562, 560, 455, 350), "i": (562, 560, 455, 437, 350)}


def test_a_cluster_without_feeds_tells_no_limits():
    assert limits_of(from_gpus("8xH100")) == {}
    assert feed_watts(from_gpus("8xH100")) == {}


def test_what_a_gpu_may_draw_is_the_least_of_its_limits(racks):
    l40s = racks.classes[2]

    assert [most_watts(l40s), most_watts(l40s, 200.0), most_watts(l40s, 300.0)] == [250.0, 200.0, 250.0]
    assert most_watts(replace(l40s, power_cap_watts=None)) == 350.0


def test_a_feed_below_what_its_gpus_draw_at_rest_is_refused(racks):
    low = replace(racks, feeds=(replace(racks.feeds[1], watts=1300.0),))

    with pytest.raises(InputError, match="`i` holds 1300 W, its GPUs draw 1,344 W at rest") as error:
        check_feeds(low)
    assert str(error.value.where).endswith("cluster.yaml:6:36, power_caps_watts.i")


@pytest.mark.parametrize(
    ("caps", "message"),
    [
        ("{wset: 9000}", "no zone and no entry of `nodes` is called `wset`"),
        ("{h-0: 9000}", "no zone and no entry of `nodes` is called `h-0`"),
        ("{west: -1}", "`west` must be greater than 0"),
        ("{west: 12kW}", "`west` must be a number"),
    ],
)
def test_names_and_figures_that_mean_nothing_are_refused_by_line(tmp_path, caps, message):
    path = tmp_path / "cluster.yaml"
    path.write_text(RACKS.replace("{west: 18000, i: 7000, east: 5000}", caps))

    with pytest.raises(InputError, match=message) as error:
        read_cluster(path)
    assert f"{path}:6" in str(error.value.where)


@pytest.mark.parametrize("name", ["pc", "pc-1", "pc-1/rtx-4090", "default"])
def test_nodes_with_unlike_gpus_are_fed_by_entry_node_kind_or_zone(tmp_path, name):
    path = tmp_path / "cluster.yaml"
    kinds = "[{device: rtx-4090, count: 2}, {device: rtx-3090}]"
    path.write_text(f"nodes: [{{name: pc, count: 2, gpus: {kinds}}}]\npower_caps_watts: {{{name}: 1500}}\n")
    parts = [f"pc-{i}/{kind}" for i in (0, 1) for kind in ("rtx-4090", "rtx-3090")]
    meant = {"pc": parts, "default": parts, "pc-1": parts[2:]}.get(name, [name])

    assert set(read_cluster(path).feeds[0].classes) == set(meant)


def test_a_name_of_a_zone_and_of_an_entry_elsewhere_is_refused(tmp_path):
    path = tmp_path / "cluster.yaml"
    path.write_text(RACKS.replace("name: h", "name: east"))

    with pytest.raises(InputError, match="`east` is the name of a zone and of an entry"):
        read_cluster(path)

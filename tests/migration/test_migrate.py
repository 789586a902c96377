"""From one plan to another: by hand on a few nodes, and what holds for all plans."""

import json
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model_zoo import catalog
from planner.errors import InputError
from planner.migration import refused
from planner.migration.migrate import migration
from planner.migration.schema import Servers
from planner.plans.schema import Plan
from tests.check.plans import SOUND, golden, moe, pair, pipeline, rack
from tests.migration.plans import NORMS, WHOLE, group, plan

NICS = 8 * 50e9
"""Of a node, bytes/s."""
NVLINK = 450e9
DISK = 2e9


def moved(before: Plan, after: Plan):
    return migration([before], [after])


@pytest.mark.parametrize("name", [*SOUND, "golden"])
def test_between_equal_plans_nothing_moves(name):
    one = golden() if name == "golden" else SOUND[name]()
    found = moved(one, one)

    assert found.nothing
    assert found.taken.total == found.slowest.seconds == found.reloaded.seconds == 0
    assert found.serving.share == pytest.approx(1.0)
    assert found.dropped_requests == found.dropped_kv_bytes == 0


def test_a_replica_that_moves_to_another_node_comes_over_the_nics():
    found = moved(plan(group("r1", ["h-0"])), plan(group("r1", ["h-1"])))

    assert found.servers == Servers(kept=0, restarted=0, stopped=1, started=1)
    assert (found.taken.far, found.taken.total) == (pytest.approx(WHOLE), pytest.approx(WHOLE))
    assert found.slowest.seconds == pytest.approx(WHOLE / NICS)
    assert "NICs" in found.slowest.what
    assert found.reloaded.seconds == pytest.approx(WHOLE / DISK)
    assert found.reloaded.what == "the storage of h-1"
    assert found.serving.rps == 0


def test_one_more_on_the_same_node_comes_over_nvlink_and_the_first_goes_on():
    found = moved(plan(group("r1", ["h-0"], 1)), plan(group("r1", ["h-0"], 2)))

    assert found.servers == Servers(kept=1, restarted=0, stopped=0, started=1)
    assert found.taken.near == pytest.approx(WHOLE) == found.taken.total
    assert found.held_bytes == pytest.approx(WHOLE)
    assert found.slowest.seconds == pytest.approx(WHOLE / NVLINK)
    assert (found.serving.share, found.serving.rps) == (1.0, pytest.approx(10.0))


def test_three_on_a_new_node_come_over_its_nics_once():
    """Two of the three take what the third brought in, over NVLink."""
    found = moved(plan(group("r1", ["h-0"])), plan(group("r1", ["h-0"]), group("r2", ["h-1"], 3)))

    assert found.taken.far == pytest.approx(WHOLE)
    assert found.taken.near == pytest.approx(2 * WHOLE)
    assert found.slowest.seconds == pytest.approx(WHOLE / NICS)


def test_a_wider_replica_keeps_on_each_gpu_what_is_in_its_new_part():
    """tp 1 on one GPU becomes tp 2: that GPU has all of its half, the other takes its half from it."""
    found = moved(plan(group("r1", ["h-0"])), plan(group("r1", ["h-0"], tp=2)))
    half = (WHOLE - NORMS) / 2 + NORMS

    assert found.held_bytes == pytest.approx(half)
    assert found.taken.near == pytest.approx(half) == found.taken.total
    assert found.servers == Servers(kept=0, restarted=0, stopped=1, started=1)


def test_other_weights_are_only_in_storage():
    fp8 = {"precision": {"weights": "fp8", "experts": "fp8", "kv": "bf16"}}
    found = moved(plan(group("r1", ["h-0"])), plan(group("r1", ["h-0"], **fp8)))
    ends = 2 * 2.0 * 128_256 * 4096  # embedding and LM head stay in 16 bits

    assert found.taken.total == found.taken.storage == pytest.approx((WHOLE - ends - NORMS) / 2, rel=1e-3)
    assert found.slowest.what == "the storage of h-0"
    assert found.slowest.seconds == pytest.approx(found.taken.storage / DISK)


def test_other_settings_only_start_again():
    told = {"max_batched_tokens": 512}
    found = moved(plan(group("r1", ["h-0"])), plan(group("r1", ["h-0"], **told)))

    assert found.servers == Servers(kept=0, restarted=1, stopped=0, started=0)
    assert found.taken.total == 0
    assert found.reloaded.seconds == pytest.approx(WHOLE / DISK)
    assert found.dropped_requests > 0


def test_what_a_node_held_that_leaves_is_lost():
    """h-1 is no more: the last copy goes with it, so storage has the only one."""
    before = plan(group("r1", ["h-1"]), nodes=2)
    found = moved(before, plan(group("r1", ["h-0"]), nodes=1))

    assert found.gone == ("h-1",)
    assert found.taken.storage == pytest.approx(WHOLE) == found.taken.total


def test_a_node_that_leaves_costs_what_stood_on_it_and_the_rest_goes_on():
    before = plan(group("r1", ["h-0", "h-1"], 2, tp=8), nodes=2)
    after = plan(group("r1", ["h-0"], 1, tp=8), nodes=1)
    found = moved(before, after)

    assert found.servers == Servers(kept=1, restarted=0, stopped=1, started=0)
    assert found.serving.share == pytest.approx(0.5)
    assert found.taken.total == 0
    assert found.gone == ("h-1",)


def test_a_node_with_other_gpus_is_another_node():
    l40s = {"nodes": [{"name": "h", "count": 4, "device": "l40s", "price_usd_per_hour": 8.0, "zone": "a"}]}
    before, after = plan(group("r1", ["h-0"])), plan(group("r1", ["h-0"]))
    data = json.loads(after.model_dump_json(by_alias=True))
    data["problem"]["cluster"] |= l40s
    data["problem"]["devices"] = json.loads(pair().model_dump_json())["problem"]["devices"]
    data["replicas"][0]["stages"][0]["device"] = "l40s"
    found = moved(before, Plan.model_validate(data))

    assert found.gone == ("h-0",)
    assert found.taken.storage == pytest.approx(WHOLE)


@pytest.mark.parametrize(
    ("gb_per_s", "link", "storage"), [(None, 0.0, WHOLE), (1.25, 0.0, WHOLE), (5.0, WHOLE, 0.0)]
)
def test_another_zone_is_a_source_where_its_link_is_faster_than_a_disk(gb_per_s, link, storage):
    node = {"count": 1, "device": "h100-sxm", "price_usd_per_hour": 24.0}
    links = [{"between": ["a", "b"], "gb_per_s": gb_per_s, "latency_ms": 1.0}] if gb_per_s else []
    zones = {"nodes": [node | {"name": "h", "zone": "a"}, node | {"name": "k", "zone": "b"}], "links": links}
    there = group("r1", ["k-0"])
    there["stages"][0]["node_class"] = "k"
    found = moved(plan(group("r1", ["h-0"]), cluster=zones), plan(there, cluster=zones))

    assert (found.taken.link, found.taken.storage) == (pytest.approx(link), pytest.approx(storage))
    seconds = link / 5e9 if link else storage / DISK
    assert found.slowest.seconds == pytest.approx(seconds)


def test_one_slow_node_that_alone_has_it_sends_it():
    """A GPU by itself with a NIC of 1 GB/s is slower than the eight that take it, and than no disk."""
    slow = {
        "name": "k",
        "count": 1,
        "device": "h100-sxm",
        "gpus_per_node": 1,
        "nic_gb_per_s": 1.0,
        "zone": "a",
    }
    fast = {"name": "h", "count": 1, "device": "h100-sxm", "zone": "a"}
    there = group("r1", ["k-0"])
    there["stages"][0]["node_class"] = "k"
    both = {"nodes": [fast, slow]}
    found = moved(plan(there, cluster=both), plan(group("r1", ["h-0"]), cluster=both))

    assert found.slowest.what == "the NICs out of k-0"
    assert found.slowest.seconds == pytest.approx(WHOLE / 1e9)


def test_a_slow_node_sends_nothing_where_another_has_the_same():
    fast = {"name": "h", "count": 2, "device": "h100-sxm", "zone": "a"}
    slow = fast | {"name": "k", "count": 1, "gpus_per_node": 1, "nic_gb_per_s": 1.0}
    there, other = group("r1", ["k-0"]), group("r2", ["h-1"])
    there["stages"][0]["node_class"] = "k"
    both = {"nodes": [fast, slow]}
    found = moved(plan(there, other, cluster=both), plan(group("r1", ["h-0"]), cluster=both))

    assert found.slowest.what == "the NICs into h-0"
    assert found.slowest.seconds == pytest.approx(WHOLE / NICS)


def test_inside_a_rack_of_one_domain_all_comes_over_its_links():
    """GB200 NVL72: a replica over two nodes of 18 moves to two others."""
    before = rack()
    data = json.loads(before.model_dump_json(by_alias=True))
    data["replicas"][0] |= {"count": 1}
    data["replicas"][0]["stages"][0]["nodes"] = ["g-0", "g-1"]
    first = Plan.model_validate(data)
    data["replicas"][0]["stages"][0]["nodes"] = ["g-16", "g-17"]
    found = moved(first, Plan.model_validate(data))

    assert found.taken.near == found.taken.total > 400e9
    assert [row.nodes[0] for row in found.rows] == ["g-0"]
    assert len(found.rows[0].nodes) == 18


def test_a_chain_goes_on_where_all_of_its_nodes_do():
    """Two chains of two nodes each: the one that passes h-1 does not, as its layers go to h-4."""

    def chained(nodes):
        halves = [group(c, own, 2, tp=8, role="chain") for c, own in (("c1", nodes[:2]), ("c2", nodes[2:]))]
        for half, layers in zip(halves, ([0, 16], [16, 32]), strict=True):
            half["stages"][0]["layers"] = layers
        hops = [[(nodes[0], "c1"), (nodes[2], "c2")], [(nodes[1], "c1"), (nodes[3], "c2")]]
        data = json.loads(plan(*halves, nodes=8).model_dump_json(by_alias=True))
        data["routing"] = [{"bucket": 0, "share": 1.0, "chains": True}]
        data["chains"] = [
            {"share": share, "ttft_s": 1.0, "tpot_s": 0.1}
            | {"hops": [{"node": n, "replica": r, "layers": [0, 16]} for n, r in way]}
            for share, way in zip((0.75, 0.25), hops, strict=True)
        ]
        return Plan.model_validate(data)

    found = moved(chained(["h-0", "h-1", "h-2", "h-3"]), chained(["h-0", "h-4", "h-2", "h-3"]))

    assert found.servers == Servers(kept=3, restarted=0, stopped=1, started=1)
    assert found.serving.share == pytest.approx(0.75)


def test_of_a_pair_as_much_goes_on_as_the_smaller_side_left_can_serve():
    before = pair()
    data = json.loads(before.model_dump_json(by_alias=True))
    prefill = next(r for r in data["replicas"] if r["role"] == "prefill")
    prefill["count"] = 1  # of two, and all that decode and those that are mixed
    found = moved(before, Plan.model_validate(data))
    mixed = sum(r.share for r in before.routing if r.replica)

    assert found.serving.share == pytest.approx(mixed + (1 - mixed) / 2)


def test_experts_that_change_ranks_are_taken_from_those_that_had_them():
    """16 ep ranks over two nodes become 8 on the first: each keeps half of what it needs, or less."""
    before = moe()
    data = json.loads(before.model_dump_json(by_alias=True))
    r = data["replicas"][0]
    r |= {"attn_dp": 8, "ep": 8}
    r["stages"][0] |= {"gpus": 8, "nodes": ["h-0"]}
    data["experts"] = None
    found = moved(before, Plan.model_validate(data))

    assert found.taken.near > 0
    assert found.taken.far > 0
    assert found.taken.storage == found.taken.link == 0
    assert found.servers == Servers(kept=0, restarted=0, stopped=1, started=1)


def test_stages_whose_border_moves_take_the_layers_between():
    """48 + 32 layers become 40 + 40: the second device takes eight of 80 layers over the link."""
    before = pipeline()
    data = json.loads(before.model_dump_json(by_alias=True))
    for stage, layers in zip(data["replicas"][0]["stages"], ([0, 40], [40, 80]), strict=True):
        stage["layers"] = layers
    found = moved(before, Plan.model_validate(data))
    each = found.taken.total / (found.held_bytes + found.taken.total)

    assert found.taken.link + found.taken.near == pytest.approx(found.taken.total)
    ends = 4 * 2 * 2.0 * 128_256 * 8192  # four replicas: embedding and LM head in 16 bits
    assert each == pytest.approx(8 / 80 * (1 - ends / (found.held_bytes + found.taken.total)), rel=0.01)


def test_weights_beside_the_gpus_count_as_a_whole():
    tier = {"replica": "r1", "tier": "host", "what": "weights", "layers": [[0, 32]], "bytes": 5e9}
    before, after = plan(group("r1", ["h-0"])), plan(group("r1", ["h-1"]))
    before, after = (
        Plan.model_validate(json.loads(p.model_dump_json(by_alias=True)) | {"tiers": [tier]})
        for p in (before, after)
    )
    found = moved(before, after)

    assert found.whole == ("r1",)
    assert found.taken.total == pytest.approx(WHOLE + 5e9)


def test_plans_of_several_models_run_side_by_side():
    """A model that comes beside another takes nothing from it."""
    one = plan(group("r1", ["h-0"]))
    data = json.loads(plan(group("r1", ["h-0"])).model_dump_json(by_alias=True))
    data["problem"]["model"]["name"] = "another"
    data["seats"] = [{"replica": "r1", "number": 0, "gpus": {"h-0": [5]}, "port": 9000}]
    other = Plan.model_validate(data)
    found = migration([one], [one, other])

    assert found.servers == Servers(kept=1, restarted=0, stopped=0, started=1)
    assert found.taken.storage == pytest.approx(WHOLE)
    assert found.serving.share == pytest.approx(1.0)


def edited(change):
    """A plan that somebody changed by hand."""
    data = json.loads(plan(group("r1", ["h-0"])).model_dump_json(by_alias=True))
    change(data, data["replicas"][0])
    return Plan.model_validate(data)


EXPERTS = {
    "loads": "x",
    "replicas": [
        {"replica": "r1", "ep": 1, "redundant": 0, "slots_per_rank": 1, "placement": "map", "hottest": 1.0}
        | {"in_order": 1.0, "map": [[[0]]]}
    ],
}
SEAT = {"replica": "r1", "number": 0, "gpus": {"g-0": [5]}, "port": 9000}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d, r: d["problem"].update(calibration={"profile": "table.csv"}), "measured replicas"),
        (lambda d, r: d["problem"].update(model={}), "measured replicas"),
        (lambda d, r: r.update(count=99), "find no room"),
        (lambda d, r: d["problem"]["model"]["layers"][0].update(times=10**7), "its model: .* 10,000,000"),
        (lambda d, r: r["precision"].update(weights="fp7"), "unknown precision `fp7`"),
        (lambda d, r: r["stages"][0].update(layers=[0, 99]), "layers 0 to 99 of 32"),
        (lambda d, r: r["stages"][0].update(node_class="g"), "no nodes `g`"),
        (lambda d, r: r["stages"][0].update(nodes=["h-9"]), "no node `h-9`"),
        (lambda d, r: r.update(memory=[]), "memory of a stage"),
        (lambda d, r: d["routing"][0].update(replica="r7"), "`r7`, which is no group"),
        (lambda d, r: d["routing"][0].update(bucket=3), "a bucket that the workload has not"),
        (lambda d, r: d.update(experts=EXPERTS), "map of experts"),
        (lambda d, r: d.update(seats=[SEAT]), "a stage has fewer than 1 GPUs"),
    ],
)
def test_what_a_plan_leaves_open_is_told(change, said):
    for pair_ in ((edited(change), plan(group("r1", ["h-0"]))), (plan(group("r1", ["h-0"])), edited(change))):
        with pytest.raises(InputError, match=said):
            moved(*pair_)


@pytest.mark.parametrize(("ranks", "open_"), [([2] * 32, 0), ([2] * 31 + [1], 1), ([2] * 31, 1)])
def test_a_map_has_every_layer_with_experts_on_every_rank(ranks, open_):
    map_ = [[[0]] * many for many in ranks]
    group_ = SimpleNamespace(id="r1", ep=2)
    of = SimpleNamespace(replica="r1", placement="map", map=map_)
    edited_ = SimpleNamespace(experts=SimpleNamespace(replicas=[of]))

    assert len(list(refused._experts(edited_, group_, catalog.load("mixtral-8x7b")))) == open_


@st.composite
def plans(draw):
    """Up to three groups on one or two of three nodes, no node overfull."""
    free, groups = dict.fromkeys(("h-0", "h-1", "h-2"), 8), []
    for i in range(draw(st.integers(1, 3))):
        tp, node = draw(st.sampled_from([1, 2, 4, 8])), draw(st.sampled_from(sorted(free)))
        if (most := free[node] // tp) == 0:
            continue
        count = draw(st.integers(1, most))
        free[node] -= count * tp
        groups.append(group(f"r{i}", [node], count, tp))
    return plan(*groups)


@settings(max_examples=40)
@given(plans(), plans())
def test_bytes_are_conserved_and_every_server_is_counted_once(before, after):
    found = moved(before, after)
    needed = sum(r.count * ((WHOLE - NORMS) + r.tp * NORMS) for r in after.replicas)
    counts = [sum(r.count for r in p.replicas) for p in (before, after)]
    s = found.servers

    assert found.held_bytes + found.taken.total == pytest.approx(needed)
    assert sum(row.taken.total for row in found.rows) == pytest.approx(found.taken.total)
    assert [s.kept + s.restarted + s.stopped, s.kept + s.restarted + s.started] == counts
    assert found.taken.storage == 0  # somebody has everything
    assert found.slowest.seconds <= found.taken.total / 50e9 + 1e-12
    assert found.reloaded.seconds >= found.slowest.seconds
    assert 0 <= found.serving.share <= 1 + 1e-9


def test_a_port_that_is_none_is_told():
    def change(data, replica):
        replica["launch"] = {"argv": ["vllm", "serve", "m", "--port", "1e999"]}

    with pytest.raises(InputError, match="`1e999` is no port"):
        moved(edited(change), edited(change))

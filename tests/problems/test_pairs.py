"""Pairs: bands of transfers, NICs that are never full, groups with the same partners, bytes of stages."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_configs.reading import from_gpus, read_cluster
from planner.candidates.candidate import Candidate, Design
from planner.candidates.pairing import NO_EDGES, Edges, Pairing
from planner.cost.transfer import START_S, Overlap, inside_bytes_per_s, nic_bytes_per_s
from planner.designs.shape import Stage
from planner.inputs.workload import Bucket, Workload
from planner.problems.pairs import (
    HANDOFFS,
    SHARES,
    SPARE,
    Traffic,
    banded,
    fast,
    groups_of,
    merged,
    pairs_of,
    rows,
    sent_between,
)
from solvers.fleet.types import Transfer

TWO = from_gpus("4xh100,4xa100")
H, L = TWO.classes
NODES = {n.id: n for n in TWO.classes}
GB = 1e9


def side(name: str, plays: str, at: str = H.id, **given: object) -> Candidate:
    """A candidate of one bucket, a request/s of which fills it, whose cache takes 10 ms over its NIC."""
    known = {"id": name, "role": plays, "node_class": at, "engine": "vllm", "design": Design(), "gpus": 1}
    own = {"use": {"busy": {"0": 1.0}}, "watts": 500.0, "handoff_s": {"0": 0.01}}
    return Candidate(**{**known, **own, **given})


def traffic(ttft_s: float = 1.0, gb: float = 1.0) -> Traffic:
    return Traffic({"0": 1.0}, {"0": gb * GB}, {"0": 100}, ttft_s)


def grouped(*sides: Candidate, to: Traffic = traffic(), of: str = "plan", edges: Edges = NO_EDGES):  # noqa: B008
    return groups_of(sides, NODES, to, of, edges)


def paired(p, d, to, of="plan", quick=(), pairing=None, timed=False, edges=NO_EDGES):
    """Pairs of two sides with their NICs and links; `quick`: groups whose ports are never full, or all."""
    groups, _ = grouped(p, d, to=to, of=of, edges=edges)
    names = {g.name for own in groups.values() for g in own} if quick == "all" else set(quick)
    found = pairs_of(groups, TWO, to, (names, names), of, pairing, timed)
    return found.pairs, found.nic, found.links


def test_traffic_is_the_workloads():
    load = Workload(buckets=[Bucket(isl=10, osl=5, share=3), Bucket(isl=20, osl=7)], rate_rps=8)
    found = Traffic.of(load, [100.0, 200.0], 0.5)

    assert found.share == {"0": 0.75, "1": 0.25}
    assert found.kv_bytes == {"0": 100.0, "1": 200.0}
    assert (found.osl, found.ttft_s, found.rate_rps) == ({"0": 5, "1": 7}, 0.5, 8)


@given(st.floats(0, 3), st.floats(0.01, 10))
def test_a_band_is_never_on_the_wrong_side_of_what_it_stands_for(seconds, promise):
    up, down = (banded(seconds, traffic(promise), way) for way in (True, False))

    assert down <= seconds <= up
    assert up in [h * promise for h in HANDOFFS] or up == seconds > HANDOFFS[-1] * promise
    assert down in [0.0] + [h * promise for h in HANDOFFS]


def test_without_a_promise_bands_are_shares_of_a_second():
    endless = traffic(float("inf"))

    assert (banded(0.04, endless, True), banded(0.04, endless, False)) == (0.05, 0.03)


def test_the_bound_has_rows_of_its_own_where_there_are_any():
    both = side("p", "prefill", least={"busy": {"0": 0.5}})

    assert rows(both, "plan") == {"busy": {"0": 1.0}}
    assert rows(both, "bound") == {"busy": {"0": 0.5}}
    assert rows(side("p", "prefill"), "bound") == {"busy": {"0": 1.0}}


@pytest.mark.parametrize(
    ("other", "one"),
    [
        ({}, True),
        ({"watts": 1.0, "gpus": 2}, True),  # what it costs has no say in whom it pairs with
        ({"handoff_s": {"0": 0.0101}}, False),  # 10 ms is a band's end; just above is the next
        ({"handoff_s": {"0": 0.0099}}, True),
        ({"engine": "sglang"}, False),
        ({"pairs_as": "k"}, False),
        ({"node_class": L.id}, False),
        ({"late_s": 0.2}, False),
        ({"copies": {"0": 2.0}}, False),
        ({"overlap": {"0": Overlap(0.5, 0.1)}}, False),
        ({"role": "decode"}, False),
    ],
)
def test_one_group_is_what_pairs_alike(other, one):
    _, member_of = grouped(side("a", "prefill"), side("b", "prefill", **other))

    assert (member_of["a"] == member_of["b"]) == one


def test_a_mixed_replica_is_in_no_group():
    groups, member_of = grouped(side("m", "mixed", handoff_s={}), side("d", "decode"))

    assert list(member_of) == ["d"]
    assert (len(groups["prefill"]), len(groups["decode"])) == (0, 1)


def test_a_group_is_as_late_as_its_edge_and_for_the_bound_as_the_edge_before():
    edges = Edges((0.25, 0.5, 1.0), (0.1, 0.2))
    p, d = side("p", "prefill", late_s=0.5), side("d", "decode", late_s=0.1, emitted=2.0)

    late = {
        of: [own[0].late_s for own in grouped(p, d, of=of, edges=edges)[0].values()]
        for of in ("plan", "bound")
    }
    assert late == {"plan": [0.5, 2 * 0.1], "bound": [0.25, 0.0]}  # a step gives two tokens: twice the time


def test_what_hides_a_transfer_is_rounded_down_for_plans_and_up_for_bounds():
    """Of a promise of a second 12 ms lie between the bands of 10 and 20."""
    p = side("p", "prefill", overlap={"0": Overlap(0.5, 0.012)})

    hidden = [grouped(p, of=of)[0]["prefill"][0].overlap["0"].hidden_s for of in ("plan", "bound")]
    assert hidden == [0.01, 0.02]


@pytest.mark.parametrize(
    ("factor", "quick"), [(0.99 * SPARE, True), (1.01 * SPARE, False)]
)  # of the NIC of one GPU, at a request/s
def test_a_nic_that_can_be_half_full_is_a_limit(factor, quick):
    heavy = traffic(gb=factor * H.nic_bytes_per_s / GB)
    p = side("p", "prefill")
    _, member_of = grouped(p, to=heavy)

    assert fast([p], member_of, NODES, heavy, nic_bytes_per_s) == ({member_of["p"]} if quick else set())


@pytest.mark.parametrize("change", [{"copies": {"0": 2.0}}, {"use": {"busy": {"0": 0.5}}}])
def test_copies_and_a_higher_rate_fill_a_nic_sooner(change):
    heavy = traffic(gb=0.6 * SPARE * H.nic_bytes_per_s / GB)
    d, plain = side("d", "decode", **change), side("e", "decode")
    _, member_of = grouped(d, plain, to=heavy)

    assert fast([plain], member_of, NODES, heavy, nic_bytes_per_s) >= {member_of["e"]}
    assert member_of["d"] not in fast([d], member_of, NODES, heavy, nic_bytes_per_s)


def test_a_replica_of_more_gpus_has_more_nics():
    heavy = traffic(gb=1.5 * SPARE * H.nic_bytes_per_s / GB)
    wide = side("d", "decode", gpus=2, design=Design(tp=2))
    _, member_of = grouped(wide, to=heavy)

    assert fast([wide], member_of, NODES, heavy, nic_bytes_per_s) == {member_of["d"]}


def moves(*keys: tuple[str, str], on_nic: bool = False) -> dict:
    return {(p, d, "0"): Transfer(1.0, on_nic=on_nic) for p, d in keys}


def test_groups_with_the_same_partners_become_one():
    pairs, into = merged(moves(("p", "d"), ("q", "d"), ("p", "e"), ("q", "e")))

    assert list(pairs) == [("p", "d", "0")]
    assert into == {"p": "p", "q": "p", "d": "d", "e": "d"}


def test_groups_with_other_partners_stay():
    pairs, into = merged(moves(("p", "d"), ("q", "d"), ("q", "e")))

    assert len(pairs) == 3
    assert into == {name: name for name in "pqde"}


def test_groups_whose_nics_are_limits_stay():
    assert len(merged(moves(("p", "d"), ("q", "d"), on_nic=True))[0]) == 2
    assert len(merged(moves(("p", "d"), ("q", "d")))[0]) == 1


@given(st.sets(st.tuples(st.sampled_from("pqr"), st.sampled_from("def")), min_size=1))
def test_merging_keeps_who_may_send_to_whom(keys):
    pairs, into = merged(moves(*keys))

    assert {(into[p], into[d], "0") for p, d in keys} == set(pairs)
    for p in {p for p, _ in keys}:
        for d in {d for _, d in keys}:  # a path of the merged ones is a path of the real ones
            assert ((into[p], into[d], "0") in pairs) == ((p, d) in keys)


@pytest.mark.parametrize("share", [*SHARES, None])
def test_a_plans_pair_claims_what_it_bears(share):
    """Alone 10 ms, and of the promise so much is left that NICs may be busy just a share u: 10 / (1 - u) ms
    and the start of the transfer; a bit less, and it is the next smaller share; none at all: no pair."""
    alone_s = 0.01
    most = alone_s / (1 - share) * 1.0001 if share else alone_s
    p, d = side("p", "prefill", late_s=1.0 - most - START_S), side("d", "decode", L.id)
    pairs, *_ = paired(p, d, traffic())

    assert [move.bytes for move in pairs.values()] == ([pytest.approx(GB / share)] if share else [])


def test_the_bound_lets_a_pair_have_the_way_to_itself():
    """Its columns count the edge before: of a promise of a second 10.01 or 9.99 ms are left for 10."""
    p, d = side("p", "prefill", late_s=1.0), side("d", "decode", L.id)
    edges = [Edges((1.0 - left - START_S, 1.0), ()) for left in (0.01001, 0.00999)]
    found = [paired(p, d, traffic(), "bound", edges=own)[0] for own in edges]

    assert [len(pairs) for pairs in found] == [1, 0]
    assert [move.bytes for move in found[0].values()] == [GB]


def test_ways_that_are_never_full_claim_their_bytes_alone():
    p, d = side("p", "prefill", late_s=0.97), side("d", "decode", L.id)
    (free,) = paired(p, d, traffic(), quick="all")[0].values()
    (limited,) = paired(p, d, traffic())[0].values()

    assert (free.bytes, free.on_nic) == (GB, False)
    assert limited.on_nic
    assert limited.bytes > GB


def test_seconds_of_a_transfer_are_counted_where_latency_is_minimised():
    p, d = side("p", "prefill"), side("d", "decode", L.id, handoff_s={"0": 0.02})

    (move,) = paired(p, d, traffic(), timed=True)[0].values()
    assert move.latency == pytest.approx(START_S + 0.02)  # the slower NIC, and the start
    (hidden,) = paired(side("p", "prefill", overlap={"0": Overlap(0.25, 0.01)}), d, traffic(), timed=True)[
        0
    ].values()
    assert hidden.latency == pytest.approx(START_S + 0.02 - 0.01)  # of a bound, or a plan: banded to 10 ms
    (untimed,) = paired(p, d, traffic())[0].values()
    assert untimed.latency == 0.0


def test_a_way_inside_nodes_is_a_limit_of_its_own():
    """Of pairs of one class; NICs are none then."""
    p, d = side("p", "prefill"), side("d", "decode")
    groups, _ = grouped(p, d)
    found = pairs_of(groups, TWO, traffic(), (set(), set()), "plan", None, False)
    (move,) = found.pairs.values()

    assert (move.on_nic, move.inside) == (False, True)
    assert set(found.inside.values()) == {H.intra_bytes_per_s}
    assert not found.nic
    (free,) = paired(p, d, traffic(), quick="all")[0].values()
    assert (free.on_nic, free.inside, free.bytes) == (False, False, GB)


def test_without_peer_to_peer_a_gpu_fills_the_way_inside_its_node_far_sooner():
    node = from_gpus("4xl40s").classes[0]
    p = side("p", "prefill", node.id)
    member_of = {p.id: "g"}

    for gb, quick in ((0.1, {"g"}), (1.0, set())):
        heavy = traffic(gb=gb)
        assert fast([p], member_of, {node.id: node}, heavy, inside_bytes_per_s) == quick
        peers = replace(node, peer_to_peer=True)
        assert fast([p], member_of, {node.id: peers}, heavy, inside_bytes_per_s) == {"g"}


def test_nics_are_those_of_the_two_classes():
    _, nic, links = paired(side("p", "prefill"), side("d", "decode", L.id), traffic())

    assert sorted(nic.values()) == sorted([H.nic_bytes_per_s, L.nic_bytes_per_s])
    assert links == {}


@pytest.mark.parametrize(
    ("engines", "keys", "joined"),
    [
        (("vllm", "vllm"), ("", ""), True),
        (("vllm", "sglang"), ("", ""), False),
        (("vllm", "vllm"), ("a", "b"), True),
        (("vllm", "vllm"), ("a", "c"), False),
        (("vllm", "vllm"), ("a", ""), True),  # no engine starts it as it comes: its engine is all there is
    ],
)
def test_who_pairs_is_what_an_engine_joins(engines, keys, joined):
    p, d = (
        side(role[0], role, at, engine=engine, pairs_as=key)
        for role, at, engine, key in zip(("prefill", "decode"), (H.id, L.id), engines, keys, strict=True)
    )

    assert bool(paired(p, d, traffic(), pairing=Pairing({}, {("a", "b")}))[0]) == joined


@pytest.mark.parametrize(("engine", "joined"), [("vllm", True), ("sglang", False)])
def test_without_keys_of_partners_the_engine_decides(engine, joined):
    d = side("d", "decode", L.id, engine=engine, pairs_as="b")

    assert bool(paired(side("p", "prefill", pairs_as="a"), d, traffic())[0]) == joined


def test_one_end_that_may_be_full_is_enough_of_a_limit():
    ends = side("p", "prefill"), side("d", "decode", L.id)
    groups, _ = grouped(*ends)

    for role in ("prefill", "decode"):
        (move,) = paired(*ends, traffic(), quick=[g.name for g in groups[role]])[0].values()
        assert move.on_nic


@pytest.mark.parametrize("wider", ["prefill", "decode"])
def test_buckets_that_only_one_side_serves_are_no_pair(wider):
    to = Traffic({"0": 0.5, "1": 0.5}, {"0": GB, "1": GB}, {"0": 10, "1": 10}, 1.0)
    both = {"use": {"busy": {"0": 1.0, "1": 1.0}}, "handoff_s": {"0": 0.01, "1": 0.01}}
    p, d = (
        side(role, role, at, **(both if role == wider else {}))
        for role, at in (("prefill", H.id), ("decode", L.id))
    )

    assert [w for *_, w in paired(p, d, to)[0]] == ["0"]


def test_a_pair_claims_every_copy_that_decode_keeps():
    d = side("d", "decode", L.id, copies={"0": 3.0})
    (move,) = paired(side("p", "prefill"), d, traffic(), "bound")[0].values()

    assert move.bytes == 3 * GB


def test_bytes_between_stages_cross_their_declared_link_once_each_time(tmp_path):
    path = tmp_path / "linked.yaml"
    path.write_text(
        "name: linked\nnodes:\n"
        "  - {name: h, device: h100-sxm, gpus_per_node: 2, zone: east}\n"
        "  - {name: l, device: l40s, nic: roce, gpus_per_node: 2, zone: west}\n"
        "links:\n  - {between: [east, west], gb_per_s: 8}\n"
    )
    cluster = read_cluster(path)
    stages = [Stage(c, 1, (i, i + 1)) for i, c in enumerate(("h", "l", "l", "h", "l"))]

    def sent(part):
        return sent_between(
            side("c", "mixed", design=Design(stages=tuple(part)), hop_bytes={"0": 5.0, "1": 7.0}), cluster
        )

    assert sent(stages[:2]) == {"east -> west": {"0": 5.0, "1": 7.0}}
    assert sent(stages[1:3]) == {}
    assert sent(stages) == {"east -> west": {"0": 10.0, "1": 14.0}, "west -> east": {"0": 5.0, "1": 7.0}}

"""Chains replayed: arithmetic by hand, shares, and what must hold of every replay, on random small nets."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.replays.chain_net import Chain, Hop, Leg, Net, Node, Result
from benchmarks.replays.chains import replay
from planner.errors import InputError
from planner.simulate.requests import Requests

FRONT = Node("front", 10, decode=[(1, 1e-3), (11, 2e-3)], prompt=[(0, 0.0), (200, 20e-3)], pass_s=5e-3)
BACK = replace(FRONT, name="back", layers=20)
"""By hand: a pass of one token takes 15 ms on the front and 25 ms on the back, of a prompt of 100 tokens
105 ms and 205 ms; each token more in a pass 1 ms and 2 ms."""
WIRE = Leg(0, bytes_per_s=1e6, latency_s=3e-3)
WAY = Chain(1.0, [Hop(0, (0, 10)), Hop(1, (0, 20))], [WIRE], away_s=1e-3, back_s=2e-3)
PAIR = Net([FRONT, BACK], ["wire"], [WAY], token_bytes=1000.0)
"""A token takes the wire for 1 ms, a prompt of 100 for 100 ms, and both arrive 3 ms later."""
ALONE = Net([FRONT], [], [Chain(1.0, [Hop(0, (0, 10))], [])], 0.0)


def requests(*lengths: tuple[int, int]) -> Requests:
    """Rows (isl, osl)."""
    isl, osl = np.array(lengths, dtype=float).T
    return Requests(np.zeros(len(isl)), isl, osl)


def run(net: Net, load: Requests, in_flight: float, *window: tuple[float, float]) -> Result:
    return replay(net, load, load.isl + load.osl / 2, in_flight, *window)


def test_one_request_on_two_nodes_takes_what_it_takes_by_hand() -> None:
    result = run(PAIR, requests((100, 11)), 1)

    assert result.ttft_s == pytest.approx(0.001 + 0.105 + 0.100 + 0.003 + 0.205 + 0.002)
    assert result.tpot_s == pytest.approx(0.001 + 0.015 + 0.001 + 0.003 + 0.025 + 0.002)
    assert result.end_s[0] == pytest.approx(0.416 + 10 * 0.047)
    assert result.decode_tok_per_s == pytest.approx(10 / 0.886)
    assert result.busy["front"] == pytest.approx((0.105 + 10 * 0.015) / 0.886)
    assert result.wire_use["wire"] == pytest.approx((0.100 + 10 * 0.001) / 0.886)


def test_tokens_wait_for_the_prompts_of_their_pass() -> None:
    """By hand: prompts of 100 and 50 tokens fit one pass of 5 + 100 + 50 ms. In 120 tokens only the first
    does; its next token then travels with the second, in a pass of 5 + 50 + 10 ms."""
    both = run(ALONE, requests((100, 3), (50, 3)), 2)
    one = run(replace(ALONE, nodes=[replace(FRONT, prompt_tokens=120)]), requests((100, 3), (50, 3)), 2)

    assert both.first_s == pytest.approx([0.155, 0.155])
    assert both.end_s == pytest.approx([0.155 + 2 * 0.016] * 2)  # two tokens a pass: 1.1 ms a layer
    assert one.first_s == pytest.approx([0.105, 0.170])
    assert one.end_s == pytest.approx([0.170 + 0.016, 0.170 + 0.016 + 0.015])


def test_a_hop_of_half_the_layers_takes_half_the_time_and_shares_only_those() -> None:
    """By hand: layers [0, 5) have one token, [5, 10) two."""
    ways = [Chain(0.5, [Hop(0, (0, 10))], []), Chain(0.5, [Hop(0, (5, 10))], [])]
    result = run(replace(ALONE, chains=ways), requests((100, 2), (100, 2)), 2)

    assert result.first_s == pytest.approx([0.155, 0.155])
    assert result.end_s == pytest.approx([0.155 + 0.005 + 5 * 1e-3 + 5 * 1.1e-3] * 2)
    assert result.kv_peak_tokens["front"] == pytest.approx(101 + 101 / 2)


def test_a_wire_takes_messages_in_turn_or_a_pass_as_one() -> None:
    """By hand: two prompts leave the front together; the second's message is through 50 ms after the first's,
    and then waits for the back's pass over the first."""
    load = requests((100, 1), (50, 1))
    alone, joined = run(PAIR, load, 2), run(replace(PAIR, together=True), load, 2)

    left_s = 0.001 + 0.155
    assert alone.first_s == pytest.approx(
        [left_s + 0.103 + 0.205 + 0.002, left_s + 0.103 + 0.205 + 0.105 + 0.002]
    )
    assert joined.first_s == pytest.approx([left_s + 0.153 + 0.305 + 0.002] * 2)


def test_two_equal_chains_share_evenly() -> None:
    nodes = [replace(FRONT, name=name) for name in "ab"]
    ways = [Chain(0.5, [Hop(i, (0, 10))], []) for i in range(2)]
    result = run(Net(nodes, [], ways, 0.0), requests(*[(100, 20)] * 40), 8)

    assert result.taken == [20, 20]
    assert result.busy["a"] == pytest.approx(result.busy["b"])


@pytest.mark.parametrize("shares", [(0.75, 0.25), (0.5, 0.3, 0.2), (0.9, 0.06, 0.04)])
def test_chains_with_room_take_their_shares_at_every_moment(shares: tuple[float, ...]) -> None:
    """After any number of requests each chain is less than one from its share."""
    ways = [Chain(share, [Hop(0, (0, 10))], []) for share in shares]
    for count in range(1, 60):
        result = run(replace(ALONE, chains=ways), requests(*[(10, 1)] * count), 4)
        assert sum(result.taken) == count
        assert np.abs(np.array(result.taken) - count * np.array(shares)).max() < 1


def test_requests_pass_by_a_chain_that_is_full() -> None:
    nodes = [replace(FRONT, name="a", places=1), replace(FRONT, name="b")]
    ways = [Chain(0.5, [Hop(i, (0, 10))], []) for i in range(2)]
    result = run(Net(nodes, [], ways, 0.0), requests(*[(100, 50)] * 40), 8)

    assert result.peak == {"a": 1, "b": 7}
    assert result.in_flight > 6
    assert result.taken[0] < result.taken[1]


def test_copies_share_the_requests_of_their_node() -> None:
    twice = replace(ALONE, nodes=[replace(FRONT, copies=2, places=2)])
    result = run(twice, requests(*[(100, 20)] * 12), 4)

    assert result.peak == {"front": 2}
    assert result.decode_tok_per_s == pytest.approx(
        2 * run(ALONE, requests(*[(100, 20)] * 6), 2).decode_tok_per_s
    )


def test_a_request_larger_than_the_cache_runs_alone() -> None:
    result = run(replace(ALONE, nodes=[replace(FRONT, kv_tokens=50)]), requests(*[(100, 4)] * 3), 3)

    assert result.peak == {"front": 1}
    assert result.made.tolist() == [4, 4, 4]


def test_the_warm_up_is_cut() -> None:
    """By hand: one at a time, 105 ms and two tokens of 15 ms, again and again: 10 rounds in 1.35 s."""
    load = requests(*[(100, 3)] * 40)
    whole, cut = run(ALONE, load, 1), run(ALONE, load, 1, (1.35, 2.7))

    assert cut.span_s == pytest.approx(1.35)
    assert cut.decode_tok_per_s == pytest.approx(20 / 1.35, rel=0.05) == whole.decode_tok_per_s
    assert np.isfinite(cut.end_s).sum() == pytest.approx(20, abs=1)
    with pytest.raises(InputError, match="before the warm-up"):
        run(ALONE, load, 1, (100.0, 200.0))


def test_the_next_request_enters_after_the_pause() -> None:
    """By hand: 105 ms and two tokens of 15 ms, then 100 ms of nothing."""
    result = run(replace(ALONE, pause_s=0.1), requests(*[(100, 3)] * 3), 1)

    assert result.entry_s == pytest.approx([0.0, 0.235, 0.470])
    assert result.end_s[-1] == pytest.approx(0.605) == result.span_s


def test_shares_that_do_not_add_up_and_legs_that_miss_are_refused() -> None:
    with pytest.raises(InputError, match=r"add up to 0\.5"):
        replace(PAIR, chains=[replace(WAY, share=0.5)])
    with pytest.raises(InputError, match="one leg between two hops"):
        replace(PAIR, chains=[replace(WAY, legs=[])])
    with pytest.raises(InputError, match="one figure a request"):
        replay(PAIR, requests((1, 1)), np.ones(2), 1)


@st.composite
def nets(draw: st.DrawFn) -> Net:
    """One to three stages of one or two nodes each, all ways through them, two wires for all."""
    stages, nodes = [], list[Node]()
    for _ in range(draw(st.integers(1, 3))):
        stages.append([len(nodes) + i for i in range(draw(st.integers(1, 2)))])
        for i in stages[-1]:
            rules = {
                "places": draw(st.integers(1, 4)),
                "kv_tokens": draw(st.sampled_from([150.0, 400.0, 1e6])),
                "prompt_tokens": draw(st.sampled_from([1, 120, 2048])),
                "copies": draw(st.integers(1, 2)),
            }
            nodes.append(replace(FRONT, name=f"n{i}", **rules))
    legs = [Leg(i, draw(st.sampled_from([1e4, 1e6])), draw(st.sampled_from([0.0, 0.01]))) for i in range(2)]
    ways: list[list[int]] = [[]]
    for stage in stages:
        ways = [[*way, node] for way in ways for node in stage]
    weights = [draw(st.integers(1, 5)) for _ in ways]
    chains = [
        Chain(
            w / sum(weights),
            [Hop(node, (0, 10)) for node in way],
            [legs[at % 2] for at in range(len(way) - 1)],
            back_s=0.001,
        )
        for w, way in zip(weights, ways, strict=True)
    ]
    return Net(nodes, ["even", "odd"], chains, 100.0, draw(st.booleans()))


@settings(max_examples=60)
@given(
    nets(),
    st.lists(st.tuples(st.integers(1, 200), st.integers(1, 12)), min_size=1, max_size=25),
    st.integers(1, 9),
)
def test_every_request_gets_all_its_tokens_and_nothing_is_overfilled(
    net: Net, lengths: list[tuple[int, int]], in_flight: int
) -> None:
    load = requests(*lengths)
    result = run(net, load, in_flight)
    held = load.isl + load.osl / 2

    assert result.made.tolist() == load.osl.tolist()
    assert sum(result.taken) == len(load)
    assert (np.diff(result.entry_s) >= 0).all()
    stages = min(len(chain.hops) for chain in net.chains)
    assert (result.first_s - result.entry_s >= stages * (0.005 + load.isl * 1e-3) - 1e-9).all()
    assert (result.end_s - result.first_s >= (load.osl - 1) * stages * 0.015 - 1e-9).all()
    for node in net.nodes:
        assert result.peak[node.name] <= node.places
        assert result.kv_peak_tokens[node.name] <= max(node.kv_tokens, held.max()) + 1e-6
        assert result.busy[node.name] <= 1 + 1e-9
    assert all(use <= 1 + 1e-9 for use in result.wire_use.values())
    assert result.in_flight <= in_flight + 1e-9
    assert result.in_flight * result.span_s == pytest.approx(float((result.end_s - result.entry_s).sum()))


@settings(max_examples=30)
@given(nets(), st.floats(0.2, 3.0), st.floats(0.2, 3.0))
def test_no_window_shows_a_node_or_a_wire_in_use_for_longer_than_it_is(
    net: Net, from_s: float, for_s: float
) -> None:
    result = run(net, requests(*[(150, 30)] * 60), 6, (from_s, from_s + for_s))

    assert result.span_s == pytest.approx(for_s)
    assert all(-1e-9 <= use <= 1 + 1e-9 for use in [*result.busy.values(), *result.wire_use.values()])


def test_a_narrow_wire_is_full_and_sets_the_pace() -> None:
    """By hand: 10 + 9 tokens of 1000 bytes a request on 20 kB/s."""
    narrow = replace(PAIR, chains=[replace(WAY, legs=[Leg(0, 20e3)])])
    result = run(narrow, requests(*[(10, 10)] * 300), 10, (20.0, 220.0))

    assert result.wire_use["wire"] == pytest.approx(1.0, abs=0.01)
    assert result.decode_tok_per_s == pytest.approx(20 * 9 / 19, rel=0.05)

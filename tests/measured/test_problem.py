"""A table's rows on a cluster, as numbers: which count, what they draw, and what passes between them."""

from __future__ import annotations

import pytest

from cluster_configs.schema import Link
from planner.errors import Infeasible, InputError
from tests.measured.tables import H100, L4, PROMPT, asked, row, stated


def columns(s):
    """By the design's name and class."""
    return {(c.label, c.node_class): s.problem.columns[c.id] for c in s.candidates}


def test_a_request_fills_its_part_of_what_a_replica_sustains():
    own = columns(stated(asked(H100, L4), row("a", "h100-sxm", 2, 8.0), row("b", "NVIDIA L4", 1, 0.5)))

    assert own["a", "h"].use["busy"] == {"0": pytest.approx(1 / 8)}
    assert own["b", "l"].use["busy"] == {"0": pytest.approx(2.0)}


def test_rows_of_what_is_not_there_are_passed_over_with_the_reason():
    s = stated(asked(L4), row("a", "l4", 1, 1.0), row("b", "t4", 1, 1.0), row("c", "l4", 5, 1.0))
    (note,) = s.warnings

    assert [r.design for r in s.rows] == ["a"]
    assert note.code == "profile_rows"
    assert "`b`: the cluster has no t4; `c`: takes 5 GPUs, the largest class of l4 has 4" in note.message
    assert not stated(asked(L4), row("a", "l4", 1, 1.0)).warnings


def test_where_no_row_counts_the_first_is_named_with_its_line():
    with pytest.raises(InputError) as caught:
        stated(asked(L4), row("b", "t4", 1, 1.0), row("c", "l4", 5, 1.0))

    assert caught.value.message == "design `b`: the cluster has no t4 (and 1 more designs likewise)"
    assert (str(caught.value.where), caught.value.hint) == ("t.csv:2", "the cluster has 4 l4")


def test_a_capped_node_draws_no_more_than_its_cap():
    """By hand: 4,000 W for eight GPUs are 1,000 W for two; what is named below stays."""
    capped = H100.model_copy(update={"power_cap_watts": 4000.0})

    assert columns(stated(asked(capped), row("a", "h100-sxm", 2, 8.0)))["a", "h"].watts == 1000.0
    assert columns(stated(asked(capped), row("a", "h100-sxm", 2, 8.0, watts=900.0)))["a", "h"].watts == 900.0
    free = columns(stated(asked(H100), row("a", "h100-sxm", 2, 8.0)))["a", "h"].watts
    assert free == 2 * 700.0
    with pytest.raises(InputError, match="draws 1200 W, the power cap of `h` leaves it 1000 W"):
        stated(asked(capped), row("a", "h100-sxm", 2, 8.0, watts=1200.0))


@pytest.mark.parametrize(("gpus", "tp", "pp"), [(1, 1, 1), (3, 3, 1), (8, 8, 1), (16, 8, 2), (12, 6, 2)])
def test_gpus_are_read_as_tensor_parallel_as_far_as_a_node_reaches(gpus, tp, pp):
    (c,) = stated(asked(H100), row("a", "h100-sxm", gpus, 1.0)).candidates

    assert (c.design.tp, c.design.pp, c.gpus) == (tp, pp, gpus)


def test_watts_are_named_where_a_row_names_them():
    s = stated(asked(H100), row("a", "h100-sxm", 1, 1.0, watts=500.0), row("b", "h100-sxm", 2, 1.0))

    assert s.watts_named("a")
    assert not s.watts_named("b")


def pair(links=(), there=L4, rate=40.0):
    wanted = asked(H100, there, links=links)
    return stated(wanted, row("p", "h100-sxm", 2, rate, "prefill"), row("d", "l4", 1, rate, "decode")).problem


def test_a_pair_moves_a_prompts_cache_over_both_nics():
    """128 KiB a token: 40 prompts of 134 MB are more than an L4's 1 GB/s, not more than two H100s' 100."""
    problem = pair()
    ((p, d, w),) = problem.pairs
    (move,) = problem.pairs.values()

    assert (w, move.bytes, move.latency, move.links, move.on_nic) == ("0", PROMPT, 0.0, (), True)
    assert problem.nic == {p: 50e9, d: 1e9}
    assert {c.group for c in problem.columns.values()} == {p, d}
    assert not next(iter(pair(rate=7.0).pairs.values())).on_nic  # 0.94 GB/s


def test_zones_are_joined_by_their_link_alone():
    away = L4.model_copy(update={"zone": "z"})
    link = Link(between=["z", "default"], gb_per_s=3.0)
    with pytest.raises(Infeasible, match="no design of the --profile table serves isl 1024 osl 256"):
        pair((), away)

    home = H100.model_copy(update={"zone": "default"})
    wanted = asked(home, away, links=(link,))
    s = stated(wanted, row("p", "h100-sxm", 2, 4.0, "prefill"), row("d", "l4", 1, 4.0, "decode")).problem
    (move,) = s.pairs.values()
    assert s.links == {move.links[0]: 3e9}


def test_slow_replicas_of_a_class_share_a_group_and_fast_ones_have_their_own():
    rows = [row("p", "h100-sxm", 1, 4.0, "prefill"), row("q", "h100-sxm", 2, 4.0, "prefill")]
    s = stated(asked(H100, L4), *rows, row("d", "l4", 1, 10.0, "decode"), row("e", "l4", 2, 10.0, "decode"))
    group = {c.label: s.problem.columns[c.id].group for c in s.candidates}

    assert group["p"] == group["q"]
    assert (group["d"], group["e"]) == ("decode d on l", "decode l")  # 1.34 GB/s over one NIC, over two

"""Parts of the verifier by themselves: figures by hand, tables by brute force, what a plan leaves out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_configs.names import NameRun, NodeNames
from model_zoo import catalog
from planner.check import chain_nodes, chains, chances, experts, kv, measured, packing, rules, survive
from planner.check.case import Case, Measured, open_case, rests
from planner.check.violation import Violation, at_most, same
from planner.inputs.profile import ProfileRow
from planner.plans.schema import Band, Draft, ExpertMap, Loss, Plan, Route, Standing, Survives
from tests.check.chain_plans import three, twelve
from tests.check.plans import dense, golden, moe


def opened(plan: Plan) -> Case:
    case = open_case(plan)
    assert isinstance(case, Case)
    return case


@given(a=st.floats(-1e9, 1e9), b=st.floats(-1e9, 1e9), t=st.sampled_from([1e-6, 1e-3, 0.02]))
def test_two_figures_are_the_same_both_ways_and_within_a_limit_at_least_one_way(a: float, b: float, t: float):
    assert same(a, b, t) == same(b, a, t) == (abs(a - b) <= t * max(abs(a), abs(b)))
    assert at_most(a, b, t) or at_most(b, a, t)


def test_what_is_no_number_is_within_no_limit() -> None:
    assert not at_most(float("nan"), 1.0)
    assert not at_most(1.0, float("nan"))


def test_a_node_is_found_where_its_name_stands_in_the_class() -> None:
    names = NodeNames((NameRun("h", 0, 12), NameRun("b-1", 3, 5), NameRun("h", 20, 22)))
    index = packing.NodeIndex(names)
    every = [f"{run.stem}-{i}" for run in names.runs for i in range(run.start, run.stop)]

    assert [index.find(name) for name in every] == list(range(16))
    assert {index.find(name) for name in ("h-12", "h-011", "h-", "b-3", "", "h-1.0", "h-" + "9" * 13)} == {
        None
    }


def test_a_narrower_row_of_the_table_goes_before_a_wider_one() -> None:
    wide = ProfileRow(2, "x", "h100-sxm", 1, "mixed", 1, 8192, 1, 1024, 9.0)
    narrow = replace(wide, isl_max=2048, max_rps=5.0)
    bucket = opened(dense()).workload.buckets

    assert [measured._alone_rps([wide, narrow], b) for b in bucket] == [5.0, 9.0]
    assert measured._alone_rps([narrow], bucket[1]) == 0.0


@pytest.mark.parametrize(("busy", "expected"), [(0.999, set()), (1.001, {"rate_above_profile"})])
def test_a_measured_group_is_as_busy_as_its_rows_say(busy: float, expected: set[str]) -> None:
    """By hand: both buckets at one rate alone, so the four replicas are busy for their requests/s over it."""
    plan = dense().model_dump(mode="json", by_alias=True)
    group = plan["replicas"][0]
    group |= {"engine": "measured", "step": {"decode_s": 0, "prefill_s": 0, "engine_s": 0}}
    del group["utilisation"]
    plan["warnings"].append({"code": "measured_profile", "message": "its rates are those of a table"})
    case = opened(Plan.model_validate(plan))
    alone = case.loads["r1"].rps / 4 / busy
    row = ProfileRow(2, "x", "h100-sxm", 1, "mixed", 1, 8192, 1, 1024, alone, watts=group["watts"])
    table = Measured(profile=(row,), designs={"r1": "x"})

    assert {v.code for v in measured.violations(replace(case, table=table))} == expected
    unlike = replace(row, gpus=2, device="l40s", watts=1.0)
    others = measured.violations(replace(case, table=Measured(profile=(unlike,), designs={"r1": "x"})))
    assert [v.code for v in others].count("not_as_measured") == 3


def test_drafters_are_the_models_own_layer_one_like_it_or_a_model() -> None:
    card, small = catalog.load("deepseek-v3"), catalog.load("llama-3.1-8b")
    group = moe().replicas[0]

    def of(kind: Any, **more: Any) -> Any:
        draft = Draft(kind=kind, tokens=2, accepted=1.0, weights_bytes=5.0, option="", **more)
        return group.model_copy(update={"draft": draft})

    assert kv.drafter_of(card, group) == kv.drafter_of(card, of("ngram")) == (card, ())
    (own,) = kv.drafter_of(card, of("mtp"))[1]
    assert own == (card.layer(card.mtp_layer) if card.mtp_layer else card.stack[-1])
    (head,) = kv.drafter_of(card, of("eagle"))[1]
    assert (head.mixer, head.ffn) == (card.stack[-1].mixer, None)
    model, layers = kv.drafter_of(card, of("draft", model=json.loads(small.model_dump_json())))
    assert (model.name, len(layers)) == ("llama-3.1-8b", 32)
    assert kv.drafter_of(card, of("draft", model={"name": "nonsense"})) == (card, ())
    assert [kv.beside_bytes(of(kind)) for kind in ("mtp", "eagle")] == [0.0, 5.0]


def test_the_fullest_rank_of_a_map_is_no_emptier_than_stated() -> None:
    """By hand, copies of expert 0 sharing its 8: ranks of 4 + 2 and 4 + 4 tokens, 8 over a mean of 7."""
    assert experts.fullest([[0, 1], [0, 2]], [8.0, 2.0, 4.0]) == pytest.approx(8 / 7)
    plan = moe()
    assert plan.experts is not None
    entry: ExpertMap = plan.experts.replicas[0]
    for hottest, expected in ((entry.hottest, []), (0.99 * entry.hottest, ["expert_balance"])):
        changed = plan.experts.model_copy(
            update={"replicas": [entry.model_copy(update={"hottest": hottest})]}
        )
        case = opened(plan.model_copy(update={"experts": changed}))

        assert [v.code for v in experts.violations(case)] == expected


def test_four_of_five_draws_from_a_band_lie_inside_it() -> None:
    band = Band(value=100.0, low=80.0, high=125.0)

    assert chances.chance(band, 125.0) - chances.chance(band, 80.0) == pytest.approx(0.8)
    assert chances.chance(band, 100.0) == pytest.approx(0.5)
    sharp = Band(value=100.0, low=100.0, high=100.0)
    assert [chances.chance(sharp, ms) for ms in (99.0, 100.0)] == [0.0, 1.0]


def test_copies_of_an_interval_stand_side_by_side_on_each_of_its_nodes() -> None:
    plan = twelve()

    assert {r.id: chains.copies(r) for r in plan.replicas} == {"c1": 2, "c2": 2, "c3": 1}
    assert list(chains.violations(opened(plan))) == []


def test_a_chain_answers_no_sooner_than_its_hops_and_links() -> None:
    """By hand, `three`: c1 runs all of its 18 layers, c3 14 of 18, and the prompt's states cross one link."""
    case = opened(three())
    assert case.card is not None
    loads, chain = chain_nodes._Loads(case, case.card), case.plan.chains[0]
    (link,), step = case.cluster.links, {r.id: r.step for r in case.plan.replicas}
    sent_s = link.latency_s + 640 * 4096 * 2 / link.bytes_per_s

    assert loads.lone_s(chain) == pytest.approx(
        step["c1"].prefill_s + 14 / 18 * step["c3"].prefill_s + sent_s
    )
    assert 2 * link.latency_s < loads.round_s(chain) < chain.tpot_s


STANDING = [
    Standing(nodes=["h-0", "h-1"], replicas={"r1": 2, "r2": 1}),
    Standing(nodes=["h-2"], replicas={"r1": 1}),
]


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_every_loss_of_nodes_is_thought_of_once(lost: int) -> None:
    case, told = opened(dense()), Survives(nodes=lost, share=0.5, standing=STANDING, losses=[])
    counts = {r.id: r.count for r in case.plan.replicas}
    each = [kind.replicas for kind in STANDING for _ in kind.nodes]
    by_hand = [
        {r: min(n, counts[r]) for r in counts if (n := sum(node.get(r, 0) for node in gone))}
        for gone in combinations(each, lost)
    ]

    found = list(survive._every(case, told))

    assert all(loss in found for loss in by_hand)
    assert all(loss in by_hand for loss in found)
    assert survive._most(STANDING, "r1", lost) == max(
        sum(n.get("r1", 0) for n in g) for g in combinations(each, lost)
    )


def test_what_is_left_after_a_loss_is_a_plan_of_its_own() -> None:
    routing = [Route(bucket=b, replica="r2", share=1.0) for b in range(2)]
    losses = [Loss(classes={"h": 1}, lost={"r1": 4}, rps=10.0, routing=routing)]
    told = Survives(nodes=1, share=0.25, standing=[], losses=losses)
    case = opened(dense().model_copy(update={"survives": told}))

    ((loss, left),) = rests(case)

    assert loss == losses[0]
    assert {r.id: r.count for r in left.plan.replicas} == {"r2": 2}
    assert left.rps == pytest.approx(0.25 * case.rps) == left.loads["r2"].rps
    assert left.plan.survives is None
    assert list(rests(opened(dense()))) == []


def test_rules_are_asked_in_order_and_one_that_fails_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(case: Case) -> Iterator[Violation]:
        yield Violation("first", "here", "found before it fails")
        raise OverflowError("too large")

    monkeypatch.setattr(rules, "RULES", (*rules.SHAPE, rules.Rule("mine", "a rule that fails", fails)))

    assert [v.code for v in rules.check(golden())] == ["absurd_number"]
    broken = golden().model_copy(update={"routing": []})
    assert {v.code for v in rules.check(broken)} == {"shares"}

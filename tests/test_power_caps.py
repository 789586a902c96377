"""Plans under power caps: of a node, whose GPUs are limited alike, and of a rack, whose limits are chosen."""

import json
from functools import cache
from itertools import pairwise

import pytest

from cluster_configs.reading import from_document
from planner import api
from planner.check import check
from planner.check.several import check as check_several
from planner.errors import Infeasible, InputError
from planner.plans.schema import Plan
from planner.reading.documents import Document
from planner.several.plan import plan_several

ALL = 16 * 700.0
"""Watts that the GPUs of both nodes may draw."""


def cluster(feed: float | None = None, node: float | None = None):
    """Two nodes of eight H100, which draw 1,344 W together at rest."""
    entry = {"name": "h", "count": 2, "device": "h100-sxm"}
    form = {"nodes": [entry | ({"power_cap_watts": node} if node else {})]}
    if feed:
        form["power_caps_watts"] = {"default": feed}
    return from_document(Document(form, "cluster"))


@cache
def plan(feed: float | None = None, node: float | None = None, **asked) -> Plan:
    asked = {"engine": "vllm", "explain": False} | asked
    found = api.plan(cluster(feed, node), model="llama-3.1-8b", **asked)
    assert check(found) == []
    return found


def may_draw(found: Plan) -> float:
    """What GPUs in replicas may draw, and what others do at rest."""
    held = {
        r.id: (r.count * sum(s.gpus for s in r.stages), r.power_limit_watts or 700.0) for r in found.replicas
    }
    return sum(gpus * watts for gpus, watts in held.values()) + 84 * (16 - sum(g for g, _ in held.values()))


def rate(found: Plan) -> float:
    return found.predicted.rps.value


def test_a_rack_that_holds_all_its_gpus_is_planned_as_if_nothing_were_said():
    free, fed = plan(), plan(feed=ALL)

    assert [r.model_dump() for r in fed.replicas] == [r.model_dump() for r in free.replicas]
    assert fed.proof.objective == free.proof.objective
    assert "told" not in " ".join(cap.what for cap in fed.proof.space.caps)


@pytest.mark.parametrize("share", [0.9, 0.75, 0.6])
def test_gpus_of_a_rack_run_slower_rather_than_not_at_all(share):
    """Left as they come, too few of them could run: each that does takes 616 W more than at rest."""
    free, fed = plan(simple=0.0), plan(feed=share * ALL, simple=0.0)
    as_they_come = int((share * ALL - 16 * 84) / 616)

    assert may_draw(fed) <= share * ALL * (1 + 1e-9)
    assert any(r.power_limit_watts for r in fed.replicas)
    assert rate(fed) > 1.05 * rate(free) * as_they_come / 16
    assert rate(fed) <= rate(free) * 1.001
    assert fed.proof.gap <= 0.01


def test_more_power_never_serves_less():
    rates = [rate(plan(feed=share * ALL)) for share in (0.3, 0.6, 0.75, 0.9, 1.0)]

    assert all(b >= 0.985 * a for a, b in pairwise(rates))


def test_a_bound_under_a_feed_is_beaten_by_no_fleet_of_one_limit_alone():
    """Every GPU at the even share is one of the fleets that the bound is of: no node may serve more so."""
    feed = 0.75 * ALL
    alike = plan(node=feed / 2)

    assert alike.proof.objective <= plan(feed=feed).proof.bound * (1 + 1e-6)
    assert alike.proof.objective <= plan(feed=feed).proof.objective * 1.01


def test_a_nodes_cap_slows_its_gpus_evenly():
    capped, free = plan(node=8 * 490.0), plan()

    assert 0.75 < rate(capped) / rate(free) < 0.99
    assert sum(r.count * r.watts for r in capped.replicas) <= 2 * 8 * 490.0 * (1 + 1e-9)
    assert {r.power_limit_watts for r in capped.replicas} == {490.0}


def test_the_cheapest_fleet_tells_a_limit_only_where_it_must():
    fed = plan(feed=0.9 * ALL, rate=20.0, objective="gpus")

    assert may_draw(fed) <= 0.9 * ALL
    assert fed.proof.objective == plan(rate=20.0, objective="gpus").proof.objective
    assert not any(r.power_limit_watts for r in fed.replicas)


def test_of_fleets_that_cost_the_same_the_one_without_limits_is_taken():
    """One node serves this with its GPUs as they come, and with them limited, for the same dollars."""
    nodes = [{"name": "l", "count": 3, "device": "l40s", "gpus_per_node": 4, "price_usd_per_hour": 4.0}]
    cellar = from_document(Document({"nodes": nodes, "power_caps_watts": {"default": 3200}}, "cluster"))
    asked = {"model": "qwen3-30b-a3b", "engine": "sglang", "rate": 2.0, "work_limit": 2000}
    found = api.plan(cellar, **asked, explain=False)

    assert found.proof.objective == 4.0
    assert not any(r.power_limit_watts for r in found.replicas)


def test_a_rate_that_a_rack_does_not_hold_is_said_to_be_held_back_by_it():
    with pytest.raises(Infeasible, match="within what racks and zones may draw") as told:
        plan(feed=0.3 * ALL, rate=0.9 * rate(plan()))
    assert "a higher `power_caps_watts`" in told.value.hint
    assert "more nodes" not in told.value.hint


def test_caps_written_in_another_order_are_the_same_plan():
    half = {"count": 1, "device": "h100-sxm", "gpus_per_node": 2}
    nodes = [half | {"name": n, "zone": z} for n, z in (("r", "a"), ("l", "b"))]
    told = []
    for order in (["r", "b", "a"], ["a", "b", "r"]):
        form = {"nodes": nodes, "power_caps_watts": dict.fromkeys(order, 1075.0)}
        found = api.plan(
            from_document(Document(form, "cluster")), model="llama-3.1-8b", engine="vllm", work_limit=500
        )
        said = json.loads(found.model_dump_json())
        told.append({**said, "proof": {**said["proof"], "seconds": 0}})

    assert len([price for price in told[0]["prices"] if "power of" in price["limit"]]) == 3
    assert told[0] == told[1]


def test_what_holds_a_rack_back_is_its_power():
    fed = plan(feed=0.6 * ALL, explain=True)
    price = next(p for p in fed.prices if p.limit == "power of default")

    assert price.one_more == "672 W"
    assert price.worth > 0
    assert price.worth <= 1.3 * (rate(plan(feed=0.66 * ALL)) - rate(fed)) + 0.03 * rate(fed)


def test_launch_lines_say_the_limit():
    fed = plan(feed=0.6 * ALL)
    limited = next(r for r in fed.replicas if r.power_limit_watts)

    assert limited.launch is not None
    assert any(f"nvidia-smi -pl {limited.power_limit_watts:g}" in note for note in limited.launch.notes)


def test_plans_read_again_keep_the_limit_and_those_without_do_not_name_it():
    fed, free = plan(feed=0.6 * ALL), plan()
    again = Plan.model_validate(json.loads(fed.model_dump_json(by_alias=True)))

    assert check(again) == []
    assert [r.power_limit_watts for r in again.replicas] == [r.power_limit_watts for r in fed.replicas]
    assert "power_limit_watts" not in free.model_dump_json()


def test_chains_are_refused_beside_feeds():
    with pytest.raises(InputError, match="chains are planned without caps on what a rack or zone draws"):
        api.plan(cluster(9000.0), model="llama-3.1-8b", engine="chains")


def test_two_models_share_what_a_rack_may_draw():
    """Each model's plan by itself would be within the cap with both on it, too: the check adds them up."""
    asked = {"explain": False, "engine": "vllm", "gap": 0.05}
    both = plan_several(cluster(0.7 * ALL), ("llama-3.1-8b", "qwen3-8b"), **asked)
    replicas = [r for one in both.plans for r in one.replicas]
    gpus = [(r.count * sum(s.gpus for s in r.stages), r.power_limit_watts or 700.0) for r in replicas]

    assert check_several(both) == []
    assert sum(n * w for n, w in gpus) + 84 * (16 - sum(n for n, _ in gpus)) <= 0.7 * ALL * (1 + 1e-9)
    assert any(w < 700 for _, w in gpus)

    less = 0.97 * sum(n * w for n, w in gpus)  # more than either alone, with what others draw at rest
    more = [one.model_copy(update={"problem": _held(one, less)}) for one in both.plans]
    assert all(check(one) == [] for one in more)
    codes = {v.code for v in check_several(both.model_copy(update={"plans": more}))}
    assert codes == {"feed_over"}


def _held(one: Plan, watts: float):
    """The problem of a plan on a rack that holds `watts`."""
    form = {**one.problem.cluster, "power_caps_watts": {"default": watts}}
    return one.problem.model_copy(update={"cluster": form})

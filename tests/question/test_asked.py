"""What was asked for: read, defaulted, refused where it says two things at once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster
from model_zoo.catalog import find
from planner.errors import InputError
from planner.inputs.options import Options
from planner.inputs.workload import Bucket, Slo, Workload
from planner.question.asked import goal, lowered, options_of, problem_of, read, too_long

SMALL = find("llama-3.1-8b")[0]
CHAT: dict[str, Any] = {"gpus": "2xH100", "workload": "chat", "loads": {}, "options": {}}


def asked(**changed: Any):
    given = {"cluster": None, "model": "llama-3.1-8b", **CHAT, **changed}
    return read(**given)


def nodes(price: float | None = 4.0):
    """Two nodes, the second at another price, or without any."""
    forms = [
        {"name": "a", "device": "h100", "gpus_per_node": 8, "price_usd_per_hour": 20.0},
        {"name": "b", "device": "l40s", "gpus_per_node": 4, "price_usd_per_hour": 4.0},
    ]
    found = resolve(Cluster.model_validate({"nodes": forms}))
    first, second = found.classes
    return replace(found, classes=[first, replace(second, price_usd_per_hour=price)])


def load(rate: float | None = None, **slo: Any) -> Workload:
    return Workload(buckets=[Bucket(isl=100, osl=20)], rate_rps=rate, slo=Slo(**slo))


def test_what_nobody_asked_for_is_told_as_defaulted():
    bare = asked()
    said = asked(options={"precision": "fp8", "engine": "vllm", "objective": "throughput", "risk": 0.3})

    assert {"options.objective", "options.engine", "options.precision", "options.risk"} <= set(bare.defaulted)
    assert "options.kv_precision" in said.defaulted
    assert not {"options.objective", "options.engine", "options.precision", "options.risk"} & set(
        said.defaulted
    )
    assert "options.engine" in asked(options={"engine": "any"}).defaulted


def test_risk_has_no_say_in_tables_and_chains():
    assert "options.risk" not in asked(profiled=True).defaulted
    assert "options.risk" not in asked(options={"engine": "chains"}).defaulted


@pytest.mark.parametrize("both", [{"cluster": "c.yaml"}, {"gpus": None}])
def test_one_cluster_is_named_and_no_second(both):
    with pytest.raises(InputError, match="name one cluster"):
        asked(**both)


def test_a_resolved_cluster_and_a_card_are_taken_as_they_are():
    there = nodes()
    found = asked(cluster=there, gpus=None, model=SMALL, workload=load(2.0))

    assert (found.cluster, found.card, found.model_id) == (there, SMALL, "")
    assert found.workload.rate_rps == 2.0


@pytest.mark.parametrize(
    ("rate", "price", "expected"),
    [(None, 4.0, "throughput"), (1.0, 4.0, "cost"), (1.0, None, "gpus"), (None, None, "throughput")],
)
def test_the_objective_follows_from_rate_and_prices(rate, price, expected):
    assert goal(Options(), load(rate), nodes(price), False).name == expected


def test_a_table_of_ones_own_may_bring_the_prices():
    assert goal(Options(), load(1.0), nodes(None), True).name == "cost"


@pytest.mark.parametrize(
    ("options", "rate", "where", "message"),
    [
        ({"objective": "cost"}, 1.0, "--objective", "`b` has none"),
        ({"budget": {"usd_per_hour": 9.0}}, 1.0, "--budget", "`b` has none"),
        ({"objective": "gpus"}, None, "--objective", "needs a rate"),
    ],
)
def test_an_objective_that_lacks_what_it_needs_is_refused(options, rate, where, message):
    with pytest.raises(InputError, match=message) as error:
        goal(Options(**options), load(rate), nodes(None), False)
    assert error.value.where == where
    assert error.value.hint


def test_requests_longer_than_the_model_takes_are_refused_at_their_place():
    most = SMALL.max_context
    fits, over = Bucket(isl=most - 20, osl=20), Bucket(isl=most - 19, osl=20)
    too_long(SMALL, Workload(buckets=[fits]), "--isl")
    for buckets, where in (([over], "--isl"), ([fits, over], "buckets[1]")):
        with pytest.raises(InputError, match=f"at most {most:,}") as error:
            too_long(SMALL, Workload(buckets=buckets), "--isl")
        assert error.value.where == where


def test_an_option_that_is_none_names_the_nearest():
    with pytest.raises(InputError, match="`precison` is no option") as error:
        options_of({"precison": "fp8"})
    assert "`precision`" in (error.value.hint or "")


def test_options_come_as_text_or_numbers_and_none_says_nothing():
    found = options_of({"budget": "usd_per_hour=50,gpus=64", "survive": 2, "risk": None})

    assert (found.budget.usd_per_hour, found.budget.gpus, found.survive.nodes) == (50.0, 64, 2)
    assert found.risk == Options().risk


@pytest.mark.parametrize(
    ("given", "where"),
    [({"risk": 2.0}, "--risk"), ({"time_limit_s": -1}, "--time-limit"), ({"gap": -0.1}, "--gap")],
)
def test_a_value_out_of_range_names_the_option_of_the_command(given, where):
    with pytest.raises(InputError) as error:
        options_of(given)
    assert error.value.where == where


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"workload": load(None, e2e_ms=9e3)}, "in a replay at a rate"),
        ({"options": {"survive": 1}}, "beside lost nodes"),
        ({"options": {"engine": "chains"}}, "not promised for these"),
        ({"profiled": True}, "not promised for these"),
        ({"options": {"objective": "throughput"}}, "the least cost or the fewest GPUs"),
    ],
)
def test_whole_requests_are_promised_only_where_a_replay_can_tell(changed, message):
    asked(workload=load(1.0, e2e_ms=9e3))
    with pytest.raises(InputError, match=message) as error:
        asked(**{"workload": load(1.0, e2e_ms=9e3), **changed})
    assert error.value.where == "--e2e-ms"


def test_not_all_nodes_may_be_lost():
    there = nodes()
    given = {"cluster": there, "gpus": None, "workload": load(1.0)}
    asked(**given, options={"survive": 1})
    with pytest.raises(InputError, match="nothing is left after 2 lost nodes: there are 2"):
        asked(**given, options={"survive": 2})
    with pytest.raises(InputError, match="after 1 lost node: there is one") as error:
        asked(options={"survive": 1})
    assert error.value.hint == "a cluster of more nodes"


def test_precisions_to_be_tried_must_exist():
    with pytest.raises(InputError) as error:
        asked(options={"precisions": ["fp8", "fp7"]})
    assert error.value.where == "--precisions"


def test_another_precision_than_the_checkpoints_is_warned_of():
    assert lowered(Options()) == []
    both = lowered(Options(precision="fp8", kv_precision="fp8"))
    assert [w.message.split(":")[0] for w in both] == ["--precision fp8", "--kv-precision fp8"]


def test_the_problem_is_told_as_it_was_used():
    found = asked(options={"precision": "fp8"})
    told = problem_of(found)

    assert told.options["objective"] == "throughput"
    assert told.options["precision"] == "fp8"
    assert list(told.devices) == ["h100-sxm"]
    assert not {"reuse", "idle", "traffic"} & set(told.workload)
    assert told.calibration["name"] == "shipped"
    assert set(found.defaulted) <= set(told.defaulted)


def test_alike_buckets_are_one_question(tmp_path: Path):
    path = tmp_path / "w.yaml"
    path.write_text("name: w\nbuckets:\n" + "  - {isl: 100, osl: 20, share: 0.5}\n" * 2)
    assert [b.isl for b in asked(workload=path).workload.buckets] == [100]
    assert replace(asked(), offload=True).offload

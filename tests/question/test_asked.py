"""What was asked for, read and defaulted: goals, limits that cannot be, options by name, lengths."""

from dataclasses import replace

import pytest

from cluster_configs.reading import from_gpus, read_cluster
from model_zoo.catalog import load
from planner.errors import InputError
from planner.inputs.options import Budget, Options, Survive
from planner.inputs.workload import Bucket, Slo, Workload
from planner.objectives import COST, ENERGY, GPUS, LATENCY, THROUGHPUT
from planner.question.asked import goal, lowered, options_of, problem_of, read, too_long

MODEL = "llama-3.1-8b"
CARD = load(MODEL)
PRICED = from_gpus("2xl40s")
FREE = replace(PRICED, classes=tuple(replace(c, price_usd_per_hour=None) for c in PRICED.classes))
HALF = replace(FREE, classes=(replace(FREE.classes[0], id="own", price_usd_per_hour=None), *PRICED.classes))
AT_A_RATE, AS_MUCH = (
    Workload(buckets=[Bucket(isl=100, osl=10)], rate_rps=1.0),
    Workload(buckets=[Bucket(isl=100, osl=10)]),
)


def asked(loads=None, cluster=None, gpus="2xl40s", model=MODEL, workload="chat", profiled=False, **options):
    return read(cluster, model, gpus, workload, loads or {}, options, profiled)


def refused(*args, **given) -> InputError:
    with pytest.raises(InputError) as error:
        asked(*args, **given)
    return error.value


@pytest.mark.parametrize(
    ("options", "load", "cluster", "profiled", "found"),
    [
        (Options(), AS_MUCH, PRICED, False, THROUGHPUT),
        (Options(), AT_A_RATE, PRICED, False, COST),
        (Options(), AT_A_RATE, FREE, False, GPUS),
        (Options(), AT_A_RATE, HALF, False, GPUS),  # a single node without a price is enough
        (Options(), AT_A_RATE, FREE, True, COST),  # the user's own table may have the prices
        (Options(objective="throughput"), AT_A_RATE, FREE, False, THROUGHPUT),
        (Options(objective="energy"), AT_A_RATE, PRICED, False, ENERGY),
        (Options(objective="latency"), AT_A_RATE, FREE, False, LATENCY),
        (Options(objective="cost"), AT_A_RATE, FREE, True, COST),
        (Options(budget=Budget(usd_per_hour=9)), AT_A_RATE, FREE, True, COST),
        (Options(budget=Budget(usd_per_hour=9)), AS_MUCH, PRICED, False, THROUGHPUT),
    ],
)
def test_the_goal_is_the_one_asked_for_or_the_contracts(options, load, cluster, profiled, found):
    assert goal(options, load, cluster, profiled) is found


@pytest.mark.parametrize(
    ("options", "load", "cluster", "where", "words"),
    [
        (Options(objective="cost"), AT_A_RATE, HALF, "--objective", "`own` has none"),
        (Options(budget=Budget(usd_per_hour=9)), AT_A_RATE, HALF, "--budget", "`own` has none"),
        (Options(objective="cost"), AS_MUCH, PRICED, "--objective", "cost needs a rate"),
        (Options(objective="gpus"), AS_MUCH, PRICED, "--objective", "gpus needs a rate"),
        (Options(objective="latency"), AS_MUCH, PRICED, "--objective", "latency needs a rate"),
    ],
)
def test_a_goal_without_its_prices_or_its_rate_is_refused(options, load, cluster, where, words):
    with pytest.raises(InputError) as error:
        goal(options, load, cluster, False)

    assert error.value.where == where
    assert words in error.value.message
    assert error.value.hint


def test_one_cluster_is_named_and_not_two():
    for cluster, gpus in ((None, None), (FREE, "2xl40s")):
        assert "name one cluster" in refused(cluster=cluster, gpus=gpus).message
    assert asked(cluster=PRICED, gpus=None).cluster is PRICED


def test_a_cluster_file_is_read(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("name: mine\nnodes:\n  - {name: n, device: l40s, gpus_per_node: 3}\n")

    found = asked(cluster=path, gpus=None).cluster
    assert (found.classes[0].id, found.classes[0].gpus) == ("n", 3)
    assert found.classes == read_cluster(path).classes


@pytest.mark.parametrize(
    ("isl", "osl", "fits"),
    [(131_071, 1, True), (131_072, 1, False), (1, 131_071, True), (100_000, 31_073, False)],
)
def test_requests_fit_the_models_context_prompt_and_answer_together(isl, osl, fits):
    """llama-3.1-8b: 131,072 tokens in all."""
    assert CARD.max_context == 131_072
    alone = Workload(buckets=[Bucket(isl=isl, osl=osl)])
    if fits:
        too_long(CARD, alone, "--isl")
    else:
        with pytest.raises(InputError, match="131,072 tokens in all") as error:
            too_long(CARD, alone, "--isl")
        assert error.value.where == "--isl"


def test_of_several_buckets_the_one_that_is_too_long_is_named():
    mix = Workload(buckets=[Bucket(isl=10, osl=10), Bucket(isl=131_072, osl=1), Bucket(isl=10, osl=200_000)])

    with pytest.raises(InputError) as error:
        too_long(CARD, mix, "--isl")
    assert error.value.where == "buckets[1]"


def test_buckets_alike_are_one():
    twice = Workload(buckets=[Bucket(isl=10, osl=10), Bucket(isl=10, osl=10), Bucket(isl=20, osl=10)])

    found = asked(workload=twice).workload
    assert [(b.isl, b.osl) for b in found.buckets] == [(10, 10), (20, 10)]
    assert found.shares == pytest.approx([2 / 3, 1 / 3])


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ({"precision": "int4"}, "precision", "int4_wo"),
        ({"kv_precision": "E4M3"}, "kv_precision", "fp8"),
        ({"budget": "gpus=4,watts=900"}, "budget", Budget(gpus=4, watts=900)),
        ({"budget": Budget(gpus=2)}, "budget", Budget(gpus=2)),
        ({"survive": "node"}, "survive", Survive()),
        ({"survive": 2}, "survive", Survive(nodes=2)),
        ({"survive": "2:50%"}, "survive", Survive(nodes=2, share=0.5)),
        ({"precisions": "fp8, nvfp4,"}, "precisions", ("fp8", "nvfp4")),
        ({"speculation": "off"}, "speculation", None),
        ({"gap": None}, "gap", Options().gap),  # None says nothing
    ],
)
def test_options_from_what_was_typed(given, name, value):
    assert getattr(options_of(given), name) == value


@pytest.mark.parametrize(
    ("given", "where", "hint"),
    [
        ({"objectiv": "cost"}, "objectiv", "`objective`"),
        ({"rates": 3}, "rates", "`rate`"),  # a load that is none of the options, but near
        ({"gap": 1.0}, "--gap", None),
        ({"time_limit_s": 0}, "--time-limit", None),
        ({"max_utilisation": 1.0}, "--max-utilisation", None),
        ({"draft_tokens": 17}, "--draft-tokens", None),
        ({"risk": 0.6}, "--risk", None),
        ({"engine": "vlm"}, "--engine", "vllm"),
        ({"budget": "gpu=4"}, "--budget", "`gpus`"),
    ],
)
def test_what_is_no_option_or_no_value_of_one_is_refused_by_its_name(given, where, hint):
    with pytest.raises(InputError) as error:
        options_of(given)

    assert error.value.where == where
    assert hint is None or hint in error.value.hint


def test_what_was_not_asked_is_listed_as_defaulted():
    plain, told = asked(), asked(engine="vllm", objective="throughput", precision="fp8", risk=0.1)

    assert {f"options.{n}" for n in ("objective", "engine", "precision", "kv_precision", "risk")} <= set(
        plain.defaulted
    )
    assert [d for d in told.defaulted if d.startswith("options.")] == ["options.kv_precision"]
    assert "options.engine" in asked(engine="any").defaulted  # "any" says nothing


@pytest.mark.parametrize("given", [{"engine": "chains"}, {"profiled": True}])
def test_risk_has_no_default_where_it_has_no_say(given):
    assert "options.risk" not in asked(**given).defaulted


@pytest.mark.parametrize(
    ("options", "flagged"),
    [
        ({}, []),
        ({"precision": "fp8"}, ["--precision fp8"]),
        ({"precision": "fp8", "kv_precision": "fp8"}, ["--precision fp8", "--kv-precision fp8"]),
    ],
)
def test_quality_that_was_given_up_is_flagged(options, flagged):
    notes = lowered(Options(**options))

    assert [note.message.partition(":")[0] for note in notes] == flagged
    assert all(note.code == "precision" for note in notes)


def test_a_precision_to_be_tried_that_does_not_exist_is_refused_by_that_option():
    error = refused(precisions="fp8,fp9")

    assert (error.where, error.message) == ("--precisions", "unknown precision `fp9`")


WHOLE = Workload(buckets=[Bucket(isl=100, osl=10)], rate_rps=1.0, slo=Slo(e2e_ms=5000))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"workload": WHOLE.model_copy(update={"rate_rps": None})}, "at a rate"),
        ({"survive": "node", "gpus": "2xl40s,2xl4"}, "beside lost nodes"),
        ({"engine": "chains"}, "not promised for these"),
        ({"profiled": True}, "not promised for these"),
        ({"objective": "throughput"}, "the least cost or the fewest GPUs"),
        ({"objective": "latency"}, "the least cost or the fewest GPUs"),
    ],
)
def test_whole_requests_are_promised_only_where_a_replay_can_keep_them(change, words):
    error = refused(**{"workload": WHOLE, **change})

    assert error.where == "--e2e-ms"
    assert words in error.message
    assert asked(workload=WHOLE, objective="gpus").workload.slo.e2e_ms == 5000


THREE = "name: c\nnodes:\n  - {name: n, device: l40s, gpus_per_node: 2, count: 3}\n"


@pytest.mark.parametrize(
    ("lost", "text", "hint"),
    [
        ("3", "nothing is left after 3 lost nodes: there are 3", "--survive 2"),
        ("4", "nothing is left after 4 lost nodes: there are 3", "--survive 2"),
        ("2", None, None),
    ],
)
def test_something_must_be_left_after_a_loss(tmp_path, lost, text, hint):
    path = tmp_path / "c.yaml"
    path.write_text(THREE)
    if text is None:
        assert asked(cluster=path, gpus=None, survive=lost).options.survive.nodes == int(lost)
    else:
        error = refused(cluster=path, gpus=None, survive=lost)
        assert (error.message, error.hint, error.where) == (text, hint, "--survive")


def test_the_only_node_cannot_be_lost():
    error = refused(survive="node")

    assert error.message == "nothing is left after 1 lost node: there is one"
    assert error.hint == "a cluster of more nodes"


def test_parts_of_one_node_are_lost_together():
    boxed = replace(FREE, classes=tuple(replace(c, box="mine") for c in FREE.classes))

    assert "`mine`, a node with unlike GPUs" in refused(cluster=boxed, gpus=None, survive="node").message


def test_the_problem_says_what_was_used_and_nothing_of_what_was_not():
    problem = problem_of(asked({"rate": 2.0, "isl": 64, "osl": 8}, engine="vllm"))

    assert problem.options["objective"] == "cost"  # a rate, and prices: the contract's default
    assert problem.options["engine"] == "vllm"
    assert problem.model_id
    assert problem.calibration["name"] == "shipped"
    assert not {"reuse", "idle", "traffic"} & set(problem.workload)
    assert set(problem.devices) == {FREE.classes[0].device.name}
    assert (problem.workload["rate_rps"], problem.workload["buckets"][0]["isl"]) == (2.0, 64)

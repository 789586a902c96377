"""Rows of a table: what cells mean, which contradict each other, what many share, arrays by hand."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Node
from planner.errors import InputError
from planner.predict.loads import Group, Places, Rows
from planner.predict.predictions import Nodes, looked_up, predict_rows
from planner.predict.rows import Row, expert_split, parse

LLAMA = {"model": "llama-3.1-8b", "device": "h100-sxm"}
PLAIN = parse(LLAMA)


def test_blank_cells_have_defaults():
    """One request at a time of 1,024 tokens in and 256 out, in a closed loop that begins at once."""
    assert (PLAIN.isl, PLAIN.osl, PLAIN.concurrency, PLAIN.rate_rps) == (1024, 256, 1.0, 0.0)
    assert (PLAIN.tp, PLAIN.pp, PLAIN.attn_dp, PLAIN.cp, PLAIN.moe_tp, PLAIN.ep) == (1, 1, 1, 1, None, None)
    assert (PLAIN.engine, PLAIN.role, PLAIN.start, PLAIN.lengths) == ("vllm", "mixed", "at_once", "varied")
    assert (PLAIN.precision, PLAIN.kv_precision, PLAIN.balance_steps) == (None, None, None)
    assert parse({**LLAMA, **dict.fromkeys(Row.__dataclass_fields__.keys() - LLAMA.keys(), "")}) == PLAIN


@pytest.mark.parametrize(
    ("cell", "text", "value"),
    [
        ("engine", "any", "vllm"),
        ("engine", "SGLang", "sglang"),
        ("tp", "8.0", 8),
        ("isl", "128k", 128_000),
        ("prefix_hit", "0.25", 0.25),
        ("kv_precision", "FP8", "fp8"),
        ("balance_steps", "0", 0.0),
        ("moe_tp", "4", 4),
        ("stages", "h100-sxm:tp4:60 + l40s:TP2:20", (("h100-sxm", 4, 60), ("l40s", 2, 20))),
        ("mix", "100:20:1+900:30:3", ((100, 20, 1.0), (900, 30, 3.0))),
    ],
)
def test_cells_are_read_as_they_are_meant(cell, text, value):
    assert getattr(parse({**LLAMA, cell: text}), cell) == value


def test_a_pipeline_names_its_own_devices():
    """Nothing else may; the first of them stands for the row."""
    assert parse({"model": "llama-3.1-8b", "stages": "l40s:tp1:16+l4:tp1:16"}).device == "l40s"


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ({"rate_rps": "3", "concurrency": "8"}, "both `rate_rps` and `concurrency`"),
        ({"rate_rps": "3", "start": "steady"}, "both `rate_rps` and `start`"),
        ({"mix": "1:1:1", "isl": "8"}, "both `mix` and `isl`"),
        ({"stages": "l4:tp1:32", "tp": "2"}, "both `stages` and `tp`"),
        ({"stages": "l4:tp1:32", "draft_tokens": "1", "accepted_tokens": "0.5"}, "both `stages`"),
        ({"percentile": "p95"}, "`percentile` p95 of a closed loop"),
        ({"draft_tokens": "3"}, "`accepted_tokens` is blank: how many of 3"),
        ({"draft_tokens": "3", "accepted_tokens": "3.5"}, "must be at most 3"),
        ({"draft_tokens": "65", "accepted_tokens": "1"}, "must be at most 64"),
        ({"mix": "100:20"}, "`mix` must be isl:osl:share"),
        ({"mix": "100:20:"}, "`mix` must be isl:osl:share"),
        ({"mix": "100:20:0"}, "must be greater than 0"),
        ({"stages": "l4:tp1"}, "`stages` must be device:tpN:layers"),
        ({"stages": "l4:tp0:32"}, "must be at least 1"),
        ({"prefix_hit": "1"}, "must be at most 1"),
        ({"chunk": "0"}, "must be at least 1"),
        ({"lengths": "same"}, "unknown lengths `same`"),
        ({"role": "decoder"}, "unknown role `decoder`"),
    ],
)
def test_what_contradicts_itself_is_refused_by_its_cells(cells, said):
    with pytest.raises(InputError) as error:
        parse({**LLAMA, **cells})

    assert said in error.value.message


def test_a_misspelt_choice_is_told_the_nearest():
    with pytest.raises(InputError) as error:
        parse({**LLAMA, "engine": "trtlm"})

    assert error.value.hint == "did you mean `trtllm`?"


@given(st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4]))
def test_experts_are_split_over_all_gpus_of_a_stage(tp, attn_dp, ep):
    """Whichever of the two is told, the other one follows."""
    row = replace(PLAIN, tp=tp, attn_dp=attn_dp)
    if tp * attn_dp % ep:
        return
    by_ep = expert_split(replace(row, ep=ep), True)
    by_tp = expert_split(replace(row, moe_tp=tp * attn_dp // ep), True)

    assert by_ep.moe_tp * by_ep.ep == tp * attn_dp
    assert by_ep == by_tp
    assert expert_split(row, True).ep == 1


def test_experts_that_do_not_fill_a_stage_are_refused_and_dense_models_have_none():
    row = replace(PLAIN, tp=4, ep=3, redundant=8)
    with pytest.raises(InputError, match="moe_tp \\* ep = 3 must equal tp \\* attn_dp \\* cp = 4"):
        expert_split(row, True)
    dense = expert_split(row, False)

    assert (dense.moe_tp, dense.ep, dense.redundant) == (4, 1, 0)
    assert expert_split(replace(PLAIN, tp=2, cp=4, ep=8), True).moe_tp == 1


def group(**cells: str) -> tuple[Group, Row]:
    return looked_up(parse({**LLAMA, **cells}))


def test_rows_of_one_model_device_and_engine_are_one_group():
    one, other = group(tp="1", isl="100"), group(tp="4", osl="7", concurrency="9")

    assert one[0] == other[0]
    assert hash(one[0]) == hash(other[0])
    for cells in (
        {"engine": "sglang"},
        {"device": "l40s"},
        {"role": "decode"},
        {"precision": "fp8"},
        {"chunk": "4096"},
        {"memory_share": "0.5"},
        {"graph_tokens": "0"},
        {"rate_rps": "3"},
        {"engine_version": "0.6.3"},
    ):
        assert group(**cells)[0] != one[0], cells


def test_the_tokens_of_a_step_are_as_told_or_the_engines_default():
    assert group(chunk="4096")[0].token_budget == 4096
    assert group()[0].token_budget == group(engine_version="0.9")[0].token_budget > 1000


def rows(*of: dict[str, str]) -> Rows:
    each = [looked_up(parse({**LLAMA, **cells})) for cells in of]
    return Rows.of(each[0][0], [row for _, row in each])


def test_the_load_of_a_row_is_shared_by_its_ranks():
    """24 in flight on 4 ranks are 6; 16 at once at most are 4; never less than one."""
    deepseek = {"model": "deepseek-v3", "device": "h200-sxm", "attn_dp": "4", "ep": "4", "concurrency": "24"}
    told = rows(deepseek, {**deepseek, "max_running": "16"}, {**deepseek, "max_running": "2"})

    assert told.sequences.tolist() == [6.0, 6.0, 6.0]
    assert told.running.tolist() == [np.inf, 4.0, 1.0]
    assert rows({**deepseek, "concurrency": "", "rate_rps": "8"}).rate.tolist() == [2.0]


def test_lengths_and_hits_are_what_is_computed_and_kept():
    """Of 1,000 tokens a quarter is found; an answer of 200 has room for 500 where that is told."""
    told = rows({"isl": "1000", "osl": "200", "prefix_hit": "0.25", "max_osl": "500"}, {"max_osl": "5"})

    assert told.asked.new[0, 0] == pytest.approx(750, abs=20)  # in whole blocks
    assert told.longest.tolist() == [[500.0], [256.0]]
    assert told.asked.new[1, 0] == 1024


def test_shares_of_a_mix_add_to_one():
    own = rows({"mix": "100:20:1+900:30:3"})

    assert own.asked.share.tolist() == [[0.25, 0.75]]
    assert own.asked.isl.tolist() == [[100.0, 900.0]]


def test_only_prompts_that_go_first_keep_equal_requests_together():
    assert rows({"lengths": "alike", "engine": "sglang"}).alike.tolist() == [1.0]
    assert rows({"lengths": "alike", "engine": "vllm"}).alike.tolist() == [0.0]
    assert rows({"engine": "sglang"}).alike.tolist() == [0.0]


def test_prompts_of_a_crowd_come_once_an_answer():
    """Others come at random, or are gathered between two looks at what has come."""
    crowd = {"lengths": "alike", "engine": "sglang", "osl": "300", "receive_steps": "10"}

    assert rows(crowd).asked.receive_steps.tolist() == [300.0]
    assert rows(crowd | {"lengths": "varied"}).asked.receive_steps.tolist() == [10.0]
    assert rows(crowd | {"engine": "vllm", "receive_steps": ""}).asked.receive_steps.tolist() == [1.0]


def test_some_begin_at_once():
    assert rows({"start": "steady"}, {}).wave.tolist() == [0.0, 1.0]


def test_room_is_what_the_cache_holds_and_no_more_than_may_run():
    """Llama-8B: 131,072 bytes a token, of the prompt and half of the answer in the mean."""
    own, row = group(isl="1000", osl="200", max_running="7")
    load = Rows.of(own, [row, replace(row, max_running=0)])
    places = Places.of(own.cost(), load, own.token_budget)

    assert places.held_bytes[0] == pytest.approx(131_072 * 1100, rel=0.02)
    assert places.sequences[0] == 7.0
    assert places.sequences[1] == pytest.approx(places.memory.kv_bytes[1] / places.held_bytes[1])
    assert places.prompt[0] == pytest.approx(1000 / 2 / 1100, rel=0.02)
    assert replace(places, sequences=np.array([0.5, 3.0])).capacity.tolist() == [np.inf, 3.0]


def two() -> Nodes:
    forms = [
        Node(name="fast", device="h100-sxm", gpus_per_node=2),
        Node(name="slow", device="l40s", gpus_per_node=2),
    ]
    return Nodes(resolve(Cluster(nodes=forms)))


def test_devices_are_a_clusters_by_name_or_as_they_are_usually_sold():
    assert two().find("slow").id == "slow"
    assert two().find("l40s").id == "slow"
    assert two().find("h200-sxm").gpus_per_node == 8
    with pytest.raises(InputError, match="unknown"):
        two().find("h999")


def test_stages_cover_the_model_and_name_each_class_once():
    nodes = two()
    own, _ = looked_up(parse({"model": "llama-3.1-8b", "stages": "fast:tp2:20+slow:tp2:6+slow:tp2:6"}), nodes)

    assert [(s.node_class, s.layers) for s in own.pipeline.staging] == [
        ("fast", (0, 20)),
        ("slow", (20, 26)),
        ("slow", (26, 32)),
    ]
    assert [n.id for n in own.pipeline.classes] == ["fast", "slow"]
    with pytest.raises(InputError, match="`stages` have 31 layers, the model 32"):
        looked_up(parse({"model": "llama-3.1-8b", "stages": "fast:tp2:20+slow:tp2:11"}), nodes)


@pytest.mark.parametrize(
    ("cells", "kv"),
    [
        ({}, "bf16"),
        ({"precision": "fp8"}, "bf16"),  # vLLM on Hopper keeps 16 bits
        ({"precision": "fp8", "engine": "trtllm"}, "fp8"),
        ({"precision": "fp8", "device": "b200-sxm"}, "fp8"),
        ({"precision": "bf16", "device": "b200-sxm"}, "bf16"),
        ({"precision": "fp8", "engine": "trtllm", "kv_precision": "bf16"}, "bf16"),
        ({"model": "gpt-oss-20b", "device": "b200-sxm"}, "fp8"),
        ({"model": "gpt-oss-20b", "device": "b200-sxm", "engine": "trtllm"}, "fp8"),
        ({"model": "gpt-oss-20b", "engine": "trtllm"}, "bf16"),  # on Hopper
        ({"model": "gpt-oss-20b", "device": "b200-sxm", "engine": "sglang"}, "bf16"),
        ({"model": "gpt-oss-20b", "device": "rtx-pro-6000-server"}, "bf16"),
    ],
)
def test_the_cache_of_public_recipes_is_in_8_bits_where_weights_are(cells, kv):
    assert group(**cells)[0].used.kv == kv


def test_rows_of_many_batches_are_answered_in_order():
    """More than are computed at once, two groups by turns."""
    many = [{**LLAMA, "concurrency": str(1 + i % 7), "engine": ("vllm", "sglang")[i % 2]} for i in range(540)]
    found = predict_rows(many)

    assert len(found) == 540
    for i in range(14):
        assert found[i] == found[i + 14] == found[i + 518]

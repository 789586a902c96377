"""One replica as what is started: its length, sequences, share of memory, nodes, and why none starts it."""

from __future__ import annotations

import pytest

from planner.api import plan
from planner.errors import InputError
from planner.exporters import export
from planner.launch import launch, launched
from planner.launch.instances import instances
from planner.launch.server import BLOCK, ROOM, Server, kinds_of, machine_of, node_sizes
from planner.plans.schema import Plan
from planner.reports.page.drawing import placed
from tests.exporters.samples import KEPT, made, replica


def server(engine="vllm", workload=None, options=None, **sizes) -> Server:
    p = made(replica("r1", engine, sizes.pop("role", "mixed"), **sizes))
    problem = p.problem.model_copy(
        update={
            "workload": p.problem.workload | (workload or {}),
            "options": p.problem.options | (options or {}),
        }
    )
    return Server(p.model_copy(update={"problem": problem}), p.replicas[0])


def buckets(*lengths: tuple[int, int]):
    return {"buckets": [{"isl": isl, "osl": osl, "share": 1.0} for isl, osl in lengths]}


def test_a_server_admits_twice_the_longest_request_in_whole_blocks():
    s = server(workload=buckets((1000, 100), (3000, 500)), tp=8)

    assert s.max_len == 7168 == -(-ROOM * 3500 // BLOCK) * BLOCK


def test_an_answer_may_be_as_long_as_the_workload_says_at_most():
    s = server(workload=buckets((1000, 100)) | {"max_osl": 2000}, tp=8)

    assert s.max_len == 6144  # 2 x 3000


def test_it_never_admits_more_than_the_model_or_one_ranks_cache_holds():
    s = server(workload=buckets((100_000, 100)), tp=8)
    short = s.replica.model_copy(update={"kv_tokens": 120_000.0})
    tiny = s.replica.model_copy(update={"kv_tokens": 10.0})
    ranks = s.replica.model_copy(update={"kv_tokens": 240_000.0, "attn_dp": 2})

    assert s.max_len == s.card.max_context == 163_840
    assert Server(s.plan, short).max_len == Server(s.plan, ranks).max_len == 120_000
    assert Server(s.plan, tiny).max_len == 100_100  # the longest request at least


def test_sequences_are_those_of_a_rank_rounded_up():
    assert server(tp=1, attn_dp=4, max_batch=10).sequences == 3


def test_the_pool_is_weights_and_cache_of_the_fullest_stage():
    s = server(pp=2)
    low, high = (
        m.model_copy(update={"capacity_bytes": 100.0, "weights_bytes": w, "kv_bytes": 20.0})
        for m, w in zip(s.replica.memory, (30.0, 50.0), strict=True)
    )

    assert Server(s.plan, s.replica.model_copy(update={"memory": [low, high]})).pool_share == 0.7


@pytest.mark.parametrize(
    ("sizes", "nodes"), [({"tp": 8}, 1), ({"tp": 8, "pp": 3}, 3), ({"tp": 1, "pp": 9}, 2)]
)
def test_a_replica_stands_on_as_many_nodes_as_its_gpus_fill(sizes, nodes):
    assert server(**sizes).nodes == nodes


def over_classes(engine, gpus: dict[str, int], **sizes) -> Server:
    """A stage on each class of nodes, named with the GPUs of one."""
    s = server(engine, **sizes)
    nodes = [{"name": name, "device": "h200-sxm", "gpus_per_node": size} for name, size in gpus.items()]
    problem = s.plan.problem.model_copy(update={"cluster": {"nodes": nodes}})
    pairs = zip(gpus, s.replica.stages, strict=True)
    stages = [x.model_copy(update={"node_class": name, "nodes": [f"{name}-0"]}) for name, x in pairs]
    own = s.replica.model_copy(update={"stages": stages})
    return Server(s.plan.model_copy(update={"problem": problem, "replicas": [own]}), own)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_stages_on_other_classes_of_nodes_are_on_other_nodes(engine):
    """Though the first node has room for the GPUs of both: each class is of its own machines."""
    s = over_classes(engine, {"wide": 8, "small": 4}, tp=4, pp=2)

    assert s.by_node == [4, 4]
    made = launch(s)
    assert "--nnodes 2 " in " ".join(made.argv)
    assert len(made.ranks) == 1


def test_ranks_that_lie_unevenly_over_nodes_are_started_by_llama_cpp_alone():
    """vLLM, SGLang and TensorRT-LLM start as many ranks on each."""
    sizes = {"tp": 4, "pp": 3}

    why = [server(engine, **sizes).why_not() or "" for engine in ("vllm", "sglang")]
    assert [("8 and 4 of its GPUs" in w, "Ray" in w) for w in why] == [(True, True), (True, False)]
    assert server("llama.cpp", pp=12).why_not() is None


def test_a_plan_warns_once_of_what_its_engine_does_not_start_and_exports_refuse_it():
    """It stood in the last lines alone, as a comment on how to start."""
    uneven = [replica(name, "vllm", tp=4, pp=3) for name in ("r1", "r2")]
    warnings = made(*uneven, replica("r3", "vllm", tp=8)).warnings
    (told,) = [w.message for w in warnings if w.code == "not_started"]
    assert told.startswith("r1, r2: its nodes have 8 and 4 of its GPUs")

    plan = made(replica("r1", "vllm", tp=4, pp=3))
    assert launched(plan).warnings == plan.warnings
    with pytest.raises(InputError, match="r1 cannot be exported: its nodes have 8 and 4"):
        export(plan, "k8s")
    assert not any(w.code == "not_started" for w in made(replica("r1", "vllm", tp=8)).warnings)


def test_a_plan_warns_where_an_engines_list_lacks_the_model():
    """TensorRT-LLM lists GPT-OSS, not ERNIE; of other engines, and of cards without a class, nothing is said.

    The command stands.
    """

    def told(engine: str, architecture: str | None) -> list[str]:
        plan = made(replica("r1", engine, tp=8), replica("r2", engine, tp=8))
        model = plan.problem.model | {"architecture": architecture}
        plan = launched(plan.model_copy(update={"problem": plan.problem.model_copy(update={"model": model})}))
        assert all(r.launch.argv for r in plan.replicas)
        assert launched(plan).warnings == plan.warnings
        return [w.message for w in plan.warnings if w.code == "not_listed"]

    (said,) = told("trtllm", "Ernie4_5_MoeForCausalLM")
    assert said.startswith("r1, r2: trtllm's list of models has no Ernie4_5_MoeForCausalLM, which")
    assert told("trtllm", "GptOssForCausalLM") == told("trtllm", None) == []
    assert told("vllm", "Ernie4_5_MoeForCausalLM") == []


def test_kinds_of_gpu_in_a_node_are_one_machine_with_sizes_of_their_own():
    p: Plan = made(replica("r1", "vllm", tp=8))
    nodes = [{"name": "pc", "gpus": [{"device": "rtx-4090", "count": 2}, {"device": "rtx-3090"}]}]
    p = p.model_copy(update={"problem": p.problem.model_copy(update={"cluster": {"nodes": nodes}})})

    assert kinds_of(p) == {"pc": {"rtx-4090": 2, "rtx-3090": 1}}
    assert node_sizes(p) == {"pc/rtx-4090": 2, "pc/rtx-3090": 1}
    assert machine_of("pc/rtx-4090-0") == "pc"


@pytest.mark.parametrize(
    ("entry", "nodes"), [("name: pc, count: 2", ["pc-0", "pc-1"]), ("count: 2", ["node-0", "node-1"])]
)
def test_several_nodes_with_unlike_gpus_are_planned_drawn_and_started_by_their_names(entry, nodes, tmp_path):
    form = f"name: boxes\nnodes: [{{{entry}, gpus: [{{device: rtx-4090}}, {{device: rtx-3090}}]}}]\n"
    (tmp_path / "boxes.yaml").write_text(form)
    p = plan(tmp_path / "boxes.yaml", "llama-3.1-8b", engine="vllm", explain=False)

    assert set(kinds_of(p)) == set(nodes)
    assert {node for seats in instances(p) for node, _ in seats.gpus} == set(nodes)
    assert sorted(name for alike in placed(p)[nodes[0][:-2]] for name in alike.names) == nodes


@pytest.mark.parametrize("told", [{"prefix_hit": 0.3}, {"reuse": [{}]}, {"idle": [{}]}])
def test_prompts_that_begin_alike_are_looked_for_where_there_are_any(told):
    assert not server(tp=8).prefix_cache
    assert server(workload=told, tp=8).prefix_cache


def test_idle_cache_is_copied_unless_it_rests_in_gpu_memory():
    s = server(tp=8)
    for place, held in (("host", 400 * 2**30), ("nvme", 400 * 2**30), ("hbm", 0.0)):
        kept = KEPT.model_copy(update={"place": place})

        assert Server(s.plan, s.replica.model_copy(update={"kept": kept})).kept_bytes == held


def test_only_fp8_is_made_of_16_bit_weights_by_the_engine():
    assert server(tp=8).lowered is None
    asked = server(options={"precision": "int4_wo"}, tp=8)
    four = asked.replica.precision.model_copy(update={"weights": "int4_wo"})
    eight = asked.replica.precision.model_copy(update={"weights": "fp8"})

    told = Server(asked.plan, asked.replica.model_copy(update={"precision": four}))
    assert "name a checkpoint that has them in place of deepseek-ai/DeepSeek-V3" in told.quantised[0]
    assert Server(asked.plan, asked.replica.model_copy(update={"precision": eight})).quantised == []


def test_what_no_engine_starts_says_why():
    s = server(tp=2, pp=2)
    first, second = s.replica.stages
    unlike = s.replica.model_copy(update={"stages": [first, second.model_copy(update={"tp": 1})]})
    apart = s.replica.model_copy(update={"stages": [first, second.model_copy(update={"layers": (0, 0)})]})

    assert s.why_not() is None
    assert "unlike tp" in (Server(s.plan, unlike).why_not() or "")
    assert "different GPUs" in (Server(s.plan, apart).why_not() or "")
    assert "Helix" in (Server(s.plan, s.replica.model_copy(update={"role": "chain"})).why_not() or "")

"""Answers of one token beside longer ones: prompts alone, which take nothing of a decode server."""

from __future__ import annotations

import json

import pytest

from cluster_configs.reading import resolve
from cluster_configs.schema import Cluster
from planner import plan
from planner.check import check
from planner.inputs.workload import Bucket, Slo, Workload


@pytest.mark.parametrize(
    ("model", "device", "count", "gpus", "buckets", "slo"),
    [
        ("gpt-oss-20b", "l40s", 2, 4, [(4000, 300, 0.535559), (1000, 1, 0.335897)], (60_000, 50, "p90")),
        (
            "deepseek-v2-lite",
            "l4",
            2,
            2,
            [(30_000, 1, 0.126758), (1000, 300, 0.846587)],
            (60_000, 50, "mean"),
        ),
    ],
)
def test_every_bucket_is_served_whole(model, device, count, gpus, buckets, slo):
    """Pairs were lost where nothing of a bucket is decoded, or on a server that is not run."""
    form = {"nodes": [{"device": device, "count": count, "gpus_per_node": gpus}]}
    made = plan(
        resolve(Cluster.model_validate(form)),
        model,
        engine="vllm",
        explain=False,
        workload=Workload(
            buckets=[Bucket(isl=isl, osl=osl, share=share) for isl, osl, share in buckets],
            slo=Slo(ttft_ms=slo[0], tpot_ms=slo[1], percentile=slo[2]),
        ),
    )

    assert check(made) == []
    for number in range(len(buckets)):
        assert sum(r.share for r in made.routing if r.bucket == number) == pytest.approx(1)


EXPERTS = {
    "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 4096,
    "num_hidden_layers": 31, "num_attention_heads": 64, "num_key_value_heads": 1, "vocab_size": 1_000_000,
    "intermediate_size": 28_672, "max_position_embeddings": 131_072, "torch_dtype": "bfloat16",
    "num_experts": 128, "num_experts_per_tok": 2, "moe_intermediate_size": 64, "head_dim": 64,
}  # fmt: skip


def test_servers_of_such_answers_alone_are_no_busier_than_those_that_only_prefill(tmp_path):
    """Three of four servers take prompts alone, by what they are given and not by name: at 99.5 % of their
    time they served more than the bound, which has them at 98 %."""
    (tmp_path / "config.json").write_text(json.dumps(EXPERTS))
    buckets = [Bucket(isl=1000, osl=1, share=1.0), Bucket(isl=4096, osl=1000, share=1e-4)]
    load = Workload(buckets=buckets, slo=Slo(ttft_ms=2000), prefix_hit=0.5)
    asked = {"gpus": "4xmi210", "engine": "vllm", "workload": load, "explain": False}
    made = plan(None, str(tmp_path / "config.json"), **asked)

    assert [w.code for w in made.warnings if w.code == "unsound"] == []
    assert made.proof.objective <= made.proof.bound
    assert max(r.utilisation for r in made.replicas) <= 1.0

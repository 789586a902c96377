"""Answers of one token beside longer ones: prompts alone, which take nothing of a decode server."""

from __future__ import annotations

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
        workload=Workload(
            buckets=[Bucket(isl=isl, osl=osl, share=share) for isl, osl, share in buckets],
            slo=Slo(ttft_ms=slo[0], tpot_ms=slo[1], percentile=slo[2]),
        ),
    )

    assert check(made) == []
    for number in range(len(buckets)):
        assert sum(r.share for r in made.routing if r.bucket == number) == pytest.approx(1)

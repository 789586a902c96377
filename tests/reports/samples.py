"""Plans made by hand, with figures of the right size: one node; a mixed cluster; out of time."""

from planner.plans.schema import (
    Alternative,
    Band,
    Cache,
    Cap,
    KindCount,
    Plan,
    PlanWarning,
    PrecisionUsed,
    Predicted,
    Price,
    Problem,
    Proof,
    Replica,
    Route,
    Space,
    Stage,
    StageMemory,
    Step,
)


def band(value: float) -> Band:
    return Band(value=value, low=0.88 * value, high=1.13 * value)


def memory(stage: int, weights_gb: float, kv_gb: float, capacity_gb: float = 80.0) -> StageMemory:
    return StageMemory(
        stage=stage,
        weights_bytes=weights_gb * 1e9,
        kv_bytes=kv_gb * 1e9,
        activation_bytes=2.1e9,
        reserve_bytes=3.4e9,
        capacity_bytes=capacity_gb * 1e9,
    )


def replica(**changes: object) -> Replica:
    base: dict[str, object] = {
        "id": "r1",
        "role": "mixed",
        "count": 4,
        "engine": "vllm",
        "precision": PrecisionUsed(weights="bf16", experts="bf16", kv="bf16"),
        "tp": 2,
        "pp": 1,
        "attn_dp": 1,
        "moe_tp": 2,
        "ep": 1,
        "stages": [
            Stage(device="h100-sxm", node_class="h", nodes=["h-0"], gpus=2, tp=2, layers=(0, 80)),
        ],
        "max_batch": 96,
        "kv_tokens": 21_800,
        "cache": Cache(
            tokens_per_gpu=10_900,
            used=0.87,
            sequences=18.2,
            block_tokens=16,
            block_waste=0.006,
            delayed=0.04,
            preempted=0.002,
            preempted_limit=0.01,
        ),
        "utilisation": 0.94,
        "step": Step(decode_s=0.041, prefill_s=0.19, engine_s=0.002),
        "memory": [memory(0, 70.6, 3.5)],
        "watts": 1240.0,
    }
    return Replica.model_validate(base | changes)


ONE_NODE = Plan(
    meshwright_version="0.1.0",
    problem=Problem(
        cluster={"name": "8xH100", "nodes": [{"name": "h", "count": 1, "device": "h100-sxm"}]},
        devices={"h100-sxm": {"name": "h100-sxm", "gpus_per_node": 8, "memory_gb": 80}},
        model={"name": "llama-3.1-70b"},
        workload={
            "name": "chat",
            "buckets": [{"isl": 1024, "osl": 256, "share": 1.0}],
            "rate_rps": None,
            "slo": {"ttft_ms": 2000.0, "tpot_ms": 50.0, "percentile": "mean"},
        },
        options={"objective": "throughput", "engine": "any", "risk": 0.5, "gap": 0.01, "time_limit_s": 60.0},
        defaulted=["workload.name", "slo.ttft_ms", "slo.tpot_ms", "slo.percentile", "options.risk"],
    ),
    replicas=[replica()],
    routing=[Route(bucket=0, share=1.0, replica="r1")],
    predicted=Predicted(
        out_tok_per_s=band(3180.0),
        total_tok_per_s=band(15900.0),
        rps=band(12.42),
        ttft_ms=band(812.0),
        tpot_ms=band(41.3),
        utilisation=band(0.94),
        usd_per_hour=None,
        usd_per_mtok=None,
        watts=band(4960.0),
        joules_per_tok=band(1.56),
        chance_ttft=0.9163,
        chance_tpot=0.9996,
    ),
    proof=Proof(
        objective=3180.0,
        bound=3199.0,
        gap=0.006,
        status="within_gap",
        seconds=0.41,
        solver="HiGHS 1.12",
        seed=0,
        space=Space(
            considered=1840,
            kept=212,
            complete=True,
            what="all vLLM-valid tp×pp×attn_dp×ep designs up to 8 GPUs, batch grid of 24",
        ),
        sense="max",
        unit="tok/s",
    ),
    prices=[
        Price(limit="gpus h100-sxm", one_more="8 GPUs (a node)", worth=3180.0, unit="tok/s", marginal=397.0)
    ],
    alternatives=[
        Alternative(
            what="prefill and decode apart",
            objective=2870.0,
            loss=0.097,
            why="TTFT is met with room to spare; splitting 8 GPUs leaves decode short of KV room",
        ),
        Alternative(what="2 × tp4", objective=2790.0, loss=0.122, why="all-reduce over 4 GPUs each step"),
        Alternative(
            what="tp1",
            objective=None,
            loss=None,
            why="weights of 141 GB do not fit in 80 GB",
            status="infeasible",
        ),
    ],
)

MIXED = ONE_NODE.model_copy(
    update={
        "problem": ONE_NODE.problem.model_copy(
            update={
                "cluster": {
                    "name": "lab",
                    "nodes": [
                        {"name": "h", "count": 3, "device": "h100-sxm", "gpus_per_node": 8},
                        {"name": "l", "count": 2, "device": "l40s", "gpus_per_node": 4},
                    ],
                },
                "workload": {
                    "name": "mix",
                    "buckets": [
                        {"isl": 512, "osl": 128, "share": 0.6},
                        {"isl": 4096, "osl": 512, "share": 0.4},
                    ],
                    "rate_rps": 40.0,
                    "slo": {"ttft_ms": 2000.0, "tpot_ms": None, "percentile": "p95"},
                },
                "options": {"objective": "cost", "engine": "sglang", "gap": 0.01},
                "defaulted": [],
            }
        ),
        "replicas": [
            replica(id="p1", role="prefill", count=2, engine="sglang", tp=4, moe_tp=4, utilisation=0.71),
            replica(
                id="d1",
                role="decode",
                count=3,
                engine="sglang",
                precision=PrecisionUsed(weights="fp8", experts="mxfp4", kv="bf16"),
                attn_dp=4,
                ep=8,
                moe_tp=1,
                stages=[
                    Stage(device="h100-sxm", node_class="h", nodes=["h-1"], gpus=8, tp=2, layers=(0, 80))
                ],
                max_batch=512,
                memory=[memory(0, 22.0, 48.0)],
            ),
            replica(
                id="r1",
                count=1,
                engine="sglang",
                pp=2,
                stages=[
                    Stage(device="h100-sxm", node_class="h", nodes=["h-2"], gpus=2, tp=2, layers=(0, 52)),
                    Stage(device="l40s", node_class="l", nodes=["l-0"], gpus=2, tp=2, layers=(52, 80)),
                ],
                memory=[memory(0, 46.0, 26.0), memory(1, 25.0, 13.0, 48.0)],
            ),
        ],
        "routing": [
            Route(bucket=0, share=0.3, replica="r1"),
            Route(bucket=0, share=0.7, prefill="p1", decode="d1", kv_gb_per_s=1.9),
            Route(bucket=1, share=1.0, prefill="p1", decode="d1", kv_gb_per_s=6.2),
        ],
        "predicted": ONE_NODE.predicted.model_copy(
            update={
                "usd_per_hour": band(84.4),
                "usd_per_mtok": band(2.07),
                "rps": band(40.0),
                "chance_tpot": None,
            }
        ),
        "proof": ONE_NODE.proof.model_copy(
            update={
                "objective": 84.4,
                "bound": 84.4,
                "gap": 0.0,
                "status": "optimal",
                "sense": "min",
                "unit": "usd_per_hour",
            }
        ),
        "prices": [
            Price(limit="gpus h100-sxm", one_more="8 GPUs (a node)", worth=0.0, unit="usd_per_hour"),
            Price(limit="gpus l40s", one_more="4 GPUs (a node)", worth=6.4, unit="usd_per_hour"),
        ],
        "warnings": [
            PlanWarning.model_validate(
                {
                    "code": "idle_gpus",
                    "message": "2 of 8 l40s stay idle",
                    "class": "l",
                    "count": 2,
                    "reason": "no design of 2 GPUs fits",
                }
            ),
            PlanWarning(code="quantised", message="experts run in mxfp4, lower than the checkpoint's bf16"),
        ],
    }
)

STOPPED = ONE_NODE.model_copy(
    update={
        "proof": ONE_NODE.proof.model_copy(
            update={"status": "time_limit", "gap": 0.034, "bound": 3288.0, "seconds": 60.1}
        )
    }
)

SIMPLE = ONE_NODE.model_copy(
    update={
        "proof": Proof(
            objective=23.9,
            bound=24.0434,
            gap=0.006,
            status="within_gap",
            seconds=0.41,
            solver="HiGHS 1.12",
            seed=0,
            space=Space(
                considered=1840,
                kept=212,
                complete=True,
                what="all vLLM-valid designs up to 8 GPUs, any load",
                caps=[
                    Cap(what="utilisation", value=0.98, binds=True, considered=96, left_out=4),
                    Cap(what="GPUs a replica", value=1024, binds=False),
                ],
            ),
            sense="max",
            unit="req/s",
            chosen=23.3,
            given_up=0.6 / 23.9,
            kinds=[
                KindCount(kinds=1, objective=21.0),
                KindCount(kinds=2, objective=23.3),
                KindCount(kinds=4, objective=23.9),
            ],
        )
    }
)
"""23.3 requests/s by two kinds of replica, where four would serve 23.9."""

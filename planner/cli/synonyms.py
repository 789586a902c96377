"""What other tools call our commands, options and values: what each is called here, or that the planner
chooses it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from planner.errors import InputError

OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "--gpus 8xH100": (
        *("--gpu", "--gpu-type", "--device", "--devices", "--accelerator", "--accelerators", "--hardware"),
        *("--instance-type", "--num-gpus", "--gpu-count", "--n-gpus", "--system", "--nodes", "--num-nodes"),
    ),
    "--model NAME": ("--model-path", "--model-name", "--model-id", "--hf-id", "--hf-repo", "--checkpoint"),
    "--isl 1024": (
        *(
            "--input-len",
            "--input-length",
            "--input-tokens",
            "--random-input-len",
            "--prompt-len",
            "--n-prompt",
        ),
        *("--prompt-length", "--prompt-tokens", "--isl-mean", "--synthetic-input-tokens-mean", "--in"),
    ),
    "--osl 256": (
        *(
            "--output-len",
            "--output-length",
            "--output-tokens",
            "--random-output-len",
            "--gen-len",
            "--n-gen",
        ),
        *("--max-tokens", "--max-new-tokens", "--n-predict", "--osl-mean", "--output-tokens-mean"),
    ),
    "--rate 10": ("--qps", "--rps", "--request-rate", "--req-rate", "--arrival-rate", "--load", "--traffic"),
    "--ttft-ms 2000": ("--ttft", "--max-ttft", "--ttft-slo", "--first-token", "--ttft-limit"),
    "--tpot-ms 50": (
        *("--tpot", "--itl", "--itl-ms", "--max-itl", "--tbt", "--tbt-ms", "--inter-token-latency"),
        *("--max-tpot", "--tpot-slo", "--itl-slo"),
    ),
    "--ttft-ms 2000 --tpot-ms 50": ("--slo", "--sla", "--goodput", "--latency", "--max-latency"),
    "--e2e-ms 10000": ("--e2e", "--e2el", "--e2e-latency", "--request-latency"),
    "--percentile p95": ("--p50", "--p90", "--p95", "--p99", "--quantile", "--metric-percentiles"),
    "--engine vllm": (
        *("--backend", "--backends", "--framework", "--runtime", "--server", "--engines"),
        *("--inference-engine", "--serving-engine"),
    ),
    "--precision fp8": (
        *("--dtype", "--quantization", "--quant", "--weight-dtype", "--weights", "--load-format", "--bits"),
        *("--quantize", "--qtype"),
    ),
    "--kv-precision fp8": (
        *(
            "--kv-cache-dtype",
            "--kv-dtype",
            "--kv-quant",
            "--cache-type-k",
            "--cache-type-v",
            "--ctk",
            "--ctv",
        ),
    ),
    "--budget usd_per_hour=50": (
        "--max-cost",
        "--cost",
        "--price",
        "--max-price",
        "--cost-limit",
        "--dollars",
    ),
    "--objective cost": ("--optimize", "--optimise", "--goal", "--target", "--minimize", "--maximize"),
    "--time-limit 30": ("--timeout", "--max-time", "--time", "--solver-time-limit"),
    "--gap 0.01": ("--mip-gap", "--tolerance", "--optimality-gap"),
    "--details": ("--verbose", "-v", "-vv", "--full", "--all", "--debug", "--explain", "--long"),
    "--output plan.json": (
        "--output-file",
        "--save",
        "--out-file",
        "--write",
        "--plan-file",
        "--result-file",
    ),
    "--json": ("--format", "--output-format", "--as-json"),
    "--trace FILE": ("--trace-file", "--dataset", "--dataset-path", "--dataset-name", "--requests-file"),
    "--workload FILE": ("--workload-file", "--profile-name", "--scenario", "--preset", "--use-case"),
    "--speculation auto": (
        *("--speculative-config", "--speculative-algorithm", "--draft-model", "--spec", "--mtp", "--eagle"),
    ),
    "--survive node": ("--redundancy", "--failover", "--ha", "--n-plus-one", "--spare", "--spares"),
    "--loop closed": ("--closed-loop", "--offline", "--saturated"),
    "--loop open": ("--open-loop", "--poisson", "--online"),
}
"""Options of other tools, by ours with a value that shows how it is written."""

CHOSEN: Final[Mapping[str, str]] = {
    **dict.fromkeys(("--tp", "-tp", "--tensor-parallel-size", "--tp-size", "--tensor-parallel"), "tp=2"),
    **dict.fromkeys(("--pp", "-pp", "--pipeline-parallel-size", "--pp-size", "--pipeline-parallel"), "pp=2"),
    **dict.fromkeys(("--dp", "-dp", "--data-parallel-size", "--dp-size", "--attn-dp"), "dp=2"),
    **dict.fromkeys(("--ep", "-ep", "--enable-expert-parallel", "--ep-size", "--expert-parallel"), "ep=8"),
    **dict.fromkeys(("--cp", "--context-parallel-size", "--dcp", "--decode-context-parallel-size"), "cp=2"),
    **dict.fromkeys(("--disagg", "--disaggregation", "--disaggregated", "--pd", "--split"), "role=split"),
}
"""What the planner chooses, by what others call it → how `explain --why-not` asks about it."""

BATCH: Final = (
    *("--batch", "--batch-size", "-b", "--max-batch-size", "--max-num-seqs", "--max-running-requests"),
    *(
        "--max-num-batched-tokens",
        "--chunked-prefill-size",
        "--max-num-tokens",
        "--replicas",
        "--num-replicas",
    ),
)
"""Sizes that the planner chooses and `explain` does not ask about."""

ELSEWHERE: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("--max-model-len", "--ctx", "--ctx-size", "-c", "--context", "--context-length", "--max-context"),
        "a request's room follows from `--isl` and `--osl`; `meshwright fit` says how long one may be",
    ),
    **dict.fromkeys(
        (
            "--gpu-memory-utilization",
            "--mem-fraction-static",
            "--free-gpu-memory-fraction",
            "--kv-cache-memory",
        ),
        "each engine's own share of memory is planned with, and stands in the start lines",
    ),
    **dict.fromkeys(
        ("--ngl", "-ngl", "--n-gpu-layers", "--cpu-offload-gb", "--offload", "--cpu-offload"),
        "what does not fit is planned in host memory where the cluster file has `host:` (docs/offload.md)",
    ),
    **dict.fromkeys(
        ("--cloud", "--region", "--provider", "--zone", "--use-spot", "--spot", "--on-demand"),
        "what to rent is found by `meshwright buy`; zones and spot nodes stand in the cluster file",
    ),
    **dict.fromkeys(
        ("--concurrency", "--max-concurrency", "--users", "--num-users", "--parallel", "-np", "--streams"),
        "say a load by `--rate`; `--loop closed` finds the concurrency that serves most, "
        "`meshwright fit --users N` says who fits",
    ),
    **dict.fromkeys(
        ("--enable-prefix-caching", "--prefix-caching", "--cache-reuse", "--prefix-cache"),
        "say what prompts share in a workload file (`prefix_hit: 0.3`), or give a `--trace` of them",
    ),
    **dict.fromkeys(
        ("--nvlink", "--interconnect", "--bandwidth", "--network", "--nic", "--infiniband"),
        "links stand in the cluster file: `meshwright cluster init --gpus 8xH100 -o cluster.yaml` writes one",
    ),
    **dict.fromkeys(
        ("--config", "--file", "-f"), "give a cluster file as it is: meshwright plan cluster.yaml"
    ),
    **dict.fromkeys(("--quiet", "-q", "--silent"), "`2>/dev/null` drops all but the answer"),
    **dict.fromkeys(
        ("--dry-run", "--simulate"), "planning starts nothing; `meshwright simulate` replays a plan"
    ),
}
"""What is told in another way, and how."""

COMMANDS: Final[Mapping[str, tuple[str, ...]]] = {
    "plan": (
        "optimize",
        "optimise",
        "recommend",
        "run",
        "solve",
        "place",
        "search",
        "design",
        "suggest",
        "auto",
    ),
    "predict": ("estimate", "bench", "benchmark", "perf", "performance", "latency", "throughput"),
    "export": ("serve", "deploy", "launch", "start", "apply", "generate", "manifests", "up", "render"),
    "devices": ("gpus", "gpu", "hardware", "list-gpus", "accelerators", "show-gpus"),
    "models": ("model", "list-models", "zoo", "catalog"),
    "buy": ("cost", "price", "prices", "rent", "shop", "cheapest", "cloud"),
    "check": ("validate", "verify", "lint", "test"),
    "report": ("visualize", "visualise", "html", "plot", "show", "view", "graph", "dashboard"),
    "diff": ("compare", "delta"),
    "explain": ("why", "describe", "reason", "analyze", "analyse", "inspect"),
    "simulate": ("replay", "load-test", "loadtest", "sim", "trace"),
    "calibrate": ("tune", "train", "profile", "measure"),
    "fit": ("memory", "vram", "size", "fits", "mem", "calc", "calculate"),
    "schedule": ("autoscale", "scale", "capacity", "hours", "day"),
    "import": ("convert", "parse", "read", "from", "audit"),
    "sweep": ("grid", "matrix", "batch", "explore"),
    "pareto": ("curve", "frontier", "tradeoff", "trade-off"),
    "cluster": ("init", "detect", "discover", "inventory", "nodes"),
    "experts": ("eplb", "moe", "balance", "expert"),
    "schema": ("spec", "jsonschema", "format"),
}
"""Commands of other tools, by ours that does the same."""

VALUES: Final[Mapping[str, Mapping[str, str]]] = {
    "--engine": {
        **dict.fromkeys(("tensorrt-llm", "tensorrtllm", "tensorrt", "trt", "trt-llm", "triton"), "trtllm"),
        **dict.fromkeys(("llamacpp", "llama-cpp", "ggml", "gguf", "ollama", "lmstudio"), "llama.cpp"),
        **dict.fromkeys(("auto", "all", "best", "none"), "any"),
    },
    "--objective": {
        **dict.fromkeys(("price", "money", "dollars", "usd", "cheap", "cheapest", "min-cost"), "cost"),
        **dict.fromkeys(("power", "watts", "watt", "joules", "carbon", "co2"), "energy"),
        **dict.fromkeys(("speed", "tokens", "tput", "goodput", "qps", "rps", "max-throughput"), "throughput"),
        **dict.fromkeys(("ttft", "tpot", "e2e", "fast", "fastest", "min-latency"), "latency"),
        **dict.fromkeys(("fewest", "min-gpus", "gpu", "nodes"), "gpus"),
    },
    "--percentile": {**dict.fromkeys(("avg", "average"), "mean"), **dict.fromkeys(("median",), "p50")},
    "--loop": {
        **dict.fromkeys(("poisson", "random", "online"), "open"),
        **dict.fromkeys(("concurrency", "offline", "saturated"), "closed"),
    },
}
"""By option: values as other tools call them, and ours."""


def unknown_option(name: str, own: Collection[str]) -> InputError | None:
    """What to say of an option that a command has not, `own` being those it has; None where it is no other
    tool's word that is known. The nearest of its own is left to the parser.

    >>> print(unknown_option("--qps", ["--rate"]).hint)
    here it is --rate 10
    """
    text, where = f"no such option: {name}", f"{name} on the command line"
    for ours, others in OPTIONS.items():
        if name in others and ours.split()[0] in own:
            return InputError(text, where, f"here it is {ours}")
    if name in CHOSEN:
        hint = f"the planner chooses it; `meshwright explain --why-not {CHOSEN[name]}` says why not another"
        return InputError(text, where, hint)
    if name in BATCH:
        return InputError(text, where, "the planner chooses it, and the plan says it")
    return InputError(text, where, ELSEWHERE[name]) if name in ELSEWHERE else None


def unknown_command(name: str) -> str | None:
    """The command of ours that another tool's is like.

    >>> unknown_command("deploy"), unknown_command("paln")
    ('export', None)
    """
    return next((ours for ours, others in COMMANDS.items() if name.lower() in others), None)


def known_value(option: str, value: str) -> str | None:
    """Our word for a value of an option."""
    return VALUES.get(option, {}).get(value.lower())

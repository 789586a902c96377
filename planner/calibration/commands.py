"""The commands of a probe: start a server, wait for it, benchmark it, stop it; and calibrate in the end.

Options as in vLLM (vllm/benchmarks/serve.py, 0.11 and later), SGLang (python/sglang/bench_serving.py, 0.5),
TensorRT-LLM (commands/serve.py and serve/scripts/benchmark_serving.py, 1.0 and later) and the llama.cpp
server README. Prompts are random tokens of exact lengths, from a new seed each run, so that no prefix cache
knows them.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence

from planner.calibration.probe import Run, Session
from planner.calibration.trials import Server, Trial
from planner.cost.reserve import counted_tokens_per_step
from planner.designs.precision import precisions
from planner.predict.predictions import usual_kv

RESULTS = "results"
CONFIG = f"{RESULTS}/trtllm.yaml"
PORT = 8000
CALIBRATE = f"meshwright calibrate {RESULTS}/*.json* -o my-cluster.calib.yaml"

SLACK_TOKENS = 64
"""Beside the longest request: special tokens, and prompts that are tokenised anew a little longer."""

WAIT = f"until curl -sf localhost:{PORT}/health >/dev/null; do kill -0 $! || break; sleep 5; done"
STOP = "kill $!; wait $!"


def script(sessions: Sequence[Session]) -> list[str]:
    """All in lines for a shell, to be run where their devices are; runs are numbered through."""
    lines, number = [f"mkdir -p {RESULTS}"], 0
    for session in sessions:
        server = session.server
        lines += ["", f"# {title(server)}", *_needs(server), *configure(server)]
        lines += [serve(server, [run.trial for run in session.runs]), WAIT]
        for run in session.runs:
            number += 1
            lines.append(benchmark(server, run, number))
        lines.append(STOP)
    together = ["# with all results in one place"] if len(_devices(sessions)) > 1 else []
    return [*lines, "", *together, CALIBRATE]


def title(server: Server) -> str:
    """`vllm tp4 on 4 h100-sxm`, and over how many nodes."""
    d, device = server.design, server.group.node_class.device.name
    nodes = f" over {server.nodes} nodes" if server.nodes > 1 else ""
    return f"{server.group.engine} {d} on {d.gpus} {device}{nodes}"


def _needs(server: Server) -> list[str]:
    """What several nodes need, as a comment."""
    needs = {
        "vllm": f"# needs a Ray cluster of {server.nodes} nodes",
        "sglang": "# needs the same command with --node-rank 1 and so on on the other nodes",
        "trtllm": "# needs the nodes in a --hostfile of mpirun",
    }
    return [needs[server.group.engine]] if server.nodes > 1 and server.group.engine in needs else []


def configure(server: Server) -> list[str]:
    """The command that writes the file of what `trtllm-serve` has no options for, if there is any."""
    wanted = _config(server)
    return [f"echo {shlex.quote(json.dumps(wanted))} > {CONFIG}"] if wanted else []


def serve(server: Server, trials: Sequence[Trial]) -> str:
    """The command that starts a server with room for the longest of `trials`, in the background.

    HEAD_NODE and FP8_CHECKPOINT stand for what only the user knows.
    """
    longest = max(trial.isl + trial.osl for trial in trials) + SLACK_TOKENS
    most = max(trial.requests for trial in trials)
    match server.group.engine:
        case "sglang":
            words = _sglang(server, longest)
        case "trtllm":
            words = _trtllm(server, longest)
        case "llama.cpp":
            words = _llama_cpp(server, longest, most)
        case _:
            words = _vllm(server, longest)
    log = f"{RESULTS}/{server.group.engine}-{server.design}.log".replace(" ", "-")
    return f"{shlex.join([*words, '--port', str(PORT)])} > {log} 2>&1 &"


def benchmark(server: Server, run: Run, number: int) -> str:
    """The command that makes a run; its result is a file named by its number."""
    name, model, t = f"{number:02d}", _model(server), run.trial
    load = {"random-input-len": t.isl, "random-output-len": t.osl, "max-concurrency": t.requests}
    options = _options(load | {"num-prompts": run.prompts, "seed": number})
    where = ["--port", str(PORT), "--model", model]
    told = [f"{column}={value}" for column, value in _columns(server).items()]
    if server.group.engine == "sglang":
        client = ["python", "-m", "sglang.bench_serving", "--backend", "sglang", *where]
        lengths = ["--dataset-name", "random-ids", "--tokenize-prompt", "--random-range-ratio", "1"]
        result = ["--output-file", f"{RESULTS}/{name}.jsonl", "--tag", " ".join(told)]
        return shlex.join([*client, *lengths, *options, *result])
    client, lengths = ["vllm", "bench", "serve"], ["--dataset-name", "random", "--ignore-eos"]
    if server.group.engine == "trtllm":
        client = ["python", "-m", "tensorrt_llm.serve.scripts.benchmark_serving"]
        lengths += ["--random-ids", "--tokenize-on-client"]
    result = ["--save-result", "--result-dir", RESULTS, "--result-filename", f"{name}.json"]
    return shlex.join(
        [*client, "--backend", "openai", *where, *lengths, *options, *result, "--metadata", *told]
    )


def _devices(sessions: Sequence[Session]) -> list[str]:
    return sorted({session.server.group.node_class.device.name for session in sessions})


def _vllm(server: Server, longest: int) -> list[str]:
    d = server.design
    sizes = {"tensor-parallel-size": d.tp, "pipeline-parallel-size": d.pp, "data-parallel-size": d.attn_dp}
    words = ["vllm", "serve", _model(server), *_sizes(sizes)] + ["--enable-expert-parallel"] * (d.ep > 1)
    words += [*_precision(server, "fp8"), "--max-model-len", str(longest)]
    if server.nodes > 1:
        words += ["--distributed-executor-backend", "ray"]
        words += ["--data-parallel-backend", "ray"] * (d.attn_dp > 1)
    return words


def _sglang(server: Server, longest: int) -> list[str]:
    d = server.design
    sizes = {"tp-size": d.tp * d.attn_dp, "pp-size": d.pp, "dp-size": d.attn_dp, "ep-size": d.ep}
    words = ["python", "-m", "sglang.launch_server", "--model-path", _model(server), *_sizes(sizes)]
    words += ["--enable-dp-attention"] * (d.attn_dp > 1)
    words += [*_precision(server, "fp8_e4m3"), "--context-length", str(longest)]
    if server.nodes > 1:
        words += ["--nnodes", str(server.nodes), "--node-rank", "0", "--dist-init-addr", "HEAD_NODE:5000"]
    return words


def _trtllm(server: Server, longest: int) -> list[str]:
    d = server.design
    launch = ["mpirun", "-n", str(d.gpus), "trtllm-llmapi-launch"] if server.nodes > 1 else []
    sizes = {"tp_size": d.tp * d.attn_dp, "pp_size": d.pp, "ep_size": d.ep}
    words = [*launch, "trtllm-serve", _model(server), *_sizes(sizes), "--max_seq_len", str(longest)]
    budget = counted_tokens_per_step("trtllm", [server.group.node_class.device])
    words += ["--enable_chunked_prefill"] * (longest > budget)
    return words + ["--extra_llm_api_options", CONFIG] * bool(_config(server))


def _config(server: Server) -> dict[str, object]:
    if server.group.engine != "trtllm":
        return {}
    wanted: dict[str, object] = {"enable_attention_dp": True} if server.design.attn_dp > 1 else {}
    asked = server.group.used.kv != precisions(server.group.card).kv
    return wanted | ({"kv_cache_config": {"dtype": server.group.used.kv}} if asked else {})


def _llama_cpp(server: Server, longest: int, most: int) -> list[str]:
    room = {"parallel": most, "ctx-size": most * longest, "n-gpu-layers": 999}
    return ["llama-server", "--model", f"{server.group.card.name}.gguf", *_options(room)]


def _model(server: Server) -> str:
    """What the engine loads; where it was asked to be in a precision that engines do not make themselves, a
    checkpoint of the user's."""
    own, used = precisions(server.group.card).gemm, server.group.used.gemm
    if used != own and not _quantised(server):
        return f"{used.upper()}_CHECKPOINT"
    return server.group.card.hf_id or server.group.card.name


def _quantised(server: Server) -> bool:
    """Whether the engine makes the precision from the checkpoint as it loads it."""
    pair = (precisions(server.group.card).gemm, server.group.used.gemm)
    return pair == ("bf16", "fp8") and server.group.engine in ("vllm", "sglang")


def _precision(server: Server, fp8_cache: str) -> list[str]:
    used, device = server.group.used, server.group.node_class.device
    words = ["--quantization", "fp8"] * _quantised(server)
    if used.kv != precisions(server.group.card).kv:
        words += ["--kv-cache-dtype", fp8_cache if used.kv == "fp8" else used.kv]
    return words + ["--dtype", "half"] * ("bf16" not in device.tflops)


def _columns(server: Server) -> dict[str, str | int]:
    """What `calibrate` reads beside a result: columns of the `predict` table."""
    group, d = server.group, server.design
    told: dict[str, str | int] = {"device": group.node_class.device.name, "engine": group.engine, "tp": d.tp}
    told |= {name: size for name, size in d.sizes.items() if name not in ("tp", "moe_tp") and size > 1}
    own = precisions(group.card)
    if group.used.gemm != own.gemm:
        told |= {"model": group.card.name, "precision": group.used.gemm}
    if group.used.kv != own.kv or usual_kv(group.used, group.node_class.device, group.engine) != own.kv:
        told["kv_precision"] = group.used.kv
    return told


def _sizes(sizes: Mapping[str, int]) -> list[str]:
    """Options of parallelism: the first, and of the others those above 1."""
    first = next(iter(sizes))
    return _options({name: size for name, size in sizes.items() if size > 1 or name == first})


def _options(values: Mapping[str, int]) -> list[str]:
    return [word for name, value in values.items() for word in (f"--{name}", str(value))]

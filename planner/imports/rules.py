"""What engines refuse of a command line, and why: each rule with where it was read."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from planner.imports.deployment import Server

MOST_RANKS = 100_000

Rule = Callable[[Server], Iterator[str]]


def refusals(s: Server) -> list[str]:
    """Every rule that a server breaks, in words: the flag first."""
    return [words for rule in RULES for words in rule(s)]


def _partition(s: Server) -> Iterator[str]:
    """vllm 0.33.0 and sglang 0.5.23, distributed/utils.py: as many numbers as stages."""
    layers, pp = s.facts.get("layer_partition"), s.facts["pp"]
    if layers and len(layers) != pp:
        yield f"the layer partition names {len(layers)} stages, the pipeline has {pp}"


def _sizes(s: Server) -> Iterator[str]:
    """Every engine: a group has at least one member."""
    for name in ("tp", "pp", "dp", "ep", "cp", "dcp", "attn_dp"):
        size = s.facts.get(name)
        if isinstance(size, int | float) and not isinstance(size, bool) and not 1 <= size <= MOST_RANKS:
            yield f"{name} {size:g}: from 1 to {MOST_RANKS:,}"


def doubts(s: Server) -> Iterator[str]:
    """What may be wrong by what stands around a command: a server that sees fewer GPUs than it takes."""
    ids = s.facts.get("gpu_ids") or []
    if ids and s.engine != "llama.cpp" and len(ids) < s.gpus_here:
        yield f"the environment shows it {len(ids)} GPUs, the command takes {s.gpus_here}: it cannot start"


def _vllm(s: Server) -> Iterator[str]:
    """vllm 0.33.0: config/parallel.py and kv_transfer.py, entrypoints/cli/serve.py, engine/arg_utils.py."""
    if s.engine != "vllm":
        return
    line, tp, dcp = s.line, s.facts["tp"], s.facts.get("dcp")
    if dcp and s.facts.get("cp") is None and tp % dcp:
        yield f"--decode-context-parallel-size {dcp}: does not divide --tensor-parallel-size {tp}"
    if line.on("--enable-eplb") and not line.on("--enable-expert-parallel"):
        yield "--enable-eplb: needs --enable-expert-parallel"
    if line.on("--headless") and (line.number("--api-server-count") or 0) > 0:
        yield "--api-server-count: a headless node has no API server"
    if (line.number("--nnodes") or 1) > 1 and line.get("--distributed-executor-backend") == "ray":
        yield "--nnodes: only with the mp, uni or external_launcher backend, not with ray"
    external = line.on("--data-parallel-external-lb") or "dp_rank" in s.facts
    if line.on("--data-parallel-hybrid-lb") and external:
        yield "--data-parallel-hybrid-lb: one way to balance load only, hybrid or external"
    if s.facts.get("kv_connector") and not s.facts.get("kv_role"):
        yield "--kv-transfer-config: a connector needs kv_role (kv_producer, kv_consumer or kv_both)"
    local = s.facts.get("dp_local")
    if local and s.facts["dp"] % local:
        yield f"--data-parallel-size-local {local}: does not divide --data-parallel-size {s.facts['dp']}"


def _sglang(s: Server) -> Iterator[str]:
    """sglang 0.5.23: arg_groups/validation_hook.py, parallel_hook.py."""
    if s.engine != "sglang":
        return
    line, tp, pp, attn = s.line, s.facts["tp"], s.facts["pp"], s.facts.get("attn_dp")
    nodes = line.number("--nnodes") or 1
    if tp * pp % nodes:
        yield f"--tp-size {tp}: tp x pp = {tp * pp} ranks do not divide over --nnodes {nodes}"
    if attn and tp % attn:
        yield f"--attn-dp-size {attn}: does not divide --tp-size {tp}"
    if line.number("--attn-dp-size") and (line.number("--dp-size") or 1) > 1:
        yield "--dp-size: not together with --attn-dp-size, which is the new spelling of attention dp"
    if not attn and (line.number("--dp-size") or 1) > 1 and nodes > 1:
        yield "--dp-size: replicas of one command stand on one node only"
    names = (
        "--enable-prefill-cp",
        "--enable-dsa-prefill-context-parallel",
        "--enable-nsa-prefill-context-parallel",
    )
    for name in (name for name in names if pp > 1 and line.on(name)):
        yield f"{name}: prefill context parallelism refuses --pp-size {pp}"
    dense = line.number("--moe-dense-tp-size")
    if dense not in (None, 1, tp):
        yield f"--moe-dense-tp-size {dense}: unset, 1 or {tp} (--tp-size)"
    chunk, page = s.facts.get("chunked_prefill_size"), line.number("--page-size")
    if chunk and page and chunk > 0 and chunk % page:
        yield f"--chunked-prefill-size {chunk}: no multiple of --page-size {page}"
    ep = s.facts["ep"]
    if ep and tp % ep:
        yield f"--ep-size {ep}: does not divide --tp-size {tp}"


def _trtllm(s: Server) -> Iterator[str]:
    """TensorRT-LLM: exported configurations (moe_tp x moe_ep = tp)."""
    tp, ep = s.facts["tp"], s.facts["ep"]
    if s.engine == "trtllm" and ep and tp % ep:
        yield f"--ep_size {ep}: does not divide --tp_size {tp}"


RULES: tuple[Rule, ...] = (_sizes, _partition, _vllm, _sglang, _trtllm)

"""What an engine starts at all: on which devices, with which formats there, and how it divides a stage.

A table of its own, by engines' pages and sources: vLLM 0.33, "Quantization: supported hardware",
"Installation: GPU", config/parallel.py; SGLang 0.5.23, server documentation, arg_groups/parallel_hook.py;
TensorRT-LLM 1.0 to 1.3, "Supported hardware", "Quantization: hardware support matrix", llmapi/llm_args.py;
llama.cpp, docs/build.md, server README. 16 bits run wherever an engine does.
"""

from __future__ import annotations

from collections.abc import Iterator

from cluster_configs.schema import Device
from planner.check.case import Case
from planner.check.violation import Violation
from planner.plans.schema import Replica

Generations = frozenset[str]

BLACKWELL = frozenset({"blackwell_dc", "blackwell_rtx"})
HOPPER = BLACKWELL | {"hopper"}  # and later, as all that follow
ADA = HOPPER | {"ada"}
AMPERE = ADA | {"ampere"}
TURING = AMPERE | {"turing"}
MI300 = frozenset({"cdna3", "cdna4"})
GAUDI = frozenset({"gaudi2", "gaudi3"})
INT8 = TURING - BLACKWELL
ANY_GGUF = TURING | MI300 | {"pascal", "volta", "xe", "xe2", "rdna3", "cdna2", "apple"}

RUNS: dict[str, Generations] = {
    "vllm": TURING | MI300 | GAUDI | {"volta", "xe2", "cdna2", "rdna3", "tpu"},
    "sglang": TURING | MI300,
    "trtllm": AMPERE,
    "llama.cpp": ANY_GGUF,
}
WEIGHTS: dict[str, dict[str, Generations]] = {
    "vllm": {
        "fp8": TURING | MI300 | GAUDI | {"xe2"},
        "fp8_block": TURING | MI300 | GAUDI,
        "nvfp4": TURING,
        "mxfp4": AMPERE | MI300,
        "int4_wo": TURING | {"volta", "xe2"},
        "int8": INT8,
    },
    "sglang": {
        "fp8": AMPERE | MI300,
        "fp8_block": ADA | MI300,
        "nvfp4": BLACKWELL,
        "mxfp4": HOPPER | MI300,
        "int4_wo": TURING,
        "int8": INT8,
    },
    "trtllm": {
        "fp8": ADA,
        "fp8_block": frozenset({"hopper", "blackwell_dc"}),
        "nvfp4": BLACKWELL,
        "mxfp4": HOPPER,
        "int4_wo": frozenset({"ampere", "ada", "hopper"}),
    },
    "llama.cpp": dict.fromkeys(("mxfp4", "int4_wo", "int8"), ANY_GGUF),
}
CACHE: dict[str, dict[str, Generations]] = {
    "vllm": {"fp8": AMPERE | MI300 | GAUDI | {"tpu"}},
    "sglang": {"fp8": AMPERE | MI300},
    "trtllm": {"fp8": AMPERE, "nvfp4": frozenset({"blackwell_dc"})},
    "llama.cpp": {},
}
COMMANDS = {
    "vllm": "vllm",
    "sglang": "sglang.launch_server",
    "trtllm": "trtllm-serve",
    "llama.cpp": "llama-server",
}
"""A word of the command that starts a server."""


def violations(case: Case) -> Iterator[Violation]:
    """Everything that the engine of a group refuses, and commands that start another one."""
    for index, replica in enumerate(case.plan.replicas):
        if replica.engine not in RUNS or case.card is None:
            continue
        where = f"replicas[{index}]"
        for device in {s.node_class: case.classes[s.node_class].device for s in replica.stages}.values():
            yield from _device(replica, device, case.card.moe, where)
        if reason := _split(replica, case.card.moe):
            yield Violation("split_refused", where, f"{replica.engine}: {reason}")
        argv = replica.launch.argv if replica.launch else []
        if argv and COMMANDS[replica.engine] not in argv:
            told = f"`{' '.join(argv)[:40]}` does not start {replica.engine}"
            yield Violation("another_engine", f"{where}.launch.argv", told)


def _device(replica: Replica, device: Device, moe: bool, where: str) -> Iterator[Violation]:
    """A device that the engine runs on, with the formats that the group has there."""
    engine, on = replica.engine, f"on {device.name} ({device.generation})"
    if device.generation not in RUNS[engine]:
        yield Violation("device_refused", f"{where}.engine", f"{engine} does not run {on}")
        return
    used, weights = replica.precision, WEIGHTS[engine]
    formats = [("weights", used.weights, weights), ("kv", used.kv, CACHE[engine])]
    for field, name, table in [*formats, *([("experts", used.experts, weights)] if moe else [])]:
        if name != "bf16" and device.generation not in table.get(name, ()):
            text = f"{engine} has no {name} {on}"
            yield Violation("format_refused", f"{where}.precision.{field}", text)


def _split(r: Replica, moe: bool) -> str | None:
    """Why the engine does not divide a stage so."""
    ranks = r.tp * r.attn_dp * r.cp
    if r.engine == "llama.cpp" and max(ranks, r.moe_tp, r.ep) > 1:
        return "stages are one GPU each, or several by pp"
    if not moe and (r.attn_dp > 1 or r.ep > 1):
        return f"attention-dp {r.attn_dp} and ep {r.ep} are for experts, which the model has none of"
    if r.redundant_experts and (not moe or r.ep == 1):
        return f"{r.redundant_experts} copies of experts, which are not spread over ranks"
    if r.cp > 1 and r.engine != "vllm":
        return f"cp {r.cp}: caches are not divided by context"
    if r.engine == "vllm" and r.ep not in (1, ranks):
        return f"ep {r.ep} in stages of {ranks} GPUs: it is a switch, 1 or all"
    if r.engine == "trtllm" and r.attn_dp > 1 and r.tp > 1:
        return f"attention-dp {r.attn_dp} with tp {r.tp}: it takes all ranks"
    return None

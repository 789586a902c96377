"""Names of engine parameters, the same in every report."""

from __future__ import annotations

TELLS = {
    "gemm_flops": "GEMMs, compute",
    "gemm_bytes": "GEMMs, memory",
    "decode_attention": "decode attention",
    "prompt_attention": "prompt attention",
    "experts": "experts",
    "expert_flops": "experts, compute",
    "recurrent": "recurrent layers",
    "launch": "kernel launches",
    "expert_launch": "expert launches",
    "messages": "collectives",
    "message_wait_s": "waits of ranks",
    "step_s": "host, a step",
    "sequence_s": "host, a sequence",
    "prompt_layer_s": "steps of prompts",
    "request_s": "a request's start",
    "arrival_s": "intake of prompts",
    "together": "prompts that meet",
    "attn_dp": "attention dp",
}
"""Parameters of `Tuning` in a few words."""

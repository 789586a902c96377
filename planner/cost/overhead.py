"""What an engine adds to its kernels: the host's share of a step, of a sequence, and of ranks that wait for
each other.

A handful of constants an engine, set by hand on public end-to-end measurements (see benchmarks/accuracy.py),
not by a
fit: each stands for something that happens. Seconds.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Overhead:
    """step_s: scheduling, launching and sampling of one step that the GPU waits for; sequence_s: the same for
    one decoding sequence; request_s: from a request's arrival to its prompt being scheduled, and from its
    first token to the client; attn_dp_factor: how much longer a step of uneven attention-dp ranks takes."""

    step_s: float
    sequence_s: float
    request_s: float
    attn_dp_factor: float = 1.6


OVERHEADS = {
    "vllm": Overhead(step_s=0.5e-3, sequence_s=5e-6, request_s=0.03),
    "sglang": Overhead(step_s=0.1e-3, sequence_s=3e-6, request_s=0.2),
    "trtllm": Overhead(step_s=0.1e-3, sequence_s=5e-6, request_s=0.08),
    "llama.cpp": Overhead(step_s=0.3e-3, sequence_s=30e-6, request_s=0.02),
}

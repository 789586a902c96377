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
    one decoding sequence; attn_dp_factor: how much longer a step of unevenly loaded attention-dp ranks
    takes."""

    step_s: float
    sequence_s: float
    attn_dp_factor: float


OVERHEADS = {
    "vllm": Overhead(step_s=1.0e-3, sequence_s=8e-6, attn_dp_factor=1.6),
    "sglang": Overhead(step_s=1.0e-3, sequence_s=8e-6, attn_dp_factor=1.6),
    "trtllm": Overhead(step_s=0.8e-3, sequence_s=5e-6, attn_dp_factor=1.6),
    "llama.cpp": Overhead(step_s=0.3e-3, sequence_s=30e-6, attn_dp_factor=1.6),
}

"""What a served engine makes of its kernels: factors on their measured times, and seconds beside them.

Kernels are measured alone, in loops. Inside an engine they run hotter, wait for the slowest rank and for the
host, and prompts meet other prompts. Each figure stands for one such thing; what they are for an engine, a
device or a precision is a `Calibration` (planner/cost/calibration.py).
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from planner.designs.shape import Floats


@dataclass(frozen=True)
class Tuning:
    """Factors (1: as measured alone) and seconds.

    kernels: all kernels; gemm_flops, gemm_bytes: GEMMs where FLOPs or bytes bound them; decode_attention,
    prompt_attention, experts, recurrent: those kernels; expert_flops: what grows with experts' tokens (FLOPs,
    rows, sorting), beside `experts`; launch, expert_launch: the fixed time of kernels; messages: collectives.
    message_wait_s: wait for the slowest rank before each collective, a doubling of ranks; step_s: scheduling,
    launching and sampling of a step that the GPU waits for; sequence_s: the same a decoding sequence;
    prompt_layer_s: what launching a step with prompts takes without captured graphs, a dense layer, others by
    their kernels (launches.py); latent_layer_s: what a layer with latent attention takes beside; captured:
    the share of both that is left where graphs are captured in pieces; request_s: from arrival to being
    scheduled and from the first token to the client; text_token_s: the host's time for a token of a prompt's
    text before that; arrival_s: the host's time to take in a prompt while others arrive with it; together:
    odds that a prompt of a closed loop comes with all others (at the start, and for ever where requests of
    one length stay in step), so that its first token waits for half of their prompts; attn_dp: a step of
    attention-dp ranks against the sum of its kernels.
    """

    kernels: float = 1.0
    gemm_flops: float = 1.0
    gemm_bytes: float = 1.0
    decode_attention: float = 1.0
    prompt_attention: float = 1.0
    experts: float = 1.0
    expert_flops: float = 1.0
    recurrent: float = 1.0
    launch: float = 1.0
    expert_launch: float = 1.0
    messages: float = 1.0
    message_wait_s: float = 0.5e-6
    step_s: float = 0.2e-3
    sequence_s: float = 5e-6
    prompt_layer_s: float = 0.2e-3
    latent_layer_s: float = 0.5e-3
    captured: float = 0.4
    request_s: float = 0.03
    text_token_s: float = 3e-6
    arrival_s: float = 2e-3
    together: float = 0.15
    attn_dp: float = 1.05

    def on_kernel(self, kernel: str) -> tuple[float, float]:
        """Factors on a kernel's time where FLOPs bind and where bytes do.

        >>> Tuning(kernels=1.5, gemm_bytes=2.0).on_kernel("gemm")
        (1.5, 3.0)
        """
        match kernel:
            case "gemm":
                own = (self.gemm_flops, self.gemm_bytes)
            case "moe":
                own = (self.experts * self.expert_flops, self.experts)
            case "decode" | "mla_decode":
                own = (self.decode_attention, self.decode_attention)
            case "prefill" | "mla_prefill":
                own = (self.prompt_attention, self.prompt_attention)
            case "elementwise":
                own = (1.0, 1.0)
            case _:  # recurrent mixers, scoring of sparse attention: the kernels known least
                own = (self.recurrent, self.recurrent)
        return self.kernels * own[0], self.kernels * own[1]

    def started_s(self, isl: Floats | float) -> Floats:
        """Seconds that the host adds to the first token of prompts of `isl` tokens."""
        return np.asarray(self.request_s + self.text_token_s * isl)

    def on_launch(self, kernel: str) -> float:
        """Factor on a kernel's fixed time."""
        return self.kernels * (self.expert_launch if kernel == "moe" else self.launch)


PARAMETERS = tuple(field.name for field in fields(Tuning))
"""All names, in order."""
AS_MEASURED = Tuning(
    message_wait_s=0.0, prompt_layer_s=50e-6, latent_layer_s=0.0, request_s=0.05, text_token_s=0.0
)
"""Kernels and collectives as they are alone; engines of 2024 add their own to it (efficiency/era)."""

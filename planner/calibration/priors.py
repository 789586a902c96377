"""How far a user's servers may be from the shipped parameters, before any is measured.

Standard deviations of factors' logarithms at the levels that only a user's own file has. They say what the
shipped fit leaves open: groups that it has not seen are off by some 8 % in TPOT and 25 % in TTFT
(`python -m benchmarks.accuracy`), most of all for what host and prompts take. Each parameter has a spread,
and each level a share of it: the most a model's own, less an engine's on the device, least the device's.
Chosen with `python -m benchmarks.calibration_gain`, which hardly feels them.
"""

from __future__ import annotations

from planner.calibration.fitting import Noise, Spread
from planner.cost.tuning import PARAMETERS

LEVELS = {"device": 0.3, "engine+device": 0.5, "engine+device+model": 1.0, "engine+device+model+gemm": 0.5}
"""Level → share of a parameter's spread, from wide to narrow."""

KERNEL = 0.2
"""Of parameters not named below: kernels, measured alone, in an engine."""

OWN = {
    "prompt_attention": 1.0,
    "prompt_layer_s": 1.0,
    "latent_layer_s": 1.0,
    "message_wait_s": 0.6,
    "step_s": 0.6,
    "sequence_s": 0.6,
    "request_s": 0.6,
    "text_token_s": 0.6,
    "arrival_s": 0.6,
    "together": 0.6,
}
"""Parameter → spread: of engines' own time, of prompts (kernels chosen badly take several times as long), of
cache room, which flags set."""

SPREAD: Spread = {
    name: {level: share * OWN.get(name, KERNEL) for level, share in LEVELS.items()} for name in PARAMETERS
}
NOISE = Noise(ttft=0.2, tpot=0.04, ttft_group=0.0, tpot_group=0.0)
"""Of a run repeated on the same server. No group has an offset of its own: what it has is what is sought."""

"""What the public recipes of disaggregated runs say that their rows do not, or say wrongly.

InferenceX launched these runs from srt-slurm's `recipes/` (github.com/ishandhanani/srt-slurm; the older ones
are kept in forks, connorcarpenter15's among them). Each line of `split_recipes.csv` is one of them:

- `prefill_tp`, `prefill_attn_dp`, `prefill_ep`: 17 runs are listed with two prefill designs, of which the
  measurements differ by 1.6 % in the median; their recipes have one.
- `prompts` and `step_tokens`: most of a step of one prefill rank, TensorRT-LLM's `max_batch_size` and
  `max_num_tokens`; SGLang's `--chunked-prefill-size` over the attention-dp ranks, `--max-prefill-tokens`
  (16,384 unless told) and `--max-total-tokens`, whichever is least, and `--max-running-requests`.
- `places`: sequences of one decode rank, `max_batch_size` and `--max-running-requests`.
- `prefill_kernels`, `decode_kernels` of experts: `moe_config.backend`, `--moe-runner-backend`; with DeepEP
  SGLang takes DeepGEMM's. Blank is what the engine takes by itself, and CuteDSL's, which no table has.
- `receive_steps`: decode steps between looks at new requests, `--scheduler-recv-interval`.
- `rate_rps`: requests/s at which the first wave is sent; blank is all at once.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.truth import Row

RECIPES = Path(__file__).with_suffix(".csv")

SAME = {
    "engine": "backend",
    "device": "system",
    "precision": "gemm_quant_mode",
    "isl": "isl",
    "prefill_workers": "prefill_num_workers",
    "decode_workers": "decode_num_workers",
    "decode_gpus": "decode_gpus",
}
"""Column of a recipe -> column of a run that has to say the same."""


@dataclass(frozen=True)
class Recipe:
    """What prefill and decode workers are told; infinite, zero or blank where nothing is. `path` in
    `recipes/`; `prefill`: tp, attention-dp and ep of prefill workers; `kernels` of the experts of both."""

    path: str = ""
    prefill: tuple[int, int, int] | None = None
    prompts: float = np.inf
    step_tokens: int = 0
    places: float = np.inf
    kernels: tuple[str, str] = ("", "")
    receive_steps: float = 1.0
    rate_rps: float = np.inf

    @classmethod
    def of(cls, line: Row) -> Recipe:
        return cls(
            path=line["recipe"],
            prefill=(int(line["prefill_tp"]), int(line["prefill_attn_dp"]), int(line["prefill_ep"])),
            prompts=float(line["prompts"] or np.inf),
            step_tokens=int(line["step_tokens"]),
            places=float(line["places"] or np.inf),
            kernels=(line["prefill_kernels"], line["decode_kernels"]),
            receive_steps=float(line["receive_steps"] or 1.0),
            rate_rps=float(line["rate_rps"] or np.inf),
        )


UNKNOWN = Recipe()
"""Of a run whose recipe is not known."""


def recipe_of(row: Row, concurrency: int | None) -> Recipe | None:
    """The one with the workers of a run and its requests in flight; whatever these are where None."""
    for line in _lines():
        flying = line["concurrency"].split()
        same = all(_plain(row[column]) == line[name] for name, column in SAME.items())
        if same and (concurrency is None or str(concurrency) in flying):
            return Recipe.of(line)
    return None


def _plain(cell: str) -> str:
    """A whole number without its decimal point, as other text is.

    >>> _plain("8.0"), _plain("fp8")
    ('8', 'fp8')
    """
    return cell.removesuffix(".0")


@cache
def _lines() -> tuple[Row, ...]:
    with RECIPES.open(encoding="utf-8", newline="") as file:
        return tuple(csv.DictReader(file))

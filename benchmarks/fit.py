"""Fit the engine parameters to public serving runs and write planner/cost/calibration.yaml.

`python -m benchmarks.fit`: some minutes, most of them for the fits without each group. Clean aggregated rows.
The spreads below are assumptions on how far factors scatter at each level; they were chosen by the error on
held-out groups, and some moved half of the way to what the rows themselves say (`benchmarks/spreads.py`).
"""

from __future__ import annotations

import sys
from dataclasses import fields
from typing import Any

import numpy as np

from benchmarks.held_out import (
    CHOSEN,
    FOLDS,
    added,
    as_held,
    bands,
    bench_of,
    of_today,
    predictions,
    sigmas,
    traits_of,
)
from benchmarks.printouts import rows_of_fit
from benchmarks.scores.picks import flattery, pick
from benchmarks.truth import RUNS
from planner.calibration.bench import TPOT, TTFT, Bench
from planner.calibration.fitting import Fit, Noise, Spread, calibrated
from planner.cost.calibration import SHIPPED, Calibration, shipped
from planner.cost.tuning import Tuning

MODEL = "engine+model"
"""What an engine makes of one model, whatever the device: runs on other devices tell it."""

KERNEL = {"all": 0.05, "engine": 0.185, "engine+generation": 0.02}
ERA = {"era": 0.1}
ENGINE = {"all": 0.2, "engine": 1.0}
SERVER = "engine+device+model"
"""The level of what a server has of its own in first tokens, by flags that rows do not state. Told apart so
that each server has one say in what all share; not shipped, and unknown of servers held out."""

FIRST_TOKEN = {"all": 0.3, "engine": 0.5, "engine+generation": 0.15, "host": 0.5, MODEL: 0.6, SERVER: 0.3}
GEMM = {**KERNEL, "gemm": 0.1, "engine+gemm": 0.025}
EXPERTS = {**KERNEL, "experts": 0.05, "engine+experts": 0.05}

SPREAD: Spread = {
    "kernels": {"engine": 0.13, "generation": 0.13, "engine+generation": 0.13, MODEL: 0.1, **ERA},
    "gemm_flops": GEMM,
    "gemm_bytes": GEMM,
    "decode_attention": KERNEL,
    "prompt_attention": KERNEL,
    "experts": {**EXPERTS, "engine": 0.08, **ERA},
    "expert_flops": {"all": 0.2, "engine": 0.05, "engine+generation": 0.1, "experts": 0.2, MODEL: 0.08},
    "recurrent": {"all": 0.5},
    "launch": {**KERNEL, **ERA, "gemm": 0.15, "fault": 0.7},
    "expert_launch": EXPERTS,
    "messages": KERNEL,
    "message_wait_s": ENGINE,
    "step_s": ENGINE,
    "sequence_s": ENGINE,
    "prompt_layer_s": {**FIRST_TOKEN, "all": 0.5, "engine": 0.7, "engine+generation": 0.2, "device": 0.5},
    "latent_layer_s": {"all": 0.5, "engine": 0.5, "engine+generation": 0.7, "host": 0.5, MODEL: 0.6},
    "captured": {"all": 0.5, "engine": 0.3},
    "request_s": {**FIRST_TOKEN, "engine": 0.15},
    "text_token_s": {"all": 0.2, "engine": 0.3},
    "arrival_s": FIRST_TOKEN,
    "together": FIRST_TOKEN,
}
"""Parameter → level → standard deviation of its factor's logarithm."""
NOISE = Noise(ttft=0.35, tpot=0.08, ttft_group=0.1, tpot_group=0.015)

HAND_SET = {
    "step_s": {"llama.cpp": 1.5},
    "sequence_s": {"llama.cpp": 6.0},
    "prompt_layer_s": {"llama.cpp": 0.4},
    "latent_layer_s": {"llama.cpp": 0.4},
    "request_s": {"llama.cpp": 0.57},
}
"""Of engines without public serving runs."""

HEADER = """\
# What engines make of their kernels: base values (docs: planner/cost/tuning.py) times a factor at every level
# that holds for a server (planner/cost/calibration.py), and the spread of errors on held-out groups.
# Fitted to measurements from aiconfigurator, Copyright (c) NVIDIA CORPORATION & AFFILIATES, and InferenceX,
# Copyright (c) SemiAnalysis LLC; both Apache-2.0.
"""


def fitted(bench: Bench, spread: Spread = SPREAD, noise: Noise = NOISE) -> Fit:
    """The fit of all rows, at the more probable of the optima that are found from the priors and from what
    shipped last."""
    fits = []
    for start in (Calibration(), shipped()):
        fit = Fit(bench, Calibration(), spread, noise)
        fit.begin(start)
        fit.run()
        fits.append(fit)
    return min(fits, key=Fit.loss)


def shared(fit: Fit) -> Calibration:
    """What ships: the factors of all levels but a server's own."""
    told = [i for i, effect in enumerate(fit.effects) if effect.level != SERVER]
    return calibrated(fit.around, tuple(fit.effects[i] for i in told), fit.x[told])


def written(fit: Fit, bands: dict[str, Any], picked: float, about: dict[str, Any]) -> str:
    """The YAML text: factors to three digits, those within half a per cent of 1 left out."""
    factors: dict[str, Any] = {}
    for name, levels in shared(fit).factors.items():
        for level, keys in levels.items():
            felt = {key: float(f"{value:.3g}") for key, value in keys.items() if abs(value - 1) > 0.005}
            if felt:
                factors.setdefault(name, {})[level] = felt
    for name, levels in HAND_SET.items():
        factors.setdefault(name, {}).setdefault("engine", {}).update(levels)
    lines = [*HEADER.splitlines(), "about:", *(f"  {key}: {value}" for key, value in about.items()), "base:"]
    lines += [f"  {f.name}: {getattr(Tuning(), f.name):g}" for f in fields(Tuning)]
    lines.append(f"picked: {picked:g}")
    for title, table in (("factors", factors), ("bands", bands)):
        lines.append(f"{title}:")
        for name, levels in table.items():
            lines.append(f"  {name}:")
            for level, keys in levels.items():
                cells = ", ".join(f"{key}: {value:.3g}" for key, value in keys.items())
                lines.append(f"    {level}: {{{cells}}}")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Fit, judge on held-out groups, write."""
    if not RUNS.is_file():
        print("skipped: no measurements beside the repository", file=sys.stderr)
        return
    every = rows_of_fit()
    bench, told = bench_of(every), of_today(every)
    fit = fitted(bench)
    rows, measured = [every[i] for i in told], bench.measured[told]
    of_all = [FOLDS[CHOSEN](r) for r in every]
    groups, held = [of_all[i] for i in told], predictions(fit, of_all)[told]
    errors = measured - held
    about = {
        "rows": len(every),
        "groups": len(set(groups)),
        "source": "public serving runs of aiconfigurator and InferenceX (Apache-2.0), clean aggregated rows; "
        "on AMD's GPUs some of public threads",
        "written_by": "python -m benchmarks.fit",
    }
    for kind, column in (("ttft", TTFT), ("tpot", TPOT)):
        size = np.abs(np.expm1(-errors[:, column]))
        about[f"held_out_{kind}"] = f"median {np.median(size):.1%}, P90 {np.quantile(size, 0.9):.1%}"
    servers, more = traits_of(bench, told), added(bench)[told]
    scored = as_held(rows, measured, held, sigmas(errors, more, servers, groups))
    chosen, every_rate = flattery(scored.rate(), scored.measured_rate(), pick(scored, 0.5))
    picked = max(0.0, round(chosen - every_rate, 3))
    text = written(fit, bands(errors, more, servers, groups), picked, about)
    SHIPPED.write_text(text, encoding="utf-8")
    print(f"{SHIPPED.name}: " + "; ".join(f"{k} {v}" for k, v in about.items() if k.startswith("held_out")))


if __name__ == "__main__":
    main()

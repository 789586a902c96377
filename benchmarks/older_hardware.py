"""Older and other hardware: `python -m benchmarks.older_hardware [--fit]`.

Scores predictions against public runs of static batches (`older_runs.py`) with a handful of figures for each
device or engine; `--fit` finds them and writes them to planner/cost/efficiency/.

* A100, H100, GH200 have measured kernels: all that is fitted is what the engines of 2024 added to a step, to
  each of its sequences and to a message, one set of three for the three devices; for llama.cpp the
  bandwidth its kernels reach and the time each takes to launch.
* MI250, MI300X, Gaudi 2 have none: six figures of kernels and links, for MI250 and MI300X beside the old
  engine's from the other three, for Gaudi 2 beside the planner's own of vLLM.

Least squares on log seconds, outliers damped (soft L1 beyond 10 %), a figure that the runs leave open stays
near its start. Held out: all models of one shape (`Runs.family`) are predicted by a fit without them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from benchmarks.efficiency_files import lines, three_digits
from benchmarks.older_runs import DEVICES, ENGINES, RUNS, Runs, read
from planner.cost.calibration import Calibration
from planner.cost.efficiency.reading import HERE, load
from planner.cost.model import CostModel
from planner.cost.shape import Floats
from planner.cost.tuning import AS_MEASURED
from planner.predictions import usual_node

Figures = dict[str, float]

NVIDIA = ("A100", "H100", "GH200")
ERA = "era/2024"
"""File of what is the engines' own."""

HOST: Figures = {"step_us": 1000.0, "sequence_us": 30.0, "message_wait_us": 5.0}
KERNELS: Figures = {"compute": 0.4, "memory": 0.6, "cache": 0.5, "launch_us": 10.0}
LINKS: Figures = {"link_us": 20.0, "link_share": 0.4}
SLOW: Figures = {"memory": 0.6, "launch_us": 10.0}
SHARES = ("compute", "memory", "cache", "link_share")
"""Figures that are at most 1."""

DAMPED = 0.1
PRIOR = 0.1
"""Weight of one row against log(figure / its start)."""

ERROR = 0.15
"""About what models that were not fitted to are off by."""

ANCHORS = [256 * 4**k for k in range(12)]
"""Bytes at which a link's time is written down."""

HEADER = """\
# {what}
# Source: whole runs of LLM-Inference-Bench (github.com/argonne-lcf/LLM-Inference-Bench), Copyright (c)
# UChicago Argonne, LLC, BSD-3-Clause; fitted. Forms and units: reading.py. By benchmarks/older_hardware.py.
"""


@dataclass(frozen=True)
class Subject:
    """What is fitted at once: `figures` at their start, shared by `hardware` under one framework; `engine` is
    its key in the files, `host` the key of the engine's own time (empty: the planner's)."""

    engine: str
    hardware: tuple[str, ...]
    framework: str
    figures: Figures
    host: str = ""

    @property
    def file(self) -> str:
        """Name of the efficiency file that keeps the kernels."""
        return ERA if len(self.hardware) > 1 else DEVICES[self.hardware[0]]


SUBJECTS = (
    Subject("vllm-0.6", NVIDIA, "vLLM", HOST, "vllm-0.6"),
    Subject("trtllm-0.12", NVIDIA, "TensorRT-LLM", HOST, "trtllm-0.12"),
    Subject("llama.cpp", NVIDIA, "llama.cpp", SLOW),
    Subject("vllm-0.6", ("MI250",), "vLLM", KERNELS | LINKS, "vllm-0.6"),
    Subject("llama.cpp", ("MI250",), "llama.cpp", SLOW),
    Subject("vllm-0.6", ("MI300X",), "vLLM", KERNELS | LINKS, "vllm-0.6"),
    Subject("llama.cpp", ("MI300X",), "llama.cpp", SLOW),
    Subject("vllm", ("Gaudi2",), "Deepspeed", KERNELS | LINKS),
)


@dataclass(frozen=True)
class Setting:
    """What is laid over the planner's own figures: kernels that are looked up first, the engine's
    microseconds (empty: the planner's), and collectives' anchors."""

    kernels: dict[str, Any]
    host: Figures
    links: dict[str, Any]


UNCHANGED = Setting({}, {}, {})


def seconds(runs: Runs, setting: Setting) -> Floats:
    """Predicted seconds of each run: prompts in chunks, then `osl - 1` steps at a growing context."""
    own = {name.replace("_us", "_s"): 1e-6 * value for name, value in setting.host.items()}
    calibration = Calibration(replace(AS_MEASURED, **own)) if own else None
    node = usual_node(DEVICES[runs.hardware])
    cost = CostModel(runs.card, node, ENGINES[runs.framework], runs.used, calibration)
    cost.fits.shelves.insert(0, ("device", setting.kernels))
    cost.links.table = cost.links.table | setting.links

    def step(sequences: Floats | float, context: Floats, tokens: Floats | float) -> Floats:
        return cost.step_s(runs.designs, sequences, context, tokens, runs.isl / 2)

    prompts = runs.sequences * runs.isl / runs.chunk * step(0.0, runs.isl, runs.chunk)
    each = [step(runs.sequences, runs.isl + at * runs.osl, 0.0) for at in (0.211, 0.789)]  # Gauss, 2 points
    return np.asarray(runs.waves * (prompts + (runs.osl - 1) * sum(each) / 2))


def setting(figures: Figures, host: Figures, intra_bytes_per_s: float) -> Setting:
    """The figures in the form of the efficiency files; `host` where they have none of their own."""
    own = {name: figures[name] for name in HOST if name in figures}
    return Setting(
        kernels(figures) if "memory" in figures else {},
        own or host,
        {"all_reduce": anchors(figures, intra_bytes_per_s)} if "link_us" in figures else {},
    )


def kernels(figures: Figures) -> dict[str, Any]:
    """GEMMs, experts and attention that share their efficiencies and the time to launch one."""
    f = KERNELS | figures
    t0 = {"t0_us": f["launch_us"]}
    gemm = {"compute": f["compute"], "memory": f["memory"]} | t0
    return {
        "gemm": {"bf16": gemm | {"p": 1.5, "error": ERROR}},
        "decode": {"bf16": {128: {"compute": 0.2, "memory": f["cache"]} | t0 | {"p": 2.0, "error": ERROR}}},
        "prefill": {"bf16": {128: {"compute": 0.5, "memory": 0.5} | t0 | {"p": 1.1, "error": ERROR}}},
        "moe": {"bf16": gemm | {"p": 1.5, "tokens": 0.5, "error": ERROR}},
    }


def anchors(figures: Figures, intra_bytes_per_s: float) -> dict[int, list[list[float]]]:
    """(bytes, microseconds) of an all-reduce over 2, 4, 8: a fixed time and a share of the link."""
    rate = 1e-6 * figures["link_share"] * intra_bytes_per_s
    return {
        gpus: [
            [size, three_digits(figures["link_us"] + 2 * (gpus - 1) / gpus * size / rate)] for size in ANCHORS
        ]
        for gpus in (2, 4, 8)
    }


def fit(subject: Subject, groups: list[Runs], host: Figures) -> Figures:
    """The figures that predict the runs of `groups` best."""
    names = list(subject.figures)
    prior = np.log([subject.figures[n] for n in names])
    highest = np.array([0.0 if n in SHARES else np.log(2000.0) for n in names])
    measured = np.log(np.concatenate([g.seconds for g in groups]))

    def residuals(logs: Floats) -> Floats:
        found = dict(zip(names, np.exp(logs), strict=True))
        predicted = np.concatenate([seconds(g, settled(g, found, host)) for g in groups])
        return np.concatenate([np.log(predicted) - measured, PRIOR * (logs - prior)])

    best = least_squares(
        residuals,
        np.minimum(prior, highest - 1e-3),
        bounds=(prior - 6.0, highest),
        loss="soft_l1", f_scale=DAMPED, diff_step=1e-3, xtol=1e-4, ftol=1e-4,
    )  # fmt: skip
    return {n: three_digits(float(np.exp(x))) for n, x in zip(names, best.x, strict=True)}


def settled(runs: Runs, figures: Figures, host: Figures) -> Setting:
    """`setting` on the node that the runs were made on."""
    return setting(figures, host, usual_node(DEVICES[runs.hardware]).intra_bytes_per_s)


def without(
    subject: Subject, groups: list[Runs], host: Figures, part: Callable[[Runs], object]
) -> list[Floats]:
    """Predicted seconds of each group by a fit to those of other parts; nan where there is no other."""
    found = {}
    for each in {part(g) for g in groups}:
        rest = [g for g in groups if part(g) != each]
        found[each] = fit(subject, rest, host) if rest else None
    return [
        np.full(len(g.seconds), np.nan) if (f := found[part(g)]) is None else seconds(g, settled(g, f, host))
        for g in groups
    ]


def shipped(subject: Subject, runs: Runs) -> Setting:
    """What the efficiency files say."""
    kernels = load(subject.file).get("engines", {}).get(subject.engine, {})
    host = load(ERA).get("overheads", {}).get(subject.host, {})
    return Setting(kernels, host, kernels.get("links", {}))


def fit_all(groups: list[Runs]) -> list[Figures]:
    """All figures, by subject; one that shares an engine's time takes it from the one before."""
    found: list[Figures] = []
    hosts: dict[str, Figures] = {}
    for subject in SUBJECTS:
        found.append(fit(subject, _of(subject, groups), hosts.get(subject.host, {})))
        hosts.setdefault(subject.host, {name: found[-1][name] for name in HOST if name in found[-1]})
        print(subject.engine, *subject.hardware, found[-1], file=sys.stderr, flush=True)
    return found


def write(found: Iterable[Figures]) -> None:
    """The efficiency files of everything fitted."""
    files: dict[str, dict[str, Any]] = {}
    for subject, figures in zip(SUBJECTS, found, strict=True):
        file = files.setdefault(subject.file, {"engines": {}, "links": {}, "overheads": {}})
        made = setting(figures, {}, usual_node(DEVICES[subject.hardware[0]]).intra_bytes_per_s)
        if made.kernels:
            file["engines"][subject.engine] = made.kernels
        if made.links:  # an old engine's are its own: today's collectives are faster
            of_old = subject.engine not in ENGINES.values()
            (file["engines"][subject.engine] if of_old else file)["links"] = made.links
        files[ERA]["overheads"] |= {subject.host: made.host} if made.host else {}
    for name, content in files.items():
        what = (
            "Engines of 2024 on devices with measured kernels" if name == ERA else f"{name}, engines of 2024"
        )
        text = HEADER.format(what=what) + "\n".join(lines({k: v for k, v in content.items() if v}, 0)) + "\n"
        (HERE / f"{name}.yaml").parent.mkdir(exist_ok=True)
        (HERE / f"{name}.yaml").write_text(text, encoding="utf-8")
    load.cache_clear()


def table(groups: list[Runs]) -> Iterator[str]:
    """Errors of throughput by device and engine: with the planner's own figures, with those of the files, and
    of fits without the model's shape or without the device."""
    yield (
        f"{'device':8} {'engine':14} {'runs':>5} {'figures':>8} | {'own':>6} | {'files':>6} {'P90':>6} "
        f"{'bias':>6} | {'no model':>8} {'P90':>6} | no device"
    )
    every: dict[str, list[Floats]] = {hw: [] for hw in DEVICES}
    for subject in SUBJECTS:
        members = _of(subject, groups)
        host = {} if "step_us" in subject.figures else load(ERA).get("overheads", {}).get(subject.host, {})
        guessed = without(subject, members, host, lambda g: g.family)
        elsewhere = without(subject, members, host, lambda g: g.hardware)
        for hardware in subject.hardware:
            columns = [
                np.concatenate(
                    [_off(g, x) for g, x in zip(members, xs, strict=True) if g.hardware == hardware]
                )
                for xs in (
                    [seconds(g, UNCHANGED) for g in members],
                    [seconds(g, shipped(subject, g)) for g in members],
                    guessed,
                    elsewhere,
                )
            ]
            every[hardware] = [*every[hardware], np.stack(columns)]
            yield _line(hardware, subject.engine, len(subject.figures), np.stack(columns))
    for hardware, parts in every.items():
        yield _line(hardware, "all", 0, np.concatenate(parts, axis=1))


def _of(subject: Subject, groups: Iterable[Runs]) -> list[Runs]:
    return [g for g in groups if g.framework == subject.framework and g.hardware in subject.hardware]


def _off(runs: Runs, predicted: Floats) -> Floats:
    """Predicted throughput over measured, less one."""
    return np.asarray(runs.seconds / predicted - 1)


def _line(hardware: str, engine: str, figures: int, off: Floats) -> str:
    """One row of the table from errors of shape (4, n)."""
    own, files, guessed, elsewhere = np.abs(off)

    def q(x: Floats, share: float) -> str:
        x = x[np.isfinite(x)]
        return f"{np.quantile(x, share):6.1%}" if len(x) else f"{'–':>6}"

    return (
        f"{hardware:8} {engine:14} {off.shape[1]:5d} {figures or '':>8} | {q(own, 0.5)} | "
        f"{q(files, 0.5)} {q(files, 0.9)} {np.median(off[1]):+6.1%} | "
        f"{q(guessed, 0.5):>8} {q(guessed, 0.9)} | {q(elsewhere, 0.5):>9}"
    )


def main() -> None:
    """Fit if asked; print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fit", action="store_true", help="find the figures anew and write them")
    args = parser.parse_args()
    if not RUNS.is_file():
        print("skipped: no measurements beside the repository", file=sys.stderr)
        return
    groups, left_out = read()
    if args.fit:
        write(fit_all(groups))
    for line in table(groups):
        print(line)
    print(f"{sum(len(g.seconds) for g in groups)} runs; left out:")
    for reason, n in left_out.most_common():
        print(f"{n:6d} {reason}")


if __name__ == "__main__":
    main()

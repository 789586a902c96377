"""Older and other hardware: `python -m benchmarks.older_hardware [--fit]`.

Scores predictions against public runs of static batches (`older_runs.py`) with a handful of figures for each
device or engine; `--fit` finds them and writes them to planner/cost/efficiency/, where `predict` reads them.

* A100, H100, GH200 have measured kernels: all that is fitted is what the engines of 2024 added to a step, to
  each of its sequences and to a message, one set of three for the three devices; for llama.cpp the
  bandwidth its kernels reach and the time each takes to launch.
* MI250, MI300X, Gaudi 2 have none: six figures of kernels and links, for MI250 and MI300X beside the old
  engine's from the other three, for Gaudi 2 beside the planner's own of vLLM.

A run is a row of `predict` with the batch for its concurrency and `engine_version` as in `VERSIONS`: by
conservation of work a closed loop of so many takes as long for as many requests, whether their prompts come
first or one by one. Least squares on log seconds by Gauss-Newton, outliers damped (soft L1 beyond 10 %); a
figure that the runs leave open stays near its start. Held out: all models of one shape (`Runs.family`) are
predicted by a fit without them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from benchmarks.efficiency_files import lines, three_digits
from benchmarks.older_runs import DEVICES, ENGINES, RUNS, Runs, read
from planner.cost.calibration import Calibration, old_engines, shipped
from planner.cost.efficiency.reading import HERE, OLD_ENGINES, load
from planner.cost.eras import engine_of, engine_of_era
from planner.cost.tuning import AS_MEASURED
from planner.designs.shape import Floats
from planner.operating.requests import Requests
from planner.predict.loads import Group, Places, Rows
from planner.predict.predictions import usual_node
from planner.predict.served import operate

Figures = dict[str, float]

NVIDIA = ("A100", "H100", "GH200")
VERSIONS = {"vLLM": "0.6", "TensorRT-LLM": "0.12"}
"""Releases of the runs' time; blank (today's) for the others."""

HOST: Figures = {"step_us": 1000.0, "sequence_us": 30.0, "message_wait_us": 5.0}
KERNELS: Figures = {"compute": 0.4, "memory": 0.6, "cache": 0.5, "launch_us": 10.0}
LINKS: Figures = {"link_us": 20.0, "link_share": 0.4}
SLOW: Figures = {"memory": 0.6, "launch_us": 10.0}
SHARES = ("compute", "memory", "cache", "link_share")
"""Figures that are at most 1."""

DAMPED = 0.1
NUDGE = 0.02
"""Of a figure's logarithm, for slopes."""

PRIOR = 1.0
"""Residual of a figure e times its start: as ten rows that are 10 % off each."""

STEPS = 8
FARTHEST = 0.7
SETTLED = 0.01
"""Steps of the fit at most; how far a figure's logarithm moves in one, and in the last."""

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
    """What is fitted at once: `figures` at their start, shared by `hardware` under one framework."""

    hardware: tuple[str, ...]
    framework: str
    figures: Figures

    @property
    def engine(self) -> str:
        """The planner's engine in its era: the key in the files."""
        return engine_of_era(ENGINES[self.framework], VERSIONS.get(self.framework, ""), "")

    @property
    def file(self) -> str:
        """Name of the efficiency file that keeps the kernels."""
        return OLD_ENGINES if len(self.hardware) > 1 else DEVICES[self.hardware[0]]


SUBJECTS = (
    Subject(NVIDIA, "vLLM", HOST),
    Subject(NVIDIA, "TensorRT-LLM", HOST),
    Subject(NVIDIA, "llama.cpp", SLOW),
    Subject(("MI250",), "vLLM", KERNELS | LINKS),
    Subject(("MI250",), "llama.cpp", SLOW),
    Subject(("MI300X",), "vLLM", KERNELS | LINKS),
    Subject(("MI300X",), "llama.cpp", SLOW),
    Subject(("Gaudi2",), "Deepspeed", KERNELS | LINKS),
)


@dataclass(frozen=True)
class Setting:
    """What is laid over the planner's own figures: kernels that are looked up first, the engine's
    microseconds (empty: the planner's), and collectives' anchors."""

    kernels: dict[str, Any]
    host: Figures
    links: dict[str, Any]


UNCHANGED = Setting({}, {}, {})


def seconds(runs: Runs, engine: str, over: Setting = UNCHANGED) -> Floats:
    """Predicted seconds of each run with an engine in its era."""
    own = {name.replace("_us", "_s"): 1e-6 * value for name, value in over.host.items()}
    calibration = Calibration(replace(AS_MEASURED, **own)) if own else None
    isl, osl = runs.isl[:, None], runs.osl[:, None]
    none = np.zeros(len(runs.batch))
    asked = Requests(isl, isl, osl, np.ones_like(osl))
    load = Rows(runs.designs, asked, osl, runs.batch, none, none + np.inf, none, none + 1, none, none)
    node = usual_node(DEVICES[runs.hardware])
    group = Group(runs.card, node, engine, "mixed", runs.used, chunk=round(runs.prompt_tokens))
    cost = group.cost(calibration)
    places = Places.of(cost, load, group.token_budget)
    cost.fits.shelves.insert(0, ("runs", over.kernels))
    cost.links.table = cost.links.table | over.links
    return np.asarray(runs.batch / operate(cost, load, places, group.terms).estimate.rate)


def setting(figures: Figures, engine: str, intra_bytes_per_s: float) -> Setting:
    """The figures in the form of the efficiency files."""
    return Setting(
        kernels(figures, engine) if "memory" in figures else {},
        {name: figures[name] for name in HOST if name in figures},
        {"all_reduce": anchors(figures, intra_bytes_per_s)} if "link_us" in figures else {},
    )


def kernels(figures: Figures, engine: str) -> dict[str, Any]:
    """GEMMs, experts and attention that share their efficiencies and the time to launch one; llama.cpp's at
    other precisions by the ratios of the datasheet's."""
    f = KERNELS | figures
    t0 = {"t0_us": f["launch_us"]}
    gemm = {"bf16": {"compute": f["compute"], "memory": f["memory"]} | t0 | {"p": 1.5, "error": ERROR}}
    others = load("datasheet")["engines"].get(engine, {}).get("gemm", {})
    for precision, row in others.items():
        share = three_digits(f["memory"] * row["memory"] / others["bf16"]["memory"])
        gemm.setdefault(precision, gemm["bf16"] | {"memory": share, "error": row["error"]})
    return {
        "gemm": gemm,
        "decode": {"bf16": {128: {"compute": 0.2, "memory": f["cache"]} | t0 | {"p": 2.0, "error": ERROR}}},
        "prefill": {"bf16": {128: {"compute": 0.5, "memory": 0.5} | t0 | {"p": 1.1, "error": ERROR}}},
        "moe": {precision: row | {"tokens": 0.5} for precision, row in gemm.items()},
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


def fit(subject: Subject, groups: list[Runs], start: Figures | None = None) -> Figures:
    """The figures that predict the runs of `groups` best, found from `start` on."""
    figures = start or subject.figures
    for _ in range(STEPS):
        before, figures = figures, stepped(subject, groups, figures)
        if all(abs(np.log(figures[n] / before[n])) < SETTLED for n in figures):
            break
    return figures


def stepped(subject: Subject, groups: list[Runs], figures: Figures) -> Figures:
    """The best figures as far as slopes here tell."""
    measured = np.log(np.concatenate([g.seconds for g in groups]))

    def off(changed: Figures) -> Floats:
        return np.asarray(np.log(np.concatenate([timed(subject, g, changed) for g in groups])) - measured)

    here = off(figures)
    by = np.stack(
        [(off(figures | {n: x * np.exp(NUDGE)}) - here) / NUDGE for n, x in figures.items()], axis=1
    )
    prior, logs = (np.log([x[n] for n in subject.figures]) for x in (subject.figures, figures))
    highest = np.array([0.0 if n in SHARES else np.log(2000.0) for n in subject.figures])
    at = np.minimum(logs, highest - 1e-3)
    best = least_squares(
        lambda x: np.concatenate([here + by @ (x - logs), PRIOR * (x - prior)]),
        at,
        bounds=(at - FARTHEST, np.minimum(at + FARTHEST, highest)),
        loss="soft_l1",
        f_scale=DAMPED,
    )
    return {n: three_digits(float(np.exp(x))) for n, x in zip(subject.figures, best.x, strict=True)}


def without(
    subject: Subject, groups: list[Runs], part: Callable[[Runs], object], start: Figures
) -> list[Floats]:
    """Predicted seconds of each group by a fit to those of other parts; nan where there is no other."""
    found = {}
    for each in {part(g) for g in groups}:
        rest = [g for g in groups if part(g) != each]
        found[each] = fit(subject, rest, start) if rest else None
    return [
        np.full(len(g.seconds), np.nan) if (f := found[part(g)]) is None else timed(subject, g, f)
        for g in groups
    ]


def timed(subject: Subject, runs: Runs, figures: Figures) -> Floats:
    """Predicted seconds of each run by such figures."""
    return seconds(runs, subject.engine, settled(subject, DEVICES[runs.hardware], figures))


def settled(subject: Subject, device: str, figures: Figures) -> Setting:
    """`setting` on the node that a device comes in."""
    return setting(figures, subject.engine, usual_node(device).intra_bytes_per_s)


def shipped_figures(subject: Subject) -> Figures:
    """The subject's figures, from its efficiency file."""
    file = load(subject.file)
    kernels = file["engines"].get(subject.engine, {})
    found = dict(file.get("overheads", {}).get(subject.engine, {}))
    if kernels:
        gemm, cache = kernels["gemm"]["bf16"], kernels["decode"]["bf16"][128]["memory"]
        found |= {
            "compute": gemm["compute"],
            "memory": gemm["memory"],
            "cache": cache,
            "launch_us": gemm["t0_us"],
        }
    if "link_us" in subject.figures:
        curve = kernels.get("links", file.get("links"))["all_reduce"][2]
        rate = curve[-1][0] / (curve[-1][1] - curve[0][1])
        intra = usual_node(DEVICES[subject.hardware[0]]).intra_bytes_per_s
        found |= {"link_us": curve[0][1], "link_share": 1e6 * rate / intra}
    return {name: found[name] for name in subject.figures}


def fit_all(groups: list[Runs]) -> None:
    """Fit and write every subject in turn: those that come later use the engine's time of those before."""
    for subject in SUBJECTS:
        figures = fit(subject, _of(subject, groups))
        print(subject.engine, *subject.hardware, figures, file=sys.stderr, flush=True)
        write(subject, figures)
        for known in (load, old_engines, shipped):
            known.cache_clear()


def write(subject: Subject, figures: Figures) -> None:
    """Put a subject's figures into its efficiency file."""
    made = settled(subject, DEVICES[subject.hardware[0]], figures)
    file = deepcopy(load(subject.file)) or {"level": "runs", "engines": {}}
    if made.kernels:
        file["engines"][subject.engine] = made.kernels
    if made.links:  # an old engine's are its own: today's collectives are faster
        of_old = engine_of(subject.engine) != subject.engine
        (file["engines"][subject.engine] if of_old else file)["links"] = made.links
    if made.host:
        file.setdefault("overheads", {})[subject.engine] = made.host
    where = "on devices with measured kernels" if subject.file == OLD_ENGINES else f"on {subject.file}"
    text = HEADER.format(what=f"Engines of 2024 {where}") + "\n".join(lines(file, 0)) + "\n"
    (HERE / f"{subject.file}.yaml").write_text(text, encoding="utf-8")


def table(groups: list[Runs]) -> Iterator[str]:
    """Errors of throughput by device and engine: as today's engine, as the engine of its era, and of fits
    without the model's shape or without the device."""
    yield (
        f"{'device':8} {'engine':14} {'runs':>5} {'figures':>8} | {'today':>6} | {'in era':>6} {'P90':>6} "
        f"{'bias':>6} | {'no model':>8} {'P90':>6} | no device"
    )
    every: dict[str, list[Floats]] = {hw: [] for hw in DEVICES}
    for subject in SUBJECTS:
        members = _of(subject, groups)
        start = shipped_figures(subject)
        predictions = (
            [seconds(g, engine_of(subject.engine)) for g in members],
            [seconds(g, subject.engine) for g in members],
            without(subject, members, lambda g: g.family, start),
            without(subject, members, lambda g: g.hardware, start),
        )
        for hardware in subject.hardware:
            of = [i for i, g in enumerate(members) if g.hardware == hardware]
            off = np.stack([np.concatenate([_off(members[i], p[i]) for i in of]) for p in predictions])
            every[hardware].append(off)
            yield _line(hardware, subject.engine, len(subject.figures), off)
    for hardware, parts in every.items():
        yield _line(hardware, "all", 0, np.concatenate(parts, axis=1))


def _of(subject: Subject, groups: Iterable[Runs]) -> list[Runs]:
    return [g for g in groups if g.framework == subject.framework and g.hardware in subject.hardware]


def _off(runs: Runs, predicted: Floats) -> Floats:
    """Predicted throughput over measured, less one."""
    return np.asarray(runs.seconds / predicted - 1)


def _line(hardware: str, engine: str, figures: int, off: Floats) -> str:
    """One row of the table from errors of shape (4, n)."""
    today, in_era, guessed, elsewhere = np.abs(off)

    def q(x: Floats, share: float) -> str:
        x = x[np.isfinite(x)]
        return f"{np.quantile(x, share):6.1%}" if len(x) else f"{'–':>6}"

    return (
        f"{hardware:8} {engine:14} {off.shape[1]:5d} {figures or '':>8} | {q(today, 0.5)} | "
        f"{q(in_era, 0.5)} {q(in_era, 0.9)} {np.median(off[1]):+6.1%} | "
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
        fit_all(groups)
    for line in table(groups):
        print(line)
    print(f"{sum(len(g.seconds) for g in groups)} runs; left out:")
    for reason, n in left_out.most_common():
        print(f"{n:6d} {reason}")


if __name__ == "__main__":
    main()

"""`meshwright calibrate`: measurements in, a calibration and what it is worth out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from planner.cli.help import arg, opt
from planner.cli.options import told


def _said(name: str, what: str) -> Any:
    """An option that holds where a file does not say."""
    return typer.Option(f"--{name}", metavar="X", help=f"{what}, where files do not say.")


def calibrate(
    *,
    bench: Annotated[list[Path], arg("BENCH…", "Results of serving benchmarks.")],
    output: Annotated[Path, opt("--output -o", "The calibration.", "FILE")],
    model: Annotated[str | None, _said("model", "Model")] = None,
    device: Annotated[str | None, _said("device", "GPU")] = None,
    engine: Annotated[str | None, _said("engine", "Serving engine")] = None,
    engine_version: Annotated[str | None, _said("engine-version", "Its version")] = None,
    precision: Annotated[str | None, _said("precision", "Of the weights")] = None,
    kv_precision: Annotated[str | None, _said("kv-precision", "Of the KV cache")] = None,
    tp: Annotated[str | None, _said("tp", "Tensor parallelism")] = None,
    pp: Annotated[str | None, _said("pp", "Pipeline stages")] = None,
    attn_dp: Annotated[str | None, _said("attn-dp", "Data parallelism of attention")] = None,
    ep: Annotated[str | None, _said("ep", "Expert parallelism")] = None,
    isl: Annotated[str | None, _said("isl", "Input tokens")] = None,
    osl: Annotated[str | None, _said("osl", "Output tokens")] = None,
    concurrency: Annotated[str | None, _said("concurrency", "Requests in flight on a replica")] = None,
    prefix_hit: Annotated[str | None, _said("prefix-hit", "Share of prompts found cached")] = None,
    draft_tokens: Annotated[str | None, _said("draft-tokens", "Speculated tokens a step")] = None,
    accepted_tokens: Annotated[str | None, _said("accepted-tokens", "Of these, kept")] = None,
) -> None:
    """Refine predictions by your own measurements, for `--calibration` of plan, predict and sweep.

    Reads a CSV with the columns of `predict` and measured_ttft_ms, measured_tpot_ms; JSON of
    `vllm bench serve`; JSONL of SGLang's bench_serving; exports of genai-perf and AIPerf; reports of
    llm-d-benchmark. Rows that cannot be true are refused, each with its reason.

    \b
    Examples:
      meshwright calibrate bench.csv -o my-cluster.calib.yaml
      meshwright calibrate results/*.json --device h100 --engine vllm --tp 4 -o my-cluster.calib.yaml
    """
    given = told(locals(), "bench", "output")
    from planner.calibration import files
    from planner.calibration.calibrate import calibrate as refined
    from planner.calibration.measurements import read_measurements
    from planner.cli.output import note, stdout, whole_file
    from planner.cli.progress import Status
    from planner.cost.calibration import shipped
    from planner.reports import calibrated as report

    with whole_file(output) as file:
        with Status() as status:
            status("reading")
            used, refused = read_measurements(bench, {name: text for name, text in given.items() if text})
            found = refined(used, shipped(), status)
        file.write(files.written(found.calibration))
    for row in refused:
        note(f"{row.where}: refused: {row.reason}")
    for measured in used:
        if measured.note:
            note(f"{measured.where}: {measured.note}")
    report.render(found, len(refused), stdout())

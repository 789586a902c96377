"""`meshwright probe`: which benchmarks would tell most, ready to paste."""

from __future__ import annotations

from planner.cli import options as o


def probe(
    *,
    cluster: o.ClusterArg = None,
    gpus: o.GpusOpt = None,
    model: o.ModelOpt,
    workload: o.WorkloadOpt = "chat",
    isl: o.IslOpt = None,
    osl: o.OslOpt = None,
    engine: o.EngineOpt = "any",
    precision: o.PrecisionOpt = None,
    kv_precision: o.KvPrecisionOpt = None,
    json: o.JsonOpt = False,
) -> None:
    """List the benchmarks of MODEL on CLUSTER that would narrow a plan's bands most, as commands to paste.

    \b
    Examples:
      meshwright probe --gpus 8xH100 --model llama-3.1-70b
      meshwright probe cluster.yaml --model qwen3-32b --workload rag --engine vllm

    `meshwright calibrate` reads their results. Exit codes: 0, 2 bad input, 3 nothing fits.
    """
    from planner.calibration.probe import probe as found_by
    from planner.cli.output import note, print_json, stdout
    from planner.question import asked
    from planner.reports import calibrated as report

    options = {"engine": engine, "precision": precision, "kv_precision": kv_precision}
    question = asked.read(cluster, model, gpus, workload, {"isl": isl, "osl": osl, "loop": "closed"}, options)
    for warning in question.warnings:
        note(f"note: {warning.message}")
    found = found_by(question)
    if json:
        print_json(report.as_document(found))
    else:
        report.render_probe(found, stdout())

"""genai-perf and its successor AIPerf: the CSV of metrics (avg, min, max, percentiles), and the JSON that
also holds how the run was started.

Names of metrics as both tools export them; the CSV's "Time to First Token (ms)" is the JSON's
`time_to_first_token` of `unit` ms. Their inter-token latency is a request's (latency - TTFT) / (osl - 1):
a TPOT. AIPerf 0.1 wrote the JSON's metrics under `records`.
"""

from __future__ import annotations

import csv
import io
import re
from typing import Any

from planner.calibration.fields import Fields
from planner.calibration.formats.engines import mean_of
from planner.calibration.runs import Run
from planner.errors import InputError

MS = {"ms": 1.0, "s": 1e3, "sec": 1e3, "us": 1e-3, "ns": 1e-6}
_NAMED = re.compile(r"(?P<name>.*?)(?: \((?P<unit>[^()]*)\))?")


def is_csv(text: str) -> bool:
    """Whether a table of metrics begins here."""
    return bool(re.match(r'\s*"?Metric"?,', text))


def from_csv(text: str, path: str) -> Fields:
    """The CSV in the JSON's form: metrics by name, each with unit, avg and percentiles. Raises InputError."""
    metrics: dict[str, Any] = {}
    header: list[str] = []
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for row in reader:
            if "Metric" in row:
                header = row
            elif row:
                _take(metrics, dict(zip(header, row, strict=False)))
    except csv.Error as error:
        raise InputError(f"not a valid CSV line: {error}", f"{path}:{reader.line_num}") from None
    return Fields(metrics | {"input_config": {}})


def _take(metrics: dict[str, Any], row: dict[str, str]) -> None:
    """One line: a metric of requests or of the run, or of a GPU."""
    match = _NAMED.fullmatch(row.get("Metric", "").strip())
    if row.get("GPU_Name"):
        gpus = metrics.setdefault("telemetry_data", {"endpoints": {"": {"gpus": {}}}})
        gpus["endpoints"][""]["gpus"][row["GPU_Name"]] = {"gpu_name": row["GPU_Name"]}
    elif match and match["name"] and "GPU" not in row:
        values = {stat: text.replace(",", "") or None for stat, text in row.items() if stat != "Metric"}
        key = re.sub(r"[^a-z0-9]+", "_", match["name"].lower())
        metrics[key] = {"unit": match["unit"] or "", "avg": values.get("Value"), **values}


def matches(data: Fields) -> bool:
    """Whether these are the metrics of one run."""
    return "input_config" in data and any(name in data for name in ("request_latency", "records"))


def run(data: Fields) -> Run:
    """The run. Raises InputError."""
    metrics = data.part("records") if "records" in data else data
    config = data.part("input_config")
    ttft, ttft_note = _latency(metrics, "time_to_first_token", "ttft")
    tpot, tpot_note = _latency(metrics, "inter_token_latency")
    told = {"model": _model_name(config)}
    gpus = {
        g.text("gpu_name") for e in data.part("telemetry_data").parts("endpoints") for g in e.parts("gpus")
    }
    return Run(
        told={column: text for column, text in told.items() if text},
        guessed={"device": gpus.pop()} if len(gpus) == 1 else {},
        isl=metrics.part("input_sequence_length").number("avg"),
        osl=metrics.part("output_sequence_length").number("avg"),
        ttft_ms=ttft,
        tpot_ms=tpot,
        latency_ms=_latency(metrics, "request_latency")[0],
        rps=metrics.part("request_throughput").number("avg"),
        completed=metrics.part("request_count").number("avg"),
        failed=metrics.part("error_request_count").number("avg") or 0.0,
        cap=_load(config, "concurrency"),
        asked_rps=_load(config, "request_rate", "rate"),
        notes=(*ttft_note, *tpot_note),
    )


def _latency(metrics: Fields, *names: str) -> tuple[float | None, tuple[str, ...]]:
    """Mean (or median) of the first of `names` that is there, in ms. Raises InputError: an unknown unit."""
    for name in names:
        metric = metrics.part(name)
        if not metric.data:
            continue
        unit = metric.text("unit").lower()
        if unit not in MS:
            raise InputError(f"`{name}` is in `{unit}`", hint=f"known units: {', '.join(MS)}")
        value, note = mean_of(name, metric.number("avg"), metric.number("p50"))
        return (None if value is None else value * MS[unit]), note
    return None, ()


def _model_name(config: Fields) -> str:
    """The first model, by the versions' ways of writing it, the newest first."""
    listed = config.part("models").parts("items")
    if listed:
        return listed[0].text("name")
    return config.part("endpoint").text("model_names") or config.text("model_names", "model")


def _load(config: Fields, *names: str) -> float | None:
    """A setting of the load: of the one phase that was measured, or where older versions wrote it."""
    places = [config.part("loadgen"), config.part("perf_analyzer", "stimulus"), config]
    phases = [phase for phase in config.parts("phases") if "warmup" not in phase.text("kind", "name")]
    if len(phases) == 1:
        places.insert(0, phases[0])
    for place in places:
        if (value := place.number(*names)) is not None:
            return value
    return None

"""`meshwright workload TRACE`: recorded requests as a workload YAML."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import options as o
from planner.cli.help import arg, opt

if TYPE_CHECKING:
    from planner.inputs.traces import Trace
    from planner.traffic.summary import Summary


def workload(
    trace: Annotated[
        str | None, arg("TRACE", "Recorded requests: CSV, JSONL or Parquet.", show_default=False)
    ] = None,
    slot: Annotated[
        float | None, opt("--slot", "Length of a slot of the day. [default: an hour]", "MINUTES")
    ] = None,
    ttft_ms: Annotated[str, opt("--ttft-ms", "Limit on the time to first token.", "X|none")] = "2000",
    tpot_ms: Annotated[str, opt("--tpot-ms", "Limit on the time per output token.", "X|none")] = "50",
    percentile: Annotated[o.Percentile, opt("--percentile", "Of which the limits are.")] = "p99",
    output: Annotated[str | None, opt("--output -o", "Write the workload YAML here.", "FILE")] = None,
    list_: Annotated[bool, opt("--list", "The workloads known by name, and where they are from.")] = False,
    json: o.JsonOpt = False,
) -> None:
    """Recorded requests as a workload: lengths in few buckets that keep the cost, the rate by hour, bursts.

    \b
    Examples:
      meshwright workload trace.csv -o chat.yaml
      meshwright workload trace.csv.gz --slot 10 --percentile p95
      meshwright workload --list

    Exit codes: 0 made, 2 bad input.
    """
    import io
    import json as json_
    from pathlib import Path

    from planner.cli.output import note, write
    from planner.cli.progress import Status
    from planner.errors import InputError

    if list_:
        typer.echo("\n".join(_presets()))
        return
    if trace is None:
        raise InputError("name a trace", "TRACE", "meshwright workload trace.csv -o chat.yaml, or --list")
    if slot is not None and not 1 / 60 <= slot <= 1e5:
        raise InputError(f"slots of {slot:g} minutes: from a second to 69 days", "--slot")
    from planner.inputs.traces import read_trace
    from planner.inputs.workload import Slo
    from planner.traffic.summary import document, summary

    limits = {"ttft_ms": _limit(ttft_ms, "--ttft-ms"), "tpot_ms": _limit(tpot_ms, "--tpot-ms")}
    with Status() as tell:
        read = read_trace(trace, tell)
        tell("looking for buckets")
        name = Path(trace).name.split(".")[0] or "trace"
        found = summary(read, name, None if slot is None else 60 * slot, Slo(**limits, percentile=percentile))
    told = document(found.workload)
    if json:
        text = json_.dumps(told, indent=1) + "\n"
    else:
        from ruamel.yaml import YAML

        yaml, stream = YAML(typ="safe", pure=True), io.StringIO()
        yaml.default_flow_style, yaml.width = None, 110
        yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
        yaml.dump(told, stream)
        text = stream.getvalue()
    for line in _told(found, read):
        note(line)
    if output is None:
        typer.echo(text, nl=False)
        return
    write(output, text)
    note(f"written to {output}: meshwright plan … --workload {output}")


def _limit(text: str, option: str) -> float | None:
    """Milliseconds, or none."""
    from planner.errors import InputError

    if text.strip().lower() == "none":
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 1e-12 <= value <= 1e12:
        raise InputError(f"`{text}` is no limit in ms", option, f"a number above 0, or none: {option} 2000")
    return value


def _told(found: Summary, trace: Trace) -> list[str]:
    """What was made of the trace."""
    from planner.reading.units import counted

    w = found.workload
    traffic = w.traffic
    assert traffic is not None
    rates, late, hours = traffic.rate_rps, trace.unordered[0], trace.span_s / 3600
    failed = f", {trace.dropped:,} failed ones left out" if trace.dropped else ""
    failed += f", {late:,} put in order that stood after later ones" if late else ""
    lines = [
        f"{len(trace):,} requests in {hours:.3g} h{failed}: {counted(len(w.buckets), 'bucket')}; "
        f"lost by that: {100 * found.pairs_lost:.1f} % of prompts' attention, "
        f"{100 * found.context_lost:.1f} % of answers'",
        f"{counted(len(rates), 'slot')} of {_span(traffic.slot_s)}, "
        f"{min(rates):.4g} to {max(rates):.4g} requests/s",
    ]
    if traffic.dispersion:
        each = ", ".join(f"{d.index:.3g} in {_span(d.window_s)}" for d in traffic.dispersion)
        lines.append(f"bursts: counts vary as at random times {each} (variance over mean)")
    if w.idle is not None:
        lines.append("prompts share beginnings: what is found again in a cache is part of the workload")
    return lines


def _span(seconds: float) -> str:
    return f"{seconds:g} s" if seconds < 60 else f"{seconds / 60:g} min"


def _presets() -> list[str]:
    """A line a preset, and where its lengths are from."""
    from planner.inputs.presets import PRESETS, SOURCES

    lines = []
    for name, w in PRESETS.items():
        b, slo = w.buckets[0], w.slo
        limits = ", ".join(
            f"{label} {value:,.0f} ms"
            for label, value in (("TTFT", slo.ttft_ms), ("TPOT", slo.tpot_ms))
            if value is not None
        )
        lines.append(
            f"{name:<13} {b.isl:>6,} in {b.osl:>6,} out  {limits or 'no limits':<30} {SOURCES[name]}"
        )
    return lines

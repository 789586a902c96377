"""llm-d-benchmark's "benchmark report", versions 0.1 (scenario, metrics) and 0.2 (scenario, results).

Field names as in its schema_v0_1.py, schema_v0_2.py and native_to_br0_2.py. A report holds one run and says
what was served on which accelerators; of several equal replicas each is taken to get its share of requests.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from model_zoo.schema import WEIGHT_BYTES
from planner.calibration.fields import Fields
from planner.calibration.formats.engines import SPLIT, SPLIT_HINT, engine_in, mean_of
from planner.calibration.runs import Run
from planner.errors import InputError

MS = {"ms": 1.0, "s": 1e3, "ms/token": 1.0, "s/token": 1e3}


@dataclass(frozen=True)
class Server:
    """One kind of engine process: its role, GPUs as the report writes them, engine (or image) and version."""

    role: str
    model: str
    accelerator: Fields
    name: str
    version: str
    precision: str = ""
    replicas: int = 1


def matches(data: Fields) -> bool:
    """Whether this is a report."""
    return "scenario" in data and ("metrics" in data or "results" in data)


def run(data: Fields) -> Run:
    """The run. Raises InputError."""
    scenario = data.part("scenario")
    if "metrics" in data:
        load, metrics = scenario.part("load", "args"), data.part("metrics")
        cap, asked, shares = load.number("max_concurrency"), load.number("request_rate"), False
        rps = metrics.part("throughput").number("requests_per_sec")
    else:
        load, metrics = scenario.part("load", "standardized"), _aggregate(data)
        cap, asked = load.number("concurrency"), load.number("rate_qps")
        shares = "prefix" in load or bool(load.part("multi_turn").data.get("enabled"))
        rates = metrics.part("throughput")
        rps = (rates.part("request_rate") or rates.part("requests_rate")).number("mean")
        if scenario.part("load", "metadata").data.get("concurrent_with"):
            raise InputError("other loads ran on the same servers at the same time")
    found = _run(_only(_servers(scenario)), metrics)
    return replace(found, cap=cap, asked_rps=asked, rps=rps, shares_prefix=shares)


def _aggregate(data: Fields) -> Fields:
    return data.part("results", "request_performance", "aggregate")


def _servers(scenario: Fields) -> list[Server]:
    """The stack's engines; one of unknown kind where the report says nothing of them."""
    model = scenario.part("model")
    found = [_component(each) for each in scenario.parts("stack")]
    accelerators, engines = (
        scenario.part("host").parts("accelerator"),
        scenario.part("platform").parts("engine"),
    )
    roles = scenario.part("host").data.get("type") or []
    quantisation = model.text("quantization").lower()
    for i, accelerator in enumerate(accelerators):
        engine = engines[i] if i < len(engines) else Fields()
        role = str(roles[i]) if i < len(roles) else "replica"
        precision = quantisation if quantisation in WEIGHT_BYTES else ""
        found.append(
            Server(
                role, model.text("name"), accelerator, engine.text("name"), engine.text("version"), precision
            )
        )
    return [server for server in found if server] or [Server("replica", model.text("name"), Fields(), "", "")]


def _component(component: Fields) -> Server | None:
    """A component of 0.2's stack, None where it is no engine (routers, gateways)."""
    standard = component.part("standardized")
    if "accelerator" not in standard:
        return None
    tool, version = standard.text("tool"), standard.text("tool_version")
    return Server(
        role=standard.text("role"),
        model=standard.part("model").text("name"),
        accelerator=standard.part("accelerator"),
        name=f"{tool} {version}",
        version=version,
        replicas=standard.whole("replicas"),
    )


def _only(servers: list[Server]) -> Server:
    """The one kind of server there is, with the number of all. Raises InputError: prefill apart from decode,
    or replicas that differ.

    Decode servers without prefill servers do both.
    """
    first = servers[0]
    if any(server.role == "prefill" for server in servers):
        raise InputError(SPLIT, hint=SPLIT_HINT)
    if any(replace(server, replicas=first.replicas) != first for server in servers):
        raise InputError("replicas of different kinds shared the load", hint="measure each kind alone")
    return replace(first, replicas=sum(server.replicas for server in servers))


def _run(server: Server, metrics: Fields) -> Run:
    """Server and metrics; the load is written by each version in its own way. Raises InputError."""
    requests, latency = metrics.part("requests"), metrics.part("latency")
    ttft, ttft_note = _mean_ms(latency, "time_to_first_token")
    tpot, tpot_note = _mean_ms(latency, "time_per_output_token", "inter_token_latency")
    failed = (requests.number("failures") or 0.0) + (requests.number("incomplete") or 0.0)
    total = requests.number("total")
    return Run(
        told=_told(server),
        guessed={"engine": engine_in(server.name), "precision": server.precision},
        isl=requests.part("input_length").number("mean"),
        osl=requests.part("output_length").number("mean"),
        ttft_ms=ttft,
        tpot_ms=tpot,
        latency_ms=_mean_ms(latency, "request_latency")[0],
        completed=None if total is None else total - failed,
        failed=failed,
        replicas=server.replicas,
        dp=server.accelerator.part("parallelism").whole("dp"),
        notes=(*ttft_note, *tpot_note),
    )


def _told(server: Server) -> dict[str, str]:
    """Columns that the report says. A count of 0 accelerators means that the parallelism is not known."""
    told = {"model": server.model, "device": server.accelerator.text("model")}
    if "/" not in server.version:  # an image has a tag, not the engine's version
        told["engine_version"] = server.version
    if server.accelerator.number("count"):
        sizes = {
            axis: server.accelerator.part("parallelism").number(axis) or 1 for axis in ("tp", "pp", "ep")
        }
        told |= {axis: f"{size:.0f}" for axis, size in sizes.items() if axis != "ep" or size > 1}
    return {column: text for column, text in told.items() if text}


def _mean_ms(latency: Fields, *names: str) -> tuple[float | None, tuple[str, ...]]:
    """Mean (or median) of the first of `names` that the report has, in ms. Raises InputError: an unknown
    unit."""
    for name in names:
        figures = latency.part(name)
        if not figures:
            continue
        unit = figures.text("units")
        if unit not in MS:
            raise InputError(f"`{name}` is in `{unit}`", hint=f"known units: {', '.join(MS)}")
        value, note = mean_of(name, figures.number("mean"), figures.number("p50"))
        if value is not None:
            return value * MS[unit], note
    return None, ()

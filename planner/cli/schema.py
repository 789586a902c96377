"""`meshwright schema`: the JSON Schema of a form, for editors and other programs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from planner.cli.help import arg
from planner.cli.output import print_json

Kind = Literal["cluster", "workload", "models", "plan", "several", "sweep"]


def schema(kind: Annotated[Kind, arg(None, "Which form.", show_default=False)]) -> None:
    """Print the JSON Schema of a cluster, workload, plan or sweep file; `models`: a workload of several
    models, `several`: the document of their plans.

    Example: meshwright schema cluster > cluster.schema.json
    """
    print_json(json_schema(kind), indent=2)


def json_schema(kind: Kind) -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of the form as written, a workload's short `isl` and `osl` included."""
    form = _model(kind).model_json_schema(mode="validation", by_alias=True)
    if kind == "workload":
        tokens = form["$defs"]["Bucket"]["properties"]
        lengths = {name: {**tokens[name], "description": "instead of `buckets`"} for name in ("isl", "osl")}
        form["properties"] |= lengths
        form["required"] = [name for name in form.get("required", []) if name != "buckets"]
        form["not"] = {"required": ["buckets"], "anyOf": [{"required": ["isl"]}, {"required": ["osl"]}]}
    if kind == "plan":
        from planner.check.said import SAID

        form["x-not-checked"] = {field: why for fields, why in SAID for field in fields}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"Meshwright {kind}"} | {
        key: value for key, value in form.items() if key != "title"
    }


def _model(kind: Kind) -> Any:
    """The pydantic model of a form."""
    if kind == "cluster":
        from cluster_configs.schema import Cluster as form
    elif kind == "workload":
        from planner.inputs.workload import Workload as form  # type: ignore[assignment]
    elif kind == "plan":
        from planner.plans.schema import Plan as form  # type: ignore[assignment]
    elif kind == "models":
        from planner.inputs.several import Listed as form  # type: ignore[assignment]
    elif kind == "several":
        from planner.plans.schema.several import Several as form  # type: ignore[assignment]
    else:
        from planner.studies.grid import Sweep as form  # type: ignore[assignment]
    return form

"""A document of another kind is told what it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cluster_configs.reading import read_cluster
from planner.errors import InputError
from planner.inputs.reading import read_workload
from planner.plans.reading import read_plan
from planner.studies import grid

FORMS = {
    "a cluster file": {"nodes": [{"device": "h100-sxm"}]},
    "a workload": {"isl": 100, "osl": 10},
    "a plan": {"problem": {}, "replicas": []},
    "a sweep": {"base": {}, "vary": {}},
}
READERS = {
    "a cluster file": read_cluster,
    "a workload": lambda path: read_workload(str(path)),
    "a plan": read_plan,
    "a sweep": lambda path: grid.read(str(path)),
}


@pytest.mark.parametrize("wanted", READERS)
@pytest.mark.parametrize("given", FORMS)
def test_each_is_known_where_another_belongs(tmp_path: Path, given: str, wanted: str) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(json.dumps({**FORMS[given], "unknown": 1}))

    with pytest.raises(InputError) as caught:
        READERS[wanted](path)

    if given == wanted:
        assert "unknown" in str(caught.value)
    else:
        assert _said(given, wanted) in str(caught.value)
        assert caught.value.hint
        assert given == "a plan" or str(path) in caught.value.hint


def _said(given: str, wanted: str) -> str:
    """A plan is known before it is read as a cluster."""
    own = wanted == "a cluster file" and given == "a plan"
    return "is a plan, not a cluster" if own else f"this is {given}, not {wanted}"

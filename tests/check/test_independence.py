"""The verifier shares no code with what it verifies."""

from __future__ import annotations

import ast
from pathlib import Path

import planner.check

FOLDER = Path(planner.check.__file__).parent
OWN = ("planner.check", "planner.plans.schema", "planner.inputs", "planner.errors")
SCHEMAS = ("model_zoo.schema", *(f"cluster_configs.{part}" for part in ("schema", "names", "resolving")))


def imported(file: Path) -> set[str]:
    """Full names of the modules of ours that a file imports, inside functions too."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return {
        name for name in found if name.split(".")[0] in ("planner", "solvers", "model_zoo", "cluster_configs")
    }


def test_the_verifier_imports_the_plan_inputs_and_schemas_only() -> None:
    files = sorted(FOLDER.glob("*.py"))
    foreign = {
        f"{file.name}: {name}"
        for file in files
        for name in imported(file)
        if not name.startswith(OWN) and name not in SCHEMAS
    }

    assert len(files) > 10
    assert foreign == set()

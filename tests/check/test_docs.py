"""The page on `check` names every code, and no other."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import planner.check
from planner.check.said import SAID
from planner.cli.schema import json_schema

FOLDER = Path(planner.check.__file__).parent
PAGE = Path(__file__).resolve().parents[2] / "docs" / "check.md"


def literals(node: ast.expr, names: dict[str, set[str]]) -> set[str]:
    """Texts that a code can be: itself, either of two, those its variable is given."""
    if isinstance(node, ast.Constant):
        return {str(node.value)}
    if isinstance(node, ast.IfExp):
        return literals(node.body, names) | literals(node.orelse, names)
    if isinstance(node, ast.Name):
        return names.get(node.id, set())
    if isinstance(node, ast.JoinedStr):  # f"{name}_below_step"
        return {"ttft_below_step", "tpot_below_step"}
    return set()


def codes(file: Path) -> set[str]:
    tree, names = ast.parse(file.read_text()), dict[str, set[str]]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            either = literals(node.value, {}) if isinstance(node.value, ast.IfExp) else set()
            names.setdefault(node.targets[0].id, set()).update(either)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    made = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "Violation"]
    return {code for call in made for code in literals(call.args[0], names)}


def test_every_code_stands_on_the_page_and_no_other() -> None:
    table = PAGE.read_text().split("## ")[0]
    cells = [line.split("|")[2] for line in table.splitlines() if line.startswith("|")]
    named = {code for cell in cells for code in re.findall(r"`([a-z_]+)`", cell)}

    assert named == {code for file in FOLDER.glob("*.py") for code in codes(file)}


def test_what_is_said_and_not_checked_stands_on_the_page_and_in_the_schema() -> None:
    page, named = PAGE.read_text(), json_schema("plan")["x-not-checked"]

    for fields, reason in SAID:
        assert f"| {', '.join(f'`{field}`' for field in fields)} | {reason} |" in page
        assert all(named[field] == reason for field in fields)

"""Who may import whom: the table of the design, read from the syntax tree, inner imports included."""

import ast
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

from benchmarks.house import House, tangled

REPO = Path(__file__).resolve().parents[1]
OURS = {"planner", "solvers", "model_zoo", "cluster_configs"}
LEAVES = {"planner.version", "planner.errors", "planner.reading"}
"""Import nothing of ours but each other; any folder but `solvers/` may import them."""

DATA = {*LEAVES, "planner.inputs", "planner.objectives", "model_zoo", "cluster_configs"}
COST = {*DATA, "planner.designs", "planner.cost", "planner.engines", "planner.queueing"}
RULES = {*COST, "planner.operating", "planner.rules", "planner.drafts"}
PLACING = {"solvers.pipeline", "solvers.pipeline.types", "solvers.offload", "solvers.fleet.types"}
CANDIDATES = {*RULES, "planner.candidates", *PLACING}
REPLICAS = {*CANDIDATES, "planner.variants", "planner.replicas"}
PROBLEMS = {*REPLICAS, "planner.problems", "solvers"}
ROWS = {*CANDIDATES, "planner.predict"}
PROBING = {*ROWS, "planner.replicas", "planner.calibration", "planner.question.asked", "planner.why"}
PLAN = {*DATA, "planner.plans.schema"}
POSING = {
    *PROBLEMS,
    "planner.plans",
    "planner.search",
    "planner.fit",
    "planner.why",
    "planner.question.asked",
}

MAY_IMPORT: dict[str, set[str]] = {
    "solvers": set(),
    "model_zoo": LEAVES,
    "cluster_configs": LEAVES,
    "planner.objectives": {"solvers.fleet.goals", "solvers.fleet.types"},
    "planner.inputs": {*LEAVES, "planner.objectives", "planner.engines"},
    "planner.engines": {*LEAVES, "planner.designs"},
    "planner.designs": {*LEAVES, "model_zoo"},
    "planner.cost": {*DATA, "planner.designs", "planner.engines"},
    "planner.queueing": {"planner.designs", "planner.cost.normal"},
    "planner.operating": COST,
    "planner.rules": RULES,
    "planner.drafts": COST,
    "planner.tables": DATA,
    "planner.clusters": {*LEAVES, "cluster_configs"},
    "planner.predict": RULES,
    "planner.calibration": {*RULES, "planner.predict"},
    "planner.calibration.trials": PROBING,
    "planner.calibration.outlook": PROBING,
    "planner.calibration.probe": PROBING,
    "planner.fit": {*RULES, "planner.predict"},
    "planner.candidates": CANDIDATES,
    "planner.variants": CANDIDATES,
    "planner.replicas": REPLICAS,
    "planner.problems": PROBLEMS,
    "planner.expert_maps": {*PROBLEMS, "planner.expert_maps", "planner.launch"},
    "planner.plans": {*PROBLEMS, "planner.plans"},  # `assemble` and its parts
    "planner.plans.schema": {*DATA, "planner.designs"},
    "planner.plans.diff": {*PLAN, "planner.designs"},
    "planner.plans.moves": {*PLAN, "planner.plans.diff", "planner.launch"},
    "planner.migration": {
        *PLAN,
        "planner.plans.diff",
        "planner.plans.moves",
        "planner.launch",
        "planner.designs",
        "planner.cost.weights",
        "planner.cost.loading",
    },
    "planner.plans.verified": {*PLAN, "planner.check", "planner.plans.reading"},
    "planner.check": PLAN,  # never cost, candidates, problems, solvers: it must not repeat their mistakes
    "planner.schedule": {
        *PROBLEMS,
        "planner.plans",
        "planner.search",
        "planner.question.asked",
        "planner.question.posed",
    },
    "planner.reports.migrated": {
        *PLAN,
        "planner.reports",
        "planner.plans.diff",
        "planner.plans.moves",
        "planner.migration",
    },
    "planner.reports.scheduled": {*PLAN, "planner.reports", "planner.schedule"},
    "planner.traffic": {*LEAVES, "planner.inputs"},
    "planner.percentiles": {*PLAN, "planner.traffic", "planner.simulate", "planner.question.asked"},
    "planner.simulate": {
        *PLAN,
        "planner.designs",
        "planner.cost",
        "planner.queueing",
        "planner.operating",
        "planner.engines",
    },
    "planner.plans.space": {*PROBLEMS, "planner.plans", "planner.question.asked"},
    "planner.search": {*PROBLEMS, "planner.plans"},
    "planner.measured": {
        *PROBLEMS,
        "planner.plans",
        "planner.search",
        "planner.beside",
        "planner.why",
        "planner.question.asked",
        "planner.launch",
    },
    "planner.why": {*PROBLEMS, "planner.plans", "planner.search", "planner.fit"},
    "planner.why.conflict": {*POSING, "planner.question.posed"},
    "planner.why.rare_lengths": {*POSING, "planner.question.posed"},
    "planner.beside": {*POSING, "planner.question.posed", "planner.chains"},
    "planner.explain": {*POSING, "planner.question.posed", "planner.beside"},
    "planner.launch": {*PLAN, "planner.engines"},
    "planner.exporters": {*PLAN, "planner.launch"},
    "planner.imports": LEAVES,
    "planner.imports.parts": OURS,
    "planner.imports.plan": OURS,
    "planner.reports": {*PLAN, "planner.launch"},
    "planner.reports.experts": {*PLAN, "planner.reports", "planner.expert_maps"},
    "planner.reports.calibrated": {
        *PLAN,
        "planner.designs",
        "planner.cost",
        "planner.calibration",
        "planner.reports",
    },
    "planner.reports.curve": {*PLAN, "planner.reports", "planner.studies.curves"},
    "planner.reports.simulated": {*PLAN, "planner.reports", "planner.simulate"},
    "planner.studies": {
        *PLAN,
        "planner.plans.text",
        "planner.api",
        "planner.reports",
        "planner.question.asked",
    },
    "planner.question": LEAVES,
    "planner.question.asked": {
        *PLAN,
        "planner.plans",
        "planner.designs",
        "planner.cost",
        "planner.candidates.ask",
        "planner.drafts",
    },
    "planner.chains": {*PROBLEMS, "planner.plans", "planner.question.asked", "planner.why"},
    "planner.question.posed": POSING,
    "planner.several": {*POSING, "planner.question.posed", "planner.api", "planner.launch", "planner.check"},
    "planner.fleet": {
        *POSING,
        "planner.question.posed",
        "planner.beside",
        "planner.launch",
    },
    "planner.buy": {*POSING, "planner.question.posed", "planner.check", "planner.api"},
    "planner.buy.answer": {*PLAN, "planner.buy.money"},
    "planner.reports.bought": {*PLAN, "planner.reports", "planner.buy"},
    "planner.api": OURS,
    "planner.cli": OURS,
}
"""Module or folder → what it may import of ours beside itself; the most precise line counts."""
SOLVER_LIBRARIES = {"pulp", "highspy", "ortools"}
SOLVER_SEAMS = {"solvers.linear", "solvers.linear.highs", "solvers.linear.cbc", "solvers.linear.glop"}
"""`linear` with its two back ends, and OR-tools' (`cpsat` goes through `glop`)."""


@cache
def modules() -> dict[str, Path]:
    """Dotted name → file of all modules of ours."""
    files = [path for folder in sorted(OURS) for path in (REPO / folder).rglob("*.py")]
    names = [str(path.relative_to(REPO).with_suffix("")).replace("/", ".") for path in files]
    return {name.removesuffix(".__init__"): path for name, path in zip(names, files, strict=True)}


@cache
def imports(module: str, path: Path) -> set[str]:
    """Dotted names that the file imports at any depth; `from a import b` counts as `a.b`."""
    found: set[str] = set()
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            start = ".".join([*base, *([node.module] if node.module else [])])
            found |= {f"{start}.{alias.name}" for alias in node.names}
    return found


def within(name: str, folders: Iterable[str]) -> bool:
    return any(name == folder or name.startswith(folder + ".") for folder in folders)


def allowed(module: str) -> set[str]:
    """What `module` may import of ours: the most precise line of the table, and its own folder."""
    if within(module, LEAVES):
        return LEAVES
    line = max((name for name in MAY_IMPORT if within(module, [name])), key=len)
    return MAY_IMPORT[line] | {line}


@pytest.mark.parametrize("module", sorted(set(modules()) - {"planner"}))
def test_imports_follow_the_arrows_of_the_design(module: str) -> None:
    found = {name for name in imports(module, modules()[module]) if within(name, OURS)}

    assert {name for name in found if not within(name, allowed(module))} == set()


def test_the_package_itself_imports_nothing_but_the_api_and_that_late() -> None:
    tree = ast.parse((REPO / "planner/__init__.py").read_text())
    top = {node.module for node in tree.body if isinstance(node, ast.ImportFrom)}

    assert top == {"__future__", "typing", "planner.version"}
    assert {n for n in imports("planner", REPO / "planner/__init__.py") if within(n, OURS)} == {
        "planner.version.__version__",
        "planner.api.plan",
        "planner.several.plan.plan_several",
    }


def test_only_the_solver_seams_import_a_solver_library() -> None:
    files = modules().items()
    users = {m for m, path in files if any(within(name, SOLVER_LIBRARIES) for name in imports(m, path))}

    assert users <= SOLVER_SEAMS


def test_every_module_stands_in_the_table() -> None:
    placed = {*MAY_IMPORT, *LEAVES}

    assert {m for m in modules() if m != "planner" and not within(m, placed)} == set()


def test_no_modules_import_each_other():
    """Not inside functions either: a knot cannot be read, tested or taken out one by one."""
    assert tangled(House(REPO).imports) == []


def test_knots_are_found():
    assert tangled({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()}) == [{"a", "b", "c"}]

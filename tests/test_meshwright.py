"""`import meshwright`, `python -m meshwright`, and the package of another project in the way."""

import subprocess
import sys
from pathlib import Path

import pytest

import meshwright
import planner

REPO = Path(__file__).resolve().parents[1]


def test_the_public_names_are_those_of_the_package() -> None:
    assert dir(meshwright) == sorted(planner.__all__)
    assert meshwright.plan is planner.plan
    assert meshwright.__version__ == planner.__version__
    with pytest.raises(AttributeError, match="no attribute 'plans'"):
        meshwright.plans  # type: ignore[attr-defined]  # noqa: B018


def test_it_runs_as_a_module() -> None:
    words = [sys.executable, "-m", "meshwright", "version"]
    done = subprocess.run(words, cwd=REPO, capture_output=True, text=True, check=True)

    assert planner.__version__ in done.stdout


@pytest.mark.parametrize(
    "code", ["import meshwright; meshwright.plan", "import meshwright; meshwright.main()"]
)
def test_a_planner_of_another_project_is_named_with_its_remedy(tmp_path: Path, code: str) -> None:
    (tmp_path / "planner").mkdir()
    (tmp_path / "planner" / "__init__.py").write_text("")
    (tmp_path / "meshwright.py").write_text((REPO / "meshwright.py").read_text())
    words = [sys.executable, "-c", code]
    done = subprocess.run(
        words, cwd=tmp_path, capture_output=True, text=True, env={"PYTHONPATH": str(tmp_path)}
    )

    assert done.returncode != 0
    assert "an environment of its own (pipx install, uv tool install" in done.stderr

"""What the pages for those who extend the planner say is true."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES = ("extending.md", "architecture.md", "decisions/0031-seams.md")


def test_every_python_example_runs():
    blocks = re.findall(
        r"^```python\n(.*?)^```$", (DOCS / "extending.md").read_text(), re.DOTALL | re.MULTILINE
    )
    assert len(blocks) == 6
    for block in blocks:
        exec(compile(block, "extending.md", "exec"), {})


@pytest.mark.parametrize("page", PAGES)
def test_every_path_that_is_named_is_there(page):
    text = (DOCS / page).read_text()
    named = re.findall(
        r"`((?:planner|solvers|model_zoo|cluster_configs|tests|benchmarks|docs)/[\w/.*]*)`", text
    )
    gone = ("planner/explain/",)

    assert named
    assert not [path for path in named if path not in gone and not list(DOCS.parent.glob(path.rstrip("/")))]


@pytest.mark.parametrize(
    "page", [*PAGES, "glossary.md", "getting-started.md", "launch.md", "../CHANGELOG.md"]
)
def test_every_link_between_pages_leads_somewhere(page):
    for link in re.findall(r"\]\(([\w./-]+)\)", (DOCS / page).read_text()):
        assert ((DOCS / page).parent / link).exists(), link

"""Our own YAML files: read as the library reads them."""

import pytest
from ruamel.yaml import YAML

from planner.cost.calibration import SHIPPED
from planner.cost.efficiency.reading import HERE
from planner.reading.plain_yaml import plain, read_plain


@pytest.mark.parametrize("path", [SHIPPED, *sorted(HERE.rglob("*.yaml"))], ids=lambda path: path.stem)
def test_a_shipped_file_reads_as_the_library_reads_it(path):
    assert read_plain(path) == YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))


def test_words_numbers_and_quoted_text():
    text = "a: [-1, +2, .5, 1e3, yes, ~, 'no', \"7\", 1.2.3, -]\n3: {}\n"

    assert plain(text) == {"a": [-1, 2, 0.5, 1000.0, "yes", None, "no", "7", "1.2.3", "-"], 3: {}}

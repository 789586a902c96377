"""Property tests try the same examples on every run; HYPOTHESIS_PROFILE=explore looks for new ones."""

import gc
import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from planner.candidates import known

BUSY = [HealthCheck.too_slow]  # which a busy machine may be, whatever a test draws
settings.register_profile("fixed", derandomize=True, database=None, suppress_health_check=BUSY)
settings.register_profile("explore", max_examples=500, suppress_health_check=BUSY)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))

os.environ["COLUMNS"] = "80"
"""What is printed is as wide as where nobody says how wide, whatever the terminal of the tests is."""

GARBAGE = 10_000
"""Objects more than before at which the garbage collector looks (Python's own: 700): a few MB."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest test begins first: at the end one process would wait for it alone."""
    items.sort(key=lambda item: item.path.name != "test_readme.py")


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """What is loaded by now stays to the end: the garbage collector need not look at it again and again, and
    what a plan leaves is mostly gone without it."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE)


class Forgetting(pytest.MonkeyPatch):
    """pytest's own; where it puts other code in the place of some, what the code before has answered is
    forgotten."""

    def setattr(self, *args: Any, **options: Any) -> None:
        known.KNOWN.clear()
        super().setattr(*args, **options)

    def undo(self) -> None:
        if self._setattr:
            known.KNOWN.clear()
        super().undo()


@pytest.fixture
def monkeypatch() -> Iterator[pytest.MonkeyPatch]:
    """What is undone after the test."""
    with Forgetting.context() as patch:
        yield patch

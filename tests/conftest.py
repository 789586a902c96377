"""Property tests try the same examples on every run; HYPOTHESIS_PROFILE=explore looks for new ones."""

import atexit
import gc
import os
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from planner.candidates import known
from tests.test_arrows import CANDIDATES, OURS, within

BUSY = [HealthCheck.too_slow]  # which a busy machine may be, whatever a test draws
UNTIMED: dict[str, Any] = {"deadline": None, "suppress_health_check": BUSY}
settings.register_profile("fixed", derandomize=True, database=None, **UNTIMED)
settings.register_profile("explore", max_examples=500, **UNTIMED)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))

os.environ["COLUMNS"] = "80"
"""What is printed is as wide as where nobody says how wide, whatever the terminal of the tests is."""

os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="meshwright-state-")
"""Where the last plan is kept: nobody's own."""
atexit.register(shutil.rmtree, os.environ["XDG_STATE_HOME"], ignore_errors=True)

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
    """pytest's own; where it puts other code in the place of some that the largest loads may come from, what
    the code before has answered is forgotten."""

    forgets = False

    def setattr(self, *args: Any, **options: Any) -> None:
        self.forgets |= beneath(args[0])
        self._forget()
        super().setattr(*args, **options)

    def undo(self) -> None:
        self._forget()
        super().undo()

    def _forget(self) -> None:
        if self.forgets:
            known.KNOWN.clear()


def beneath(changed: Any) -> bool:
    """Whether the largest loads may come from what is changed, a module, something of one, or a name: none
    come from a module of ours that `planner.candidates` may not import."""
    if not isinstance(changed, str):
        changed = getattr(changed, "__module__", None) or getattr(changed, "__name__", "")
    return within(changed, CANDIDATES) or not within(changed, OURS)


@pytest.fixture
def monkeypatch() -> Iterator[pytest.MonkeyPatch]:
    """What is undone after the test."""
    with Forgetting.context() as patch:
        yield patch

"""Meshwright: plans how to serve a language model on the GPUs you have, and says how good the plan is.

>>> from planner import plan                                                          # doctest: +SKIP
>>> plan("cluster.yaml", "llama-3.1-70b", rate=20).proof.gap                           # doctest: +SKIP
0.004
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.version import __version__

if TYPE_CHECKING:
    from planner.api import plan as plan
    from planner.several.plan import plan_several as plan_several

__all__ = ["__version__", "plan", "plan_several"]


def __getattr__(name: str) -> object:
    """Each is loaded when it is first used: importing a leaf such as `planner.errors` must stay cheap."""
    if name == "plan":
        from planner.api import plan

        return plan
    if name == "plan_several":
        from planner.several.plan import plan_several

        return plan_several
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""Meshwright from Python, `import meshwright`, and as `python -m meshwright`; the command begins here, too.

>>> import meshwright                                                                  # doctest: +SKIP
>>> meshwright.plan("cluster.yaml", "llama-3.1-70b", rate=20).proof.gap                # doctest: +SKIP
0.004

What it is made of lies in the package `planner`. Others have a package of that name, too (llm-d-planner): in
one environment one of both is lost, which is said here and not met as a missing module.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planner import __version__ as __version__
    from planner import plan as plan
    from planner import plan_several as plan_several

__all__ = ["__version__", "plan", "plan_several"]

TWO_OF_A_NAME = (
    "another package has installed a `planner` over Meshwright's: give Meshwright an environment of its own "
    "(pipx install, uv tool install, or a virtual environment)"
)


def _package() -> object:
    """Our package `planner`. Raises ImportError where it is another's."""
    package = import_module("planner")
    if "plan_several" not in getattr(package, "__all__", ()):
        raise ImportError(TWO_OF_A_NAME)
    return package


def __getattr__(name: str) -> object:
    """The public names, loaded when they are first used."""
    if name in __all__:
        return getattr(_package(), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


def main() -> None:
    """The command `meshwright`."""
    try:
        _package()
    except ImportError as error:
        raise SystemExit(f"error: {error}") from None
    import_module("planner.cli.app").main()


if __name__ == "__main__":
    main()

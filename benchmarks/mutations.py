"""What `check` notices: `python -m benchmarks.mutations [--plan NAME]`.

Every number of plans of each kind is taken times 0.5, 2, 10 and -1, to 0 and to nothing; words are other ones
that stand in such a place, or none that does; entries of lists are dropped and doubled; ids are swapped. A
change is noticed where the plan is not read any more or `check` names something. What passes is listed by
field, with why it may (`planner/check/said.py`: fields that are said, not checked); exits with 1 where a
field passes that is not among them.

Then changes of a whole kind (`whole_changes.py`): each must be noticed, or its figures named as other than
the catalog's, but for those that `check` says it believes.
"""

from __future__ import annotations

import argparse
import copy
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from typing import Any

from benchmarks.whole_changes import BELIEVED, WHOLE
from cluster_configs.reading import from_document as cluster_of
from planner import api
from planner.check import check
from planner.check.said import why
from planner.check.several import check as check_several
from planner.errors import MeshwrightError
from planner.plans.reading import from_document, read_all
from planner.plans.text import text
from planner.plans.trusted import differences
from planner.reading.documents import Document
from planner.several.plan import plan_several

KINDS: dict[str, dict[str, Any]] = {
    "mixed": {"gpus": "2xL4", "model": "qwen3-8b", "workload": "chat"},
    "split": {"gpus": "8xH100", "model": "llama-3.1-70b", "workload": "rag"},
    "rate, cost": {"gpus": "8xL40S,8xH100", "model": "qwen3-32b", "rate": 4.0, "objective": "cost"},
    "experts": {"gpus": "8xH200", "model": "deepseek-v3", "workload": "chat"},
    "unlike stages": {"gpus": "1xrtx-3090,1xrtx-4090", "model": "qwen3-14b"},
    "chains": {"gpus": "2xL4,1xT4", "model": "qwen3-8b", "engine": "chains"},
    "kept cache": {"gpus": "8xh100", "model": "llama-3.1-70b", "workload": "agent", "rate": 2.0},
    "drafts": {"gpus": "8xh200", "model": "deepseek-r1", "speculation": "mtp", "acceptance": 0.8},
    "survive": {"gpus": "16xH100", "model": "llama-3.1-8b", "rate": 20.0, "survive": "node"},
    "survive by half": {"gpus": "8xL40S,8xA10G", "model": "qwen3-8b", "rate": 6.0, "survive": "1:50%"},
    "capped": {"cluster": "racks", "model": "llama-3.1-8b"},
    "several models": {"gpus": "8xH100,8xL40S", "models": ("llama-3.1-8b", "qwen3-8b"), "engine": "vllm"},
    "several, capped": {"cluster": "racks", "models": ("llama-3.1-8b", "qwen3-8b"), "engine": "vllm"},
}
RACKS = {
    "nodes": [{"name": "h", "count": 2, "device": "h100-sxm", "zone": "a"}],
    "power_caps_watts": {"a": 7800, "h": 8000},
    "energy": {"a": {"usd_per_kwh": 0.12, "gco2_per_kwh": 200, "overhead": 1.3}},
}
FACTORS: dict[str, Any] = {
    "x 0.5": lambda v: v * 0.5, "x 2": lambda v: v * 2, "x 10": lambda v: v * 10, "x -1": lambda v: -v,
    "0": lambda v: 0, "none": lambda v: None,
}  # fmt: skip
OURS = (
    "replicas",
    "chains",
    "routing",
    "predicted",
    "proof",
    "experts",
    "survives",
    "tiers",
    "seats",
    "warnings",
    "prices",
    "alternatives",
    "assumptions",
    "long_prompts",
    "total",
    "plans",
)
"""Parts of a plan, or of plans of several models, that the planner makes; `problem` is what it was asked."""


@cache
def plan(kind: str) -> Any:
    """The JSON of a plan of a kind."""
    asked = {"cluster": None, "time_limit_s": 30.0, **KINDS[kind]}
    if asked["cluster"] == "racks":
        asked["cluster"] = cluster_of(Document(RACKS, "cluster"))
    made = api.plan(**asked) if "model" in asked else plan_several(**asked)
    return json.loads(text(made))


def noticed(tree: Any) -> bool:
    """Whether a changed plan is refused."""
    try:
        document = Document(tree, "plan.json")
        if "plans" in tree:
            return bool(check_several(read_all(document)))
        return bool(check(from_document(document)))
    except MeshwrightError:
        return True


def leaves(value: Any, at: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """All numbers, words and lists, with where they stand."""
    if isinstance(value, dict | list):
        if isinstance(value, list) and value and isinstance(value[0], dict):
            yield at, value
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(part, (*at, key))
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield at, value


def changed(tree: Any, at: tuple[str | int, ...], new: Any) -> Any:
    """A copy with another value there."""
    made = copy.deepcopy(tree)
    holder = made
    for step in at[:-1]:
        holder = holder[step]
    holder[at[-1]] = new
    return made


def field(at: tuple[str | int, ...]) -> str:
    """Where it stands, whatever the index, in a model's plan: "replicas[].step.decode_s"."""
    return re.sub(
        r"^(\.plans\[\])?\.", "", "".join("[]" if isinstance(step, int) else f".{step}" for step in at)
    )


def tried(kind: str) -> Iterator[tuple[str, str, bool]]:
    """(field, change, whether it was noticed) of every change of a plan."""
    tree = plan(kind)
    if noticed(tree):
        raise RuntimeError(f"the plan of {kind} is not sound itself")
    seen: dict[str, int] = defaultdict(int)
    words: dict[str, set[str]] = defaultdict(set)
    for at, value in leaves(tree):
        if isinstance(value, str):
            words[field(at)].add(value)
    for part in OURS:
        for at, value in leaves(tree.get(part) or {}, (part,)):
            name = field(at)
            if name.startswith("problem."):
                continue
            seen[name] += 1
            if seen[name] > 4:  # enough of those alike
                continue
            if isinstance(value, list):
                yield f"{name}[]", "dropped", noticed(changed(tree, at, value[1:]))
                yield f"{name}[]", "doubled", noticed(changed(tree, at, [*value, value[-1]]))
                continue
            if isinstance(value, str):
                for other in sorted(words[name] - {value})[:1]:
                    yield name, "another", noticed(changed(tree, at, other))
                yield name, "no such word", noticed(changed(tree, at, f"not {value}"))
                continue
            for what, change in FACTORS.items():
                if (new := change(value)) != value:
                    yield name, what, noticed(changed(tree, at, new))
    ids = [r["id"] for r in tree.get("replicas", ())]
    if len(ids) > 1:
        swapped = copy.deepcopy(tree)
        for r, other in zip(swapped["replicas"], ids[::-1], strict=True):
            r["id"] = other
        yield "replicas[].id", "swapped", noticed(swapped) or ids == ids[::-1]


def whole(kind: str) -> Iterator[tuple[str, str | None]]:
    """(change, how it was noticed; None: not at all) of every change of a whole kind that the plan has."""
    before = set(unlike_catalog(plan(kind)))
    for what, change in WHOLE.items():
        tree = copy.deepcopy(plan(kind))
        parts = [part for part in tree.get("plans", [tree]) if change(part)]
        if not parts:
            continue
        if noticed(tree):
            yield what, "refused"
        else:
            yield what, "named" if set(unlike_catalog(tree)) - before else None


def unlike_catalog(tree: Any) -> list[str]:
    """What is named of a plan, or of plans of several models."""
    plans = (from_document(Document(part, "plan.json")) for part in tree.get("plans", [tree]))
    return [line for each in plans for line in differences(each)]


def main() -> int:
    """The table, and what passes."""
    parser = argparse.ArgumentParser(description="What check notices.")
    parser.add_argument("--plan", choices=KINDS)
    given = parser.parse_args()
    passed: dict[str, set[str]] = defaultdict(set)
    print("| plan | changes | noticed | passed, said why | passed, not said |\n|---|---|---|---|---|")
    unsaid = 0
    for kind in [given.plan] if given.plan else KINDS:
        done = list(tried(kind))
        through = [(name, what) for name, what, ok in done if not ok]
        for name, what in through:
            passed[name].add(what)
        open_ = [name for name, _ in through if why(name) is None]
        unsaid += len(open_)
        noted, said = len(done) - len(through), len(through) - len(open_)
        print(f"| {kind} | {len(done):,} | {noted:,} | {said:,} | {len(open_)} |", flush=True)
    print("\n| change of a whole kind | plans | refused | named | passed |\n|---|---|---|---|---|")
    met: dict[str, list[str | None]] = {what: [] for what in WHOLE}
    for kind in [given.plan] if given.plan else KINDS:
        for what, how in whole(kind):
            met[what].append(how)
    for what, ways in met.items():
        counts = " | ".join(str(ways.count(way)) for way in ("refused", "named", None))
        print(f"| {what} | {len(ways)} | {counts} |")
        unsaid += what not in BELIEVED and None in ways
    for what, why_not in BELIEVED.items():
        print(f"- {what}: {why_not}")
    print()
    for name, whats in sorted(passed.items()):
        print(f"- `{name}`: {', '.join(sorted(whats))}: {why(name) or '**not said**'}")
    return int(unsaid > 0)


if __name__ == "__main__":
    sys.exit(main())

"""Changes of a whole kind to a plan, as one who makes it look better would make them: every figure of speed
at once, every device, every band. `benchmarks/mutations.py` tries them on its plans.

A change edits the plan's tree and returns False where there is nothing of its kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

Tree = dict[str, Any]

EDGES = ("value", "low", "high")


def _scale(band: Tree | None, factor: float) -> None:
    for edge in EDGES if band else ():
        band[edge] *= factor  # type: ignore[index]


def _figures(proof: Tree) -> Iterator[tuple[Tree, str]]:
    """Every objective and bound of a proof."""
    yield from ((proof, name) for name in ("objective", "bound", "chosen", "unsplit") if proof.get(name))
    yield from ((entry, "objective") for entry in proof["kinds"])


def _without_others(tree: Tree) -> None:
    """Nothing stands beside that the change would contradict."""
    tree.update(alternatives=[], assumptions=[])
    tree.pop("saturated", None)


def all_faster(tree: Tree, factor: float = 1.22) -> bool:
    """Steps, latencies, rates and the bound, all by one factor; no chance is told."""
    p = tree["predicted"]
    for name in ("out_tok_per_s", "total_tok_per_s", "rps"):
        _scale(p[name], factor)
    for name in ("ttft_ms", "tpot_ms", "usd_per_mtok", "joules_per_tok"):
        _scale(p[name], 1 / factor)
    for r in tree["replicas"]:
        step = r["step"]
        step.update({name: step[name] / factor for name in ("decode_s", "prefill_s", "engine_s")})
        step["by"] = {name: seconds / factor for name, seconds in (step.get("by") or {}).items()}
    if tree["proof"]["unit"] == "req/s":
        for holder, name in _figures(tree["proof"]):
            holder[name] *= factor
    _without_others(tree)
    p.pop("chance_ttft", None)
    p.pop("chance_tpot", None)
    return True


def first_tokens_in_half_the_time(tree: Tree) -> bool:
    """TTFT with its band; no chance is told."""
    _scale(tree["predicted"]["ttft_ms"], 0.5)
    tree["predicted"].pop("chance_ttft", None)
    return True


def bands_of_no_width(tree: Tree) -> bool:
    """Every prediction is sure; no chance is told."""
    for band in tree["predicted"].values():
        if isinstance(band, dict):
            band["low"] = band["high"] = band["value"]
    tree["predicted"].pop("chance_ttft", None)
    tree["predicted"].pop("chance_tpot", None)
    return True


def devices_ten_times_as_fast(tree: Tree) -> bool:
    """Peak rates of every embedded device."""
    for device in tree["problem"]["devices"].values():
        device["memory_gb_per_s"] *= 10
        for rates in ("tflops", "matmul_tflops"):
            device[rates] = {name: 10 * rate for name, rate in (device.get(rates) or {}).items()}
    return True


def id_of_another_model(tree: Tree) -> bool:
    """The name under which engines load it."""
    name = tree["problem"]["model"].get("name", "")
    tree["problem"]["model_id"] = "Qwen/Qwen3-0.6B" if name != "qwen3-0.6b" else "Qwen/Qwen3-8B"
    return bool(name)


def card_with_another_id(tree: Tree) -> bool:
    """The checkpoint that the embedded card names."""
    tree["problem"]["model"]["hf_id"] = "someone/else"
    return True


def a_billion_considered(tree: Tree) -> bool:
    """The space of designs."""
    tree["proof"]["space"]["considered"] = 10**9
    return True


def no_caps(tree: Tree) -> bool:
    """A space without limits, and so complete."""
    space = tree["proof"]["space"]
    had, space["caps"], space["complete"] = bool(space["caps"]), [], True
    return had


def no_kinds(tree: Tree) -> bool:
    """The list of what fewer kinds of replica would give."""
    had, tree["proof"]["kinds"] = bool(tree["proof"]["kinds"]), []
    return had


def nothing_given_up(tree: Tree) -> bool:
    """What the plan is worse than the best fleet found."""
    had, tree["proof"]["given_up"] = tree["proof"]["given_up"] > 0, 0.0
    return bool(had)


def the_best_chosen(tree: Tree) -> bool:
    """The plan's own objective, where it is worse than the best."""
    proof = tree["proof"]
    had = proof["given_up"] > 0
    proof.update(chosen=None, given_up=0.0)
    return bool(had)


def twice_the_cost(tree: Tree) -> bool:
    """Dollars, and the objective where it is of them."""
    p = tree["predicted"]
    _scale(p["usd_per_hour"], 2.0)
    _scale(p["usd_per_mtok"], 2.0)
    if tree["proof"]["unit"] == "USD/h":
        for holder, name in _figures(tree["proof"]):
            holder[name] *= 2.0
    _without_others(tree)
    return p["usd_per_hour"] is not None


def ten_times_the_tokens_of_experts(tree: Tree) -> bool:
    """Recorded loads of experts."""
    told = tree.get("experts") or {}
    told["tokens"] = [[10 * tokens for tokens in layer] for layer in told.get("tokens") or []]
    return bool(told["tokens"])


WHOLE: dict[str, Callable[[Tree], bool]] = {
    change.__name__.replace("_", " "): change
    for change in (
        all_faster,
        first_tokens_in_half_the_time,
        bands_of_no_width,
        devices_ten_times_as_fast,
        id_of_another_model,
        card_with_another_id,
        a_billion_considered,
        no_caps,
        no_kinds,
        nothing_given_up,
        the_best_chosen,
        twice_the_cost,
        ten_times_the_tokens_of_experts,
    )
}
"""By what is changed."""

BELIEVED = {
    "all faster": "speed: `check` says by how much steps may be faster and still be believed",
    "first tokens in half the time": "queueing beside the steps: where prompts wait long, less may be true",
    "ten times the tokens of experts": "of recorded loads only proportions count",
}
"""What may pass, and why."""

"""What a plan says and `check` does not count again, by field: why it may stand there as it is.

Everything else of a plan is bounded by the arithmetic of `check`; `benchmarks/mutations.py` changes every
figure and finds what passes. A bound leaves room: what is said to be *within* its bounds passes where a
change stays inside.
"""

from __future__ import annotations

import re

_ANOTHER = "of another plan, which is not here: plan that one to see its figures"
_WORDS = "words for people and lines for engines, which hold no figure that is not beside them"
_TRIED = "of plans that were tried beside this one, and are not here"
_LENGTH = "how long the search took, and how far it went: of its own run alone"
_BAND = (
    "within its bounds: what follows from the rate is no surer than that, and no time is surer than held-out "
    "runs of the shipped calibration; of a calibration of one's own these are not here"
)
_WITHIN = "within its bounds: "

SAID: tuple[tuple[tuple[str, ...], str], ...] = (
    (("alternatives[]*", "survives.bound", "survives.without", "survives.price"), _ANOTHER),
    (("long_prompts[]*",), "of one prompt alone, on servers that are not planned"),
    (("meshwright_version", "proof.solver", "warnings[]*"), _WORDS),
    (("replicas[].launch*", "replicas[].draft.option"), _WORDS),
    (("prices[]*", "assumptions[]*", "proof.kinds[]*"), _TRIED),
    (("evidence[]*",), f"{_WITHIN}replicas of the plan that run so; of measurements there is no table here"),
    (("proof.seconds", "proof.seed"), _LENGTH),
    (("proof.space.*",), f"{_WITHIN}the caps of every search, and no more designs than there are"),
    (("proof.chosen",), "left out it is the objective, which is checked"),
    (("predicted.*.low", "predicted.*.high"), _BAND),
    (("predicted.chance_*",), "left out it is that of the band, which must be as good as the risk asks for"),
    (("predicted.t*_ms.value", "chains[].t*_s"), f"{_WITHIN}queueing beside the steps, below the limit"),
    (("replicas[].step.*",), f"{_WITHIN}not faster than the device, not above what is predicted"),
    (
        ("replicas[].utilisation",),
        f"{_WITHIN}not below FLOPs at the best measured rate, not above the busiest",
    ),
    (("replicas[].watts",), f"{_WITHIN}with idle GPUs what is predicted, none above its limit"),
    (("replicas[].power_limit_watts",), f"{_WITHIN}not above what a GPU may draw, not below what it does"),
    (("replicas[].max_batch", "replicas[].kv_tokens"), f"{_WITHIN}what is in flight finds room"),
    (("replicas[].cache.*",), "of a replay of the queue for the cache, which is not run again"),
    (("replicas[].memory[].*",), f"{_WITHIN}all parts fill the GPU; weights are counted again"),
    (("replicas[].max_batched_tokens",), f"{_WITHIN}their hidden states find room"),
    (("replicas[].stages[].nodes*",), f"{_WITHIN}nodes of its class on which all replicas fit"),
    (("tiers[].*",), f"{_WITHIN}what lies there finds room, and is read in time"),
    (("replicas[].draft.weights_bytes",), f"{_WITHIN}of the drafter no configuration is here"),
    (("replicas[].count",), "more than the traffic needs is no mistake where GPUs are free"),
    (("experts.*",), f"{_WITHIN}of recorded loads only proportions count: ten times all is the same plan"),
    (("routing[].kv_gb_per_s",), f"{_WITHIN}not less than the cache that moves"),
    (("routing[].prefill",), f"{_WITHIN}a group whose GPUs reach that many FLOPs"),
    (("replayed.*",), "of a replay that is not run again: `meshwright simulate` does"),
    (("seats[].port", "router_port"), f"{_WITHIN}any port will do that no other server has"),
    (("survives.standing[].replicas.*",), f"{_WITHIN}more replicas on a node than stand there lose no less"),
    (("survives.losses[]*",), f"{_WITHIN}a loss that is told twice, or of more, is survived no less"),
)
"""Fields ("replicas[].step.*": any of its own), and the reason."""


def why(field: str) -> str | None:
    """Why a changed `field` may pass; None where it may not.

    >>> why("alternatives[].loss")
    'of another plan, which is not here: plan that one to see its figures'
    >>> why("routing[].share") is None
    True
    """
    return next((reason for fields, reason in SAID if any(_means(told, field) for told in fields)), None)


def _means(told: str, field: str) -> bool:
    return re.fullmatch(re.escape(told).replace(r"\*", ".*"), field) is not None

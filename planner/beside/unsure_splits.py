"""Splits of prefill and decode that measured ones give little reason to trust: by a small gain, or over PCIe.

Public comparisons of a split with servers that do both, on the same GPUs, from 2024 to 2026: where links are
fast, splitting only for a predicted gain above `SURE` brings the most; over PCIe two sources with five runs
gained nothing (vLLM on L40S without peer-to-peer at three rates, SGLang on A10 with RDMA at one load).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from planner.beside.alternatives import UNSPLIT
from planner.objectives import Objective
from planner.plans.found import Found
from planner.plans.schema import Alternative, PlanWarning

SURE = 1.1
"""Predicted gain above which splits pay when measured: of 88 comparisons, the rule "above 1.1" gains 0.273 in
the mean log against never splitting, "above 1" 0.235, perfect foresight 0.290."""

PCIE = 64e9
"""Bytes/s a direction of PCIe 5.0 x16; the slowest NVLink between data-centre GPUs carries more."""

APART = ("watts", "latency")
"""What an objective may spend that comparisons of tokens a GPU say nothing of."""


def unsure_splits(found: Found, objective: Objective, others: Iterable[Alternative]) -> list[PlanWarning]:
    """Why the split of a fleet may not pay, one warning a reason; `others`: fleets beside it, that without a
    split among them."""
    used = [found.candidates[c] for c, _ in found.solution.flows]
    split = [c for c in used if c.role != "mixed"]
    if not split:
        return []
    homes = {c.home[0] for c in split}
    slow = [n.id for n in found.cluster.classes if n.id in homes and n.intra_bytes_per_s <= PCIE]
    reasons = [*_small(found, objective, others), *([_over_pcie(slow)] if slow else [])]
    return [PlanWarning(code="split_unsure", message=message) for message in reasons]


def _small(found: Found, objective: Objective, others: Iterable[Alternative]) -> Iterator[str]:
    """That the fleet without a split is nearly as good; nothing where it is not, or none is known."""
    own = found.solution.objective
    for line in others:
        if UNSPLIT in line.what.split(", ") and line.objective and own and objective.spends not in APART:
            gain = own / line.objective if objective.more else line.objective / own
            if gain <= 1:  # a plan of fewer kinds may be a little worse than one without a split
                yield f'a prefill/decode split brings nothing here: "{line.what}" is the safer choice'
                return
            if gain <= SURE:
                yield (
                    f"a prefill/decode split is predicted to bring {100 * (gain - 1):.2g} %: in public "
                    f"comparisons gains predicted below {100 * (SURE - 1):.0f} % were not worth it; "
                    f'"{line.what}" is the safer choice'
                )
                return


def _over_pcie(slow: list[str]) -> str:
    return (
        f"prefill and decode apart on {', '.join(slow)}, whose GPUs have no more than PCIe between them: in "
        "none of the public comparisons over PCIe (2 sources, 5 runs) did that pay; measure it first"
    )

"""A calibration in a terminal: errors before and after, what changed, what is still off, by hand."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from planner.calibration.calibrate import Calibrated, Change
from planner.calibration.runs import Measurement
from planner.cost.calibration import Traits
from planner.reports import calibrated as report

H100 = Traits("vllm", "hopper", "h100-sxm", "bf16", "none", "dense-8b")
MIXTURE = replace(H100, device="l40s", gemm="fp8", experts="mxfp4", model="moe")
NAN = float("nan")


def found(servers: list[Traits], **ms: list[list[float]]) -> Calibrated:
    """Rows of [TTFT, TPOT] in ms: measured, before, and held back (as before, unless told)."""
    logs = {name: np.log(np.array(rows, dtype=float)) for name, rows in ms.items()}
    n = len(servers)
    cells = {"isl": "1000", "osl": "200", "concurrency": "8"}
    return Calibrated(
        calibration=None,  # type: ignore[arg-type]
        measurements=[Measurement(cells, 1.0, 1.0, f"runs.csv:{i + 2}") for i in range(n)],
        servers=servers,
        models={"dense-8b": "llama-3.1-8b", "moe": "gpt-oss-120b"},
        measured=logs["measured"],
        before=logs["before"],
        held_back=logs.get("held_back", logs["before"]),
        sigma_before=np.full((n, 2), 0.2),
        sigma=np.full((n, 2), 0.1),
        changes=[],
    )


THREE = found(
    [H100] * 3,
    measured=[[100.0, 10.0], [100.0, 10.0], [100.0, 10.0]],
    before=[[150.0, 8.0], [140.0, 7.0], [100.0, 6.0]],
    held_back=[[110.0, 10.5], [90.0, 9.0], [103.0, 9.9]],
)
"""TTFT predicted too long by 50, 40 and no per cent, TPOT too short by 20, 30 and 40."""


def table(of: Calibrated) -> list[str]:
    console = Console(file=StringIO(), width=120)
    console.print(report.worth(of))
    return [" ".join(x.split()) for x in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]


def test_errors_are_medians_of_rows_and_the_bias_says_which_way():
    """TPOT was off by 20, 30, 40 per cent; held back it is by 5, -10 and -1."""
    assert table(THREE) == [
        "rows before after bias band",
        "llama-3.1-8b bf16 on h100-sxm under vllm",
        "TPOT 3 30 % 5.0 % -1.0 % ±29 → 14 %",
        "TTFT 3 40 % 10 % +3.0 % ±29 → 14 %",
    ]


def test_rows_in_which_a_time_was_not_measured_are_of_the_other_alone():
    some = np.log(np.array([[NAN, 10.0], [100.0, 10.0], [NAN, 10.0]]))

    assert table(replace(THREE, measured=some))[2:] == [
        "TPOT 3 30 % 5.0 % -1.0 % ±29 → 14 %",
        "TTFT 1 40 % 10 % -10.0 % ±29 → 14 %",
    ]
    assert len(table(replace(THREE, measured=np.full((3, 2), NAN)))) == 2


def test_kinds_of_servers_stand_by_themselves_and_then_together():
    two = replace(THREE, servers=[MIXTURE, H100, MIXTURE])
    shown = table(two)

    assert [x for x in shown if not x.startswith(("TPOT", "TTFT", "rows"))] == [
        "gpt-oss-120b fp8/mxfp4 on l40s under vllm",
        "llama-3.1-8b bf16 on h100-sxm under vllm",
        "all",
    ]
    assert [x.split()[1] for x in shown if x.startswith("TPOT")] == ["2", "1", "3"]


@pytest.mark.parametrize(
    ("traits", "said"),
    [
        (H100, "llama-3.1-8b bf16 on h100-sxm under vllm"),
        (replace(H100, experts="bf16"), "llama-3.1-8b bf16 on h100-sxm under vllm"),
        (MIXTURE, "gpt-oss-120b fp8/mxfp4 on l40s under vllm"),
    ],
)
def test_a_precision_of_experts_is_told_where_it_is_another(traits: Traits, said: str):
    assert report.server(traits, THREE.models) == said


def change(
    factor: float, ttft: float, tpot: float, parameter: str = "launch", server: Traits = H100
) -> Change:
    return Change(parameter, server, factor, np.log(np.array([ttft, tpot])))


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (change(1.5, 1.1, 1.25), "kernel launches ×1.50: TPOT +25 %, TTFT +10 %"),
        (change(0.804, 1.002, 0.9), "kernel launches ×0.80: TPOT -10 %"),
        (change(2.0, 0.5, 1.0), "kernel launches ×2.00: TTFT -50 %"),
        (change(2.0, 1.2, 1.0, "own_parameter"), "own_parameter ×2.00: TTFT +20 %"),
    ],
)
def test_a_change_says_only_what_is_felt(one: Change, said: str):
    assert report.sentence(one) == said


def test_of_each_kind_of_server_the_first_four_changes_are_told():
    changes = [change(1.0 + i, 2.0, 2.0) for i in range(6)] + [change(0.5, 2.0, 1.0, server=MIXTURE)]
    shown = report.changed(replace(THREE, servers=[MIXTURE, H100, H100], changes=changes))

    assert shown == [
        "gpt-oss-120b fp8/mxfp4 on l40s under vllm",
        "  kernel launches ×0.50: TTFT +100 %",
        "llama-3.1-8b bf16 on h100-sxm under vllm",
        *(f"  kernel launches ×{1 + i}.00: TPOT +100 %, TTFT +100 %" for i in range(4)),
    ]
    assert report.changed(THREE) == []


def test_rows_still_off_are_told_the_farthest_first_and_only_those_that_are_far():
    """0.1 in the logarithm is far: 90 for 100 ms is, 110 is not; nor are TPOTs."""
    assert report.still_off(THREE) == [
        "runs.csv:3: TTFT 100 ms measured, 90.0 ms predicted (1000/200, 8 at once)",
        "runs.csv:3: TPOT 10.0 ms measured, 9.00 ms predicted (1000/200, 8 at once)",
    ]
    assert report.still_off(replace(THREE, held_back=THREE.measured)) == []
    assert report.still_off(replace(THREE, held_back=np.full((3, 2), NAN))) == []


def test_no_more_than_five_of_them():
    many = found(
        [H100] * 4,
        measured=[[100.0 * 2**i, 10.0 * 3**i] for i in range(4)],
        before=[[100.0, 10.0]] * 4,
    )
    shown = report.still_off(many)

    assert [x.split(":")[1] + x.split(":")[2].split()[0] for x in shown] == [
        "5TPOT", "4TPOT", "5TTFT", "4TTFT", "3TPOT",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ({}, "?/?, 1 at once"),
        ({"isl": "1000", "osl": "200", "concurrency": "8", "tp": "1"}, "1000/200, 8 at once"),
        (
            {"isl": "1000", "osl": "200", "tp": "4", "pp": "2", "attn_dp": "", "ep": "8"},
            "1000/200, 1 at once, tp4, pp2, ep8",
        ),
    ],
)
def test_a_load_is_lengths_concurrency_and_sizes_beyond_one(cells: dict[str, str], said: str):
    assert report.load(cells) == said


@pytest.mark.parametrize(
    ("of", "told"),
    [
        ({}, ["nothing that would be felt", "Still off"]),
        ({"held_back": THREE.measured, "changes": [change(1.5, 1.1, 1.25)]}, ["kernel launches ×1.50"]),
    ],
)
def test_all_of_it_is_printed_under_its_heads(of: dict[str, Any], told: list[str]):
    console = Console(file=StringIO(), width=100)
    report.render(replace(THREE, **of), 1234, console)
    shown = console.file.getvalue()  # type: ignore[attr-defined]

    assert shown.startswith("3 rows used, 1,234 refused\n")
    assert all(words in shown for words in told)
    assert ("Still off" in shown) == ("held_back" not in of)
    assert ("nothing that would be felt" in shown) == ("changes" not in of)

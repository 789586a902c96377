"""A plan in a terminal: what must stand there, at 80 columns and 120, with and without colour."""

from io import StringIO

import pytest
from rich.console import Console

from planner.plans.schema import Band, Evidence, Plan, Price
from planner.reports import memory as bars
from planner.reports import terminal
from planner.reports.page.html import html
from planner.reports.words import short
from tests.reports.samples import MIXED, ONE_NODE, STOPPED, memory


def shown(plan: Plan, width: int = 80, colour: bool = False) -> str:
    console = Console(file=StringIO(), width=width, force_terminal=colour, highlight=False)
    terminal.render(plan, console)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def proven(plan: Plan, **changes: object) -> Plan:
    return plan.model_copy(update={"proof": plan.proof.model_copy(update=changes)})


@pytest.mark.parametrize("plan", [ONE_NODE, MIXED, STOPPED])
@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_the_terminal(plan: Plan, width: int) -> None:
    assert max(len(line) for line in shown(plan, width).splitlines()) <= width


@pytest.mark.parametrize("plan", [ONE_NODE, MIXED])
def test_nothing_is_cut_at_80_columns(plan: Plan) -> None:
    assert "…" not in shown(plan)


def test_the_headline_says_what_runs_where_and_what_comes_of_it() -> None:
    lines = shown(ONE_NODE).splitlines()

    assert lines[0] == "llama-3.1-70b on 8xH100, 8 of 8 GPUs"
    assert lines[1] == "3,180 output tok/s · 12.4 requests/s · TTFT 812 ms · TPOT 41.3 ms"


def test_with_a_rate_the_headline_says_requests_and_cost() -> None:
    assert (
        shown(MIXED).splitlines()[1]
        == "40.0 requests/s · 3,180 output tok/s · TTFT 812 ms · TPOT 41.3 ms · $84.40/h"
    )


def test_of_a_single_token_no_time_per_further_token_is_told() -> None:
    """'TPOT 0 ms' stood in the first lines and beside its limit."""
    none = Band(value=0.0, low=0.0, high=0.0)
    lone = MIXED.model_copy(update={"predicted": MIXED.predicted.model_copy(update={"tpot_ms": none})})

    assert "TPOT" in shown(MIXED)
    assert "time per output token" in shown(MIXED)
    assert not any(
        word in shown(lone).split("Not asked for")[0] for word in ("TPOT", "time per output token")
    )


def test_each_replica_group_has_its_row() -> None:
    text = shown(MIXED, 120)

    assert "2 ×  p1  prefill  2×h100-sxm           tp4            bf16" in text
    assert "with sglang" in text
    assert "tp2 dp4 ep8" in text
    assert "2×h100-sxm + 2×l40s  tp2 pp2 52+28" in text


def test_the_cache_says_how_full_it_is_and_who_finds_no_room() -> None:
    row = next(line for line in shown(ONE_NODE, 60).splitlines() if "21,800" in line)

    assert row.split() == ["r1", "21,800", "10,900", "87", "%", "0.6", "%", "4.0", "%", "0.2", "%"]
    assert "at most 1.0 % of requests are preempted" in shown(ONE_NODE)


def test_predictions_stand_beside_their_bands_and_limits() -> None:
    row = next(line for line in shown(ONE_NODE).splitlines() if "time to first token, mean" in line)

    assert row.split("mean")[1].split() == ["812", "ms", "715", "–", "918", "2,000", "ms", "92", "%"]


def test_beside_each_limit_stands_the_chance_that_it_is_kept_and_what_that_means() -> None:
    lines = shown(ONE_NODE).splitlines()
    assert [line.split()[-3:] for line in lines if "80 % band" in line] == [["band", "limit", "kept"]]
    assert [line.split()[-3:] for line in lines if "per output token, mean" in line] == [["over", "99", "%"]]
    text = " ".join(shown(ONE_NODE, 120).split())
    assert "band: four measurements of five lie inside; kept: the chance that a measurement is within" in text


def test_without_limits_no_chance_is_spoken_of() -> None:
    none = ONE_NODE.predicted.model_copy(update={"chance_ttft": None, "chance_tpot": None})
    text = shown(ONE_NODE.model_copy(update={"predicted": none})).split("Memory")[0]

    assert "four measurements of five lie inside" in text
    assert "kept" not in text


def test_without_bands_none_is_explained() -> None:
    """As of measured designs: times stand from 0 to their limits, which is no band of measurements."""
    bare = {
        name: Band(value=b.value, low=b.value * (name not in ("ttft_ms", "tpot_ms")), high=b.value)
        for name, b in ONE_NODE.predicted
        if isinstance(b, Band)
    }
    plan = ONE_NODE.model_copy(update={"predicted": ONE_NODE.predicted.model_copy(update=bare)})
    pages = [html([p], ["plan"]).split("</style>")[1] for p in (ONE_NODE, plan)]

    for words in ("80 % band", "four measurements of five", "715 – 918"):
        assert [words in shown(p) for p in (ONE_NODE, plan)] == [True, False]
        assert [words in page for page in pages] == [True, False]
    assert ["fill-band" in page for page in pages] == [True, False]
    assert "kept: the chance" in " ".join(shown(plan).split())


def test_traffic_is_shown_where_there_is_a_choice() -> None:
    assert "Traffic" not in shown(ONE_NODE)
    assert "70 % p1 then d1, 1.90 GB/s of KV cache between" in shown(MIXED)


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (ONE_NODE, "0.6 % from the best possible among 1,840 designs, 0.41 s"),
        (proven(ONE_NODE, gap=0.0), "the best possible among 1,840 designs"),
        (proven(ONE_NODE, gap=1e-5), "less than 0.1 % from the best possible"),
        (STOPPED, "out of time: 3.4 % from the best possible"),
        (proven(STOPPED, seconds=20.0), "the bound is loose: 3.4 % from the best possible"),
        (
            proven(STOPPED, status="not_closed", why="it may"),
            "the bound is loose: 3.4 % from the best possible",
        ),
        (proven(STOPPED, status="not_closed", why="it may"), "a gap is left as it may"),
        (proven(ONE_NODE, status="interrupted", gap=0.2), "interrupted: 20 % from the best possible"),
    ],
)
def test_the_proof_line_says_how_far_from_the_best(plan: Plan, words: str) -> None:
    assert words in " ".join(shown(plan, 200).split())


def test_a_status_of_optimal_is_not_called_the_best_where_the_bound_says_otherwise() -> None:
    text = shown(proven(ONE_NODE, status="optimal", gap=0.08))

    assert "8.0 % from the best possible" in text


def test_the_bottleneck_comes_first_and_what_binds_nothing_is_said_so() -> None:
    said = terminal.worth(MIXED)

    assert said == [
        "Limited by l40s GPUs: 4 GPUs (a node) more would save $6.40/h (7.6 %).",
        "More of these would bring nothing: h100-sxm GPUs.",
    ]


def test_of_limits_that_all_bring_nothing_none_holds_the_plan_back() -> None:
    idle = Price(limit="watts", one_more="1 kW", worth=0.0, unit="tok/s")
    plan = ONE_NODE.model_copy(update={"prices": [idle]})

    assert terminal.worth(plan) == ["More of these would bring nothing: watts."]


def test_each_runner_up_says_why_it_lost() -> None:
    text = " ".join(shown(ONE_NODE).split())

    assert "9.7 % worse 2,870 tok/s prefill and decode apart TTFT is met with room to spare" in text
    assert "not possible tp1 weights of 141 GB do not fit in 80 GB" in text


def test_what_was_assumed_is_said_with_its_value() -> None:
    text = " ".join(shown(ONE_NODE).split())

    assert "TPOT within 50 ms" in text
    assert "limits kept with a chance of 50 % (risk 0.5)" in text
    assert "assumed" not in shown(MIXED)


def test_colour_adds_nothing_but_colour() -> None:
    plain = Console(file=StringIO(), width=80, force_terminal=True, no_color=True, highlight=False)
    terminal.render(MIXED, plain)
    coloured = shown(MIXED, colour=True)

    assert "\x1b[" in coloured
    assert isinstance(plain.file, StringIO)
    assert "\x1b[3" not in plain.file.getvalue()


def test_a_bar_is_as_long_as_asked_and_full_where_memory_is_full() -> None:
    full = memory(0, 70.0, 4.5)

    assert len(bars.bar(full, 40).plain) == 40
    assert bars.FREE not in bars.bar(full, 40).plain
    assert bars.bar(memory(0, 0.0, 0.0, 8000.0), 40).plain == bars.FREE * 40


def test_short_forms_are_one_word_a_fact() -> None:
    assert [short(r) for r in MIXED.replicas] == [
        "2x 2×h100-sxm tp4 prefill sglang bf16 b96",
        "3x 8×h100-sxm tp2-dp4-ep8 decode sglang fp8+experts:mxfp4+KV:bf16 b512",
        "1x 2×h100-sxm+2×l40s tp2-pp2-52+28 mixed sglang bf16 b96",
    ]


def test_what_was_never_measured_stands_in_terminal_and_page_with_whose_it_is() -> None:
    told = {"mechanism": "device", "replicas": [MIXED.replicas[0].id], "what": "vLLM on t4: no runs"}
    plan = MIXED.model_copy(update={"evidence": [Evidence.model_validate(told)]})
    line = f"vLLM on t4: no runs ({MIXED.replicas[0].id})"

    assert line in shown(plan)
    assert line in html([plan], ["plan"])
    assert "Beyond what was measured" not in shown(MIXED) + html([MIXED], ["plan"])

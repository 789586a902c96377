"""The first screen of a plan: what it says, and that it fits whatever the plan."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from planner.plans.schema import Alternative, Evidence, Launch, Plan
from planner.reports import fitted, screen
from tests.reports.samples import MIXED, ONE_NODE, STOPPED

GOLDEN = sorted((Path(__file__).parents[1] / "golden" / "plans").glob("*.json"))


def shown(plan: Plan, kept: bool = True) -> list[str]:
    out = io.StringIO()
    screen.render(plan, Console(file=out, width=80, highlight=False), kept)
    return out.getvalue().splitlines()


def plan_of(path: Path) -> Plan:
    """A golden plan, which keeps no seconds."""
    document = json.loads(path.read_text())
    document["proof"]["seconds"] = 1.0
    return Plan.model_validate(document)


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_every_golden_plan_fits_a_small_window(path: Path) -> None:
    lines = shown(plan_of(path))

    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert all(line == line.rstrip() for line in lines)
    titles = [line.split()[0] for line in lines if line and not line.startswith(" ")]
    assert titles[1:3] == ["Expect", "Run"]
    assert {"Proof", "Next"} <= set(titles)


def test_a_plan_with_far_too_much_to_say_still_fits() -> None:
    """Twenty groups of replicas, ten mechanisms never measured, and long words."""
    groups = [r.model_copy(update={"id": f"r{i}"}) for i in range(10) for r in MIXED.replicas]
    what = "prefill in pipelines of many stages over a link that nobody ever measured anything on"
    evidence = [Evidence(mechanism="pipeline", replicas=[f"r{i}"], what=f"{what}, {i}") for i in range(10)]
    plan = MIXED.model_copy(update={"replicas": groups, "evidence": evidence})

    lines = shown(plan)

    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert any("… (--details)" in line for line in lines)


def test_the_answer_comes_first_and_the_next_step_last() -> None:
    lines = shown(ONE_NODE)

    assert lines[0].startswith("llama-3.1-70b on 8 x h100-sxm: use all 8 GPUs")
    assert lines[-1].endswith("meshwright explain, simulate, report: of this plan, which is kept")
    assert any("limit" in line and "chance kept" in line for line in lines)


def test_a_plan_that_is_not_kept_says_how_to_write_it() -> None:
    assert "-o plan.json" in shown(ONE_NODE, kept=False)[-1]


def test_a_proof_that_did_not_close_says_why() -> None:
    text = " ".join(" ".join(shown(STOPPED)).split())

    assert "at most 3.4 % better among" in text
    assert "not closed: out of time" in text


@pytest.mark.parametrize(
    ("times", "said"), [(3.0, "first token 3 times as late"), (0.25, "first token 4 times as soon")]
)
def test_the_other_way_with_the_phases_stands_with_its_first_token(times: float, said: str) -> None:
    own = ONE_NODE.proof.own
    line = {"what": "prefill/decode split", "objective": 1.06 * own, "loss": 0.0, "why": ""}
    other = Alternative(**line, ttft_times=times, gaps_ms=(15.0, 289.0))
    plan = ONE_NODE.model_copy(update={"alternatives": [other]})

    text = " ".join(" ".join(shown(plan)).split())

    assert "prefill and decode apart: " in text
    assert "(+6.0 %)" in text
    assert f"{said}, its gaps between tokens up to 15 ms, not 289" in text


def test_what_is_cut_is_the_least_important() -> None:
    many = [fitted.Section("Assumed", fitted.titled("Assumed", ["word " * 200]))]
    answer = fitted.Section("", fitted.titled("", ["answer"] * 12), least=12)

    lines = [line.plain for line in fitted.fitted([answer, *many])]

    assert len(lines) == 24
    assert sum("answer" in line for line in lines) == 12
    assert lines[-1].endswith("… (--details)")


def test_a_server_that_stands_alone_is_started_by_the_line_that_is_shown() -> None:
    launch = Launch(argv=["vllm", "serve", "a model"], engine_versions=">=0.23", env={}, notes=[])
    alone = ONE_NODE.replicas[0].model_copy(update={"count": 1, "launch": launch})

    lines = shown(ONE_NODE.model_copy(update={"replicas": [alone]}))

    assert "Start     vllm serve 'a model'" in lines


def test_a_command_that_does_not_fit_is_left_out_whole() -> None:
    start = fitted.Section("Start", fitted.titled("Start", ["word " * 60]), least=0)
    answer = fitted.Section("", fitted.titled("", ["answer"] * 22), least=22)

    lines = [line.plain for line in fitted.fitted([answer, start])]

    assert lines == [" " * 10 + "answer"] * 22

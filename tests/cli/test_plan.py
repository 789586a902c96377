"""`meshwright plan`: what it asks of the API, what it prints and writes, and what it leaves alone."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from planner.cli import app
from planner.errors import Infeasible, InputError
from planner.inputs.options import Options
from planner.plans.schema import Plan
from planner.plans.text import text
from planner.question.asked import options_of
from tests.reports.samples import MIXED, ONE_NODE, STOPPED


class FakeApi(SimpleNamespace):
    """Stands for planner.api: answers with `answer`, remembers how it was asked."""

    answer: Plan | Exception = ONE_NODE
    asked: tuple[tuple[Any, ...], dict[str, Any]] | None = None

    def plan(self, *args: Any, **options: Any) -> Plan:
        self.asked = (args, options)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    fake = FakeApi()
    monkeypatch.setitem(sys.modules, "planner.api", fake)
    monkeypatch.setattr("planner.api", fake, raising=False)
    return fake


def test_options_reach_the_api_under_its_names(api: FakeApi) -> None:
    line = (
        "plan c.yaml --model m --rate 3 --ttft-ms none --tpot-ms 40 --percentile p95 --time-limit 9 --seed 4"
        " --simple 0.1 --max-utilisation 0.9 --loop open"
    )
    app.run([*line.split(), "--budget", "gpus=8", "--engine", "vllm", "--isl", "10"])

    assert api.asked is not None
    args, options = api.asked
    assert args == ("c.yaml", "m")
    expected = {
        "rate": 3.0, "ttft_ms": "none", "tpot_ms": "40", "percentile": "p95", "time_limit_s": 9.0,
        "seed": 4, "simple": 0.1, "max_utilisation": 0.9, "loop": "open",
        "budget": "gpus=8", "engine": "vllm", "isl": 10, "osl": None, "workload": "chat",
    }  # fmt: skip
    assert {name: options[name] for name in expected} == expected


def test_the_shares_that_are_not_asked_for_are_the_options_own(api: FakeApi) -> None:
    app.run(["plan", "--gpus", "8xH100", "--model", "m"])

    assert api.asked is not None
    own = Options()
    assert {name: api.asked[1][name] for name in ("simple", "max_utilisation", "risk", "gap")} == {
        "simple": own.simple, "max_utilisation": own.max_utilisation, "risk": None, "gap": own.gap,
    }  # fmt: skip
    assert (own.simple, own.max_utilisation) == (0.05, 0.98)


@pytest.mark.parametrize(
    ("name", "value"),
    [("simple", -0.01), ("simple", 1.0), ("max_utilisation", 0.0), ("max_utilisation", 1.0)],
)
def test_shares_that_mean_nothing_are_refused(name: str, value: float) -> None:
    with pytest.raises(InputError, match=f"--{name.replace('_', '-')}"):
        options_of({name: value})


def test_json_is_the_plan_and_nothing_else(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["plan", "--gpus", "8xH100", "--model", "m", "--json"]) == 0

    assert capsys.readouterr().out == text(ONE_NODE) + "\n"


def test_warnings_go_to_stderr(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    api.answer = MIXED
    app.run(["plan", "--gpus", "8xH100", "--model", "m"])

    out, err = capsys.readouterr()
    assert "2 of 8 l40s stay idle" in err
    assert "stay idle" not in out


def test_a_plan_that_ran_out_of_time_exits_with_4_and_is_printed(
    api: FakeApi, capsys: pytest.CaptureFixture[str]
) -> None:
    api.answer = STOPPED

    assert app.run(["plan", "--gpus", "8xH100", "--model", "m"]) == 4
    assert "at most 3.4 % better" in capsys.readouterr().out


def test_details_are_all_of_the_plan(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    app.run(["plan", "--gpus", "8xH100", "--model", "m", "--details"])

    assert api.asked is not None
    assert api.asked[1]["brief"] is False
    assert "Memory per GPU" in capsys.readouterr().out


def test_the_plan_is_written_to_a_file(api: FakeApi, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    app.run(["plan", "--gpus", "8xH100", "--model", "m", "-o", str(file)])

    assert file.read_text() == text(ONE_NODE) + "\n"
    assert list(tmp_path.iterdir()) == [file]


def test_a_failure_leaves_the_old_file_as_it_was(api: FakeApi, tmp_path: Path) -> None:
    api.answer = Infeasible("no")
    file = tmp_path / "plan.json"
    file.write_text("old")

    assert app.run(["plan", "--gpus", "8xH100", "--model", "m", "-o", str(file)]) == 3
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("place", [".", "no/folder/plan.json", "old/plan.json"])
def test_a_place_that_cannot_be_written_fails_before_the_solve(
    api: FakeApi, tmp_path: Path, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "old").write_text("a file, no folder")
    args = ["plan", "--gpus", "8xH100", "--model", "m", "--json", "-o", str(tmp_path / place)]

    assert app.run(args) == 2
    assert api.asked is None
    assert "cannot write" in json.loads(capsys.readouterr().out)["error"]["message"]


def test_a_file_that_may_not_be_written_is_refused_even_where_its_folder_may(
    api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "plan.json"
    file.write_text("read-only")
    monkeypatch.setattr("os.access", lambda *_: False)

    assert app.run(["plan", "--gpus", "8xH100", "--model", "m", "-o", str(file)]) == 2
    assert file.read_text() == "read-only"


def test_a_link_stays_a_link(api: FakeApi, tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("")
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    app.run(["plan", "--gpus", "8xH100", "--model", "m", "-o", str(tmp_path / "link.json")])

    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "real.json").read_text().startswith("{")


def test_a_device_can_be_written_to(api: FakeApi) -> None:
    assert app.run(["plan", "--gpus", "8xH100", "--model", "m", "-o", "/dev/null"]) == 0
    assert not Path("/dev/null").is_file()

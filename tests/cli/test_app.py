"""The command line: help at once, mistakes in one clear message, only the answer on stdout."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from planner.cli import app
from planner.cli.failures import is_unread
from planner.errors import Infeasible, InputError, OutOfTime

REPO = Path(__file__).resolve().parents[2]
HEAVY = {
    "numpy",
    "scipy",
    "pydantic",
    "rich",
    "pulp",
    "highspy",
    "ortools",
    "joblib",
    "ruamel",
    "ruamel.yaml",
}


def fail_with(error: BaseException) -> Callable[[], None]:
    def version() -> None:
        """Fail."""
        raise error

    return version


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Makes `meshwright version` fail with an error of one's choice."""

    def install(error: BaseException) -> None:
        monkeypatch.setattr("planner.cli.version.version", fail_with(error))

    return install


def test_help_lists_every_command_and_loads_nothing_heavy() -> None:
    code = (
        "import sys; from planner.cli import app; app.run(['--help']);"
        "print(sorted(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=REPO)

    assert all(f"\n  {name} " in done.stdout for name in app.COMMANDS)
    assert set(eval(done.stderr)) & HEAVY == set()


def test_a_plan_loads_scipy_only_where_it_needs_it() -> None:
    code = "import sys, planner.api; print('scipy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=REPO)

    assert done.stdout == "False\n", done.stderr


def test_without_a_command_the_help_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run([]) == 0
    assert "Usage: meshwright" in capsys.readouterr().out


@pytest.mark.parametrize("name", app.COMMANDS)
def test_every_command_has_a_file_a_function_of_its_name_and_a_help(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.function_of(name).__doc__

    assert app.run([name, "--help"]) == 0
    assert f"Usage: meshwright {name}" in capsys.readouterr().out


def test_every_help_line_of_a_command_fits_beside_its_name() -> None:
    assert all(len(line) <= 66 for line in app.COMMANDS.values())


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [
        (InputError("x"), 2),
        (Infeasible("x"), 3),
        (OutOfTime("x"), 5),
        (KeyboardInterrupt(), 130),
        (KeyError("x"), 1),
    ],
)
def test_each_kind_of_error_has_its_exit_code(
    failing: Callable[[BaseException], None], error: BaseException, exit_code: int
) -> None:
    failing(error)

    assert app.run(["version"]) == exit_code


def test_an_error_says_what_where_and_what_next_on_stderr(
    failing: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str]
) -> None:
    failing(InputError("unknown GPU `h100-sxn`", "cluster.yaml:4:13", "did you mean `h100-sxm`?"))
    app.run(["version"])

    out, err = capsys.readouterr()
    assert out == ""
    assert err == "error: unknown GPU `h100-sxn`\n  at cluster.yaml:4:13\nhint: did you mean `h100-sxm`?\n"


def test_an_unexpected_error_is_one_line_without_a_traceback(
    failing: Callable[[BaseException], None],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failing(ZeroDivisionError("by nothing"))
    app.run(["version"])
    quiet = capsys.readouterr().err
    monkeypatch.setenv("MESHWRIGHT_DEBUG", "1")
    app.run(["version"])
    told = capsys.readouterr().err

    assert quiet.startswith("error: unexpected ZeroDivisionError: by nothing\nhint: ")
    assert "Traceback" not in quiet
    assert "Traceback" in told


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["pln"], "no such command 'pln'. Did you mean 'plan', 'replan', 'explain'?"),
        (["plan"], "missing option '--model'"),
        (["plan", "--model", "m", "--isl", "many"], "--isl"),
        (["plan", "--model", "m", "--engine", "tensorflow"], "`tensorflow` is none of"),
        (["plan", "--model", "m", "--speed", "9"], "no such option: --speed"),
        (["plan", "a.yaml", "b.yaml", "--model", "m"], "extra argument"),
        (["sweep"], "missing argument"),
    ],
)
def test_a_mistake_on_the_command_line_is_bad_input(
    args: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.run(args) == 2
    err = capsys.readouterr().err
    assert words in err
    assert any(
        f"hint: {words}" in err for words in ("see `meshwright", "did you mean", "give a whole number")
    )


def test_with_json_an_error_is_json_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["plan", "--model", "m", "--isl", "many", "--json"]) == 2

    error = json.loads(capsys.readouterr().out)["error"]
    assert error.keys() == {"code", "message", "where", "hint"}
    assert error["code"] == "bad_input"
    assert "--isl" in error["where"]


def test_a_reader_that_leaves_early_is_no_error() -> None:
    script = f"{sys.executable} -m planner.cli.app --help | head -n 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd=REPO)

    assert done.returncode in (0, 141)
    assert done.stderr == ""


PLAN = "tests/golden/plan.json"
ANSWERS = ("--help", "devices", "schema plan", f"diff {PLAN} {PLAN}", f"check {PLAN} --json")


@pytest.mark.parametrize("words", ANSWERS)
def test_a_reader_that_has_left_is_told_as_the_shell_does(words: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "planner.cli.app", *words.split()]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, cwd=REPO, check=False)
    os.close(writer)

    assert (done.returncode, done.stderr) == (141, "")


def test_an_exit_by_one_is_no_reader_that_left() -> None:
    assert not is_unread(SystemExit(1))
    assert not is_unread(OSError(28, "No space left on device"))
    assert is_unread(BrokenPipeError())


def test_errors_are_coloured_on_a_terminal_unless_no_color_is_set() -> None:
    pty = pytest.importorskip("pty")

    def shown(**env: str) -> str:
        leader, follower = pty.openpty()
        subprocess.run(
            [sys.executable, "-m", "planner.cli.app", "pln"],
            stderr=follower,
            cwd=REPO,
            env={**os.environ, "TERM": "xterm", **env},
        )
        os.close(follower)
        return str(os.read(leader, 4096), "utf-8")

    assert shown(NO_COLOR="").startswith("\x1b[")
    assert shown(NO_COLOR="1").startswith("error: ")

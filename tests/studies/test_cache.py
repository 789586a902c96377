"""Answers that sweeps share: found by their question, whole or absent, whoever writes them and dies."""

import json
import os
import subprocess
import sys
import time

import pytest

from planner.errors import InputError
from planner.studies import sweep
from planner.studies.journal import LEFT_S, Cache
from planner.studies.pools.local import Here
from planner.studies.questions import Planner
from tests.studies.fake import CELLS, plan, resolve

ANSWER = {"exit_code": 0, "objective": 1.5}
DIGEST = "ab" * 32


def silent(*_: int) -> None: ...


class Counting:
    """A planner that counts its calls."""

    def __init__(self, resolve=resolve, cache=None):
        self.calls = 0
        self.planner = Planner(resolve, self.plan, cache)

    def plan(self, cell):
        self.calls += 1
        return plan(**cell)


def test_what_was_put_is_got_and_nothing_else(tmp_path):
    cache = Cache(tmp_path / "new" / "cache")
    cache.put(DIGEST, ANSWER)

    assert Cache(tmp_path / "new" / "cache").get(DIGEST) == ANSWER
    assert cache.get("cd" * 32) is None


@pytest.mark.parametrize("code", [1, 2, 5])
def test_errors_of_ours_want_of_time_and_of_files_are_not_kept(code, tmp_path):
    cache = Cache(tmp_path)
    cache.put(DIGEST, {**ANSWER, "exit_code": code})

    assert cache.get(DIGEST) is None


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"[]", b'{"question": "other", "answer": {"exit_code": 0}}', b"\xff"]
)
def test_what_is_damaged_is_absent_and_written_anew(damage, tmp_path):
    cache = Cache(tmp_path)
    cache.put(DIGEST, ANSWER)
    (file,) = tmp_path.rglob("*.json")
    file.write_bytes(damage)

    assert cache.get(DIGEST) is None
    cache.put(DIGEST, ANSWER)
    assert cache.get(DIGEST) == ANSWER


@pytest.mark.parametrize(
    ("was", "now"),
    [(b"1.5", b"2.5"), (b"exit_code", b"exit_cone"), (b"1.5", b"[" * 9999), (b"{", b"[["), (b"0", b"true")],
)
def test_an_answer_that_was_changed_on_disk_is_absent_wherever_it_was(was, now, tmp_path):
    cache = Cache(tmp_path)
    cache.put(DIGEST, ANSWER)
    (file,) = tmp_path.rglob("*.json")
    file.write_bytes(now.join(file.read_bytes().rsplit(was, 1)))

    assert cache.get(DIGEST) is None


def test_what_a_killed_sweep_left_goes_after_a_day(tmp_path):
    Cache(tmp_path).put(DIGEST, ANSWER)
    old, new = (tmp_path / "ab" / f"{name}.7.part" for name in ("old", "new"))
    for part in (old, new):
        part.write_text("{")
    os.utime(old, (0, time.time() - 2 * LEFT_S))
    Cache(tmp_path)

    assert (old.exists(), new.exists()) == (False, True)


def test_a_folder_that_cannot_be_is_refused(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(InputError, match="cannot keep answers in"):
        Cache(tmp_path / "file")


def test_sweeps_with_a_common_cache_plan_what_neither_has(tmp_path):
    first, second = (Counting(cache=Cache(tmp_path / "cache")) for _ in range(2))
    sweep.run(CELLS[:6], tmp_path / "a.jsonl", first.planner, Here, silent)
    sweep.run(CELLS[3:9], tmp_path / "b.jsonl", second.planner, Here, silent)
    sweep.run(CELLS[3:9], tmp_path / "c.jsonl", Counting().planner, Here, silent)

    assert (first.calls, second.calls) == (6, 3)
    assert (tmp_path / "b.jsonl").read_bytes() == (tmp_path / "c.jsonl").read_bytes()


def test_cells_of_one_question_are_planned_once_and_have_a_row_each(tmp_path):
    """Also where the sweep was killed between them: rows say which question they answer."""
    counting = Counting(lambda cell: (f"isl {cell['isl']}", cell))
    cells = [{**CELLS[i], "gpus": gpus} for gpus in ("8xH100", "8xh100-sxm") for i in range(4)]
    told = []
    sweep.run(cells[:1], tmp_path / "out.jsonl", counting.planner, Here, silent)
    found = sweep.run(cells, tmp_path / "out.jsonl", counting.planner, Here, lambda *x: told.append(x))

    assert counting.calls == 4
    assert [row["cell"] for row in found] == cells
    assert [row["objective"] for row in found[:4]] == [row["objective"] for row in found[4:]]
    assert [row["question"] for row in found[:4]] == [row["question"] for row in found[4:]]
    assert told[-1] == (8, 8, 5)


def test_cells_of_one_question_that_is_still_asked_wait_for_its_answer(tmp_path):
    class Slow(Here):
        full = property(lambda self: len(self.left) >= 3)

    counting, told = Counting(lambda cell: (str(cell["isl"] // 2), cell)), []
    found = sweep.run(CELLS[:8], tmp_path / "out.jsonl", counting.planner, Slow, lambda *x: told.append(x))

    assert counting.calls == 4
    assert told[-1] == (8, 8, 4)
    assert [row["objective"] for row in found[::2]] == [row["objective"] for row in found[1::2]]


WRITER = """
import sys
from planner.studies.journal import Cache
cache, digest = Cache(sys.argv[1]), "ab" * 32
while True:
    cache.put(digest, {"exit_code": 0, "objective": 1.5, "replicas": ["x" * 100_000]})
"""


def test_two_writers_that_are_killed_leave_a_whole_answer_or_none(tmp_path):
    whole = {"exit_code": 0, "objective": 1.5, "replicas": ["x" * 100_000]}
    for _ in range(3):
        writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)]) for _ in range(2)]
        cache, end = Cache(tmp_path), time.monotonic() + 20
        try:
            while cache.get(DIGEST) is None and time.monotonic() < end:
                time.sleep(0.01)
            assert all(cache.get(DIGEST) == whole for _ in range(500))
        finally:
            for writer in writers:
                writer.kill()
                writer.wait()
        assert cache.get(DIGEST) == whole
        assert json.loads((tmp_path / "ab" / f"{DIGEST}.json").read_text())["question"] == DIGEST
        (tmp_path / "ab" / f"{DIGEST}.json").unlink()

"""Conditions between axes: which cells are kept, against Python; what is refused, with its place."""

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import InputError
from planner.studies import grid
from planner.studies.conditions import condition

OPTIONS = {
    "isl": [1, 2, 3],
    "osl": [1, 2, 3],
    "rate": [1.5, None],
    "model": ["small", "large"],
    "tpot_ms": ["none", 20],
}
KNOWN = [*OPTIONS, "risk", "ttft_ms"]


def holds(text, **cell):
    return condition(text, OPTIONS, KNOWN)({name: x for name, x in cell.items() if x is not None})


@pytest.mark.parametrize(
    ("text", "cell", "kept"),
    [
        ("isl * osl <= 6", {"isl": 2, "osl": 3}, True),
        ("isl * osl <= 6", {"isl": 3, "osl": 3}, False),
        ("1 <= isl < 3", {"isl": 3}, False),
        ("isl - osl / 2 == 0.5", {"isl": 1, "osl": 1}, True),
        ("-isl < -2", {"isl": 3}, True),
        ("rate == null or rate > 2", {}, True),
        ("rate == null or rate > 2", {"rate": 1.5}, False),
        ("rate != null", {}, False),
        ("model == 'large' or isl <= 2", {"model": "small", "isl": 3}, False),
        ("not (model == 'large' and isl > 2)", {"model": "large", "isl": 3}, False),
        ("model in ['large']", {"model": "small"}, False),
        ("model not in ('large', 'small')", {"model": "small"}, False),
        ("tpot_ms == 'none' or tpot_ms <= 20", {"tpot_ms": "none"}, True),
        ("isl in [1, osl]", {"isl": 2, "osl": 2}, True),
    ],
)
def test_cells_are_kept_by_what_the_words_say(text, cell, kept):
    assert holds(text, **cell) is kept


NUMBERS = st.recursive(
    st.sampled_from(["isl", "osl", "2", "0.5"]),
    lambda inner: st.builds("({} {} {})".format, inner, st.sampled_from("+-*"), inner),
    max_leaves=5,
)
CONDITIONS = st.recursive(
    st.builds("{} {} {}".format, NUMBERS, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), NUMBERS),
    lambda inner: (
        st.builds("({} {} {})".format, inner, st.sampled_from(["and", "or"]), inner)
        | st.builds("not {}".format, inner)
    ),
    max_leaves=4,
)


@given(CONDITIONS)
def test_a_condition_means_what_python_would_say(text):
    for isl, osl in itertools.product((1, 2, 3), repeat=2):
        assert holds(text, isl=isl, osl=osl) == eval(text, {"isl": isl, "osl": osl})


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("isll < 3", "`isll` is no option", "did you mean `isl`"),
        ("model == large", "`large` is no option", "in quotes: 'large'"),
        ("model == 'lrge'", "`model` is never `lrge`", "nearest: `large`"),
        ("model in ['small', 'lrge']", "`model` is never `lrge`", "nearest: `large`"),
        ("isl == 'x'", "`isl` is never `x`", "no texts"),
        ("risk < 0.5", "`risk` stands neither in `base` nor in `vary`", "leave it out"),
        ("isl = 3", "is no condition", "`==` compares"),
        ("isl < )", "is no condition, at character 7", "isl + osl <= 32768"),
        ("isl + 1", "`isl + 1` compares nothing", "comparisons"),
        ("isl", "`isl` compares nothing", "comparisons"),
        ("", "is no condition", "comparisons"),
        ("isl is null", "`is` is no comparison", "== null"),
        ("isl in osl", "`osl` is no list", "in [1, 2]"),
        ("isl ** osl < 3", "`isl ** osl` is no value", "comparisons"),
        ("True == True", "`True` is no value", "comparisons"),
        ("isl.real == 1", "`isl.real` is no value", "comparisons"),
        ("__import__('os').getpid() > 0", "is no value", "comparisons"),
        ("(lambda: 1)() == 1", "is no value", "comparisons"),
        ("[x for x in (1, 2)] == 1", "is no value", "comparisons"),
        ("isl < 1 if osl < 2 else isl < 3", "compares nothing", "comparisons"),
        ("(" * 300 + "isl" + ")" * 300 + " < 3", "", ""),
        ("not " * 240 + "isl < 3" + " " * 100, "at most 1,000 characters", ""),
        ("isl\0 < 3", "", ""),
        (r"model == '\d'", "is never", ""),
    ],
)
def test_what_is_no_condition_is_refused_with_what_to_write(text, message, hint):
    with pytest.raises(InputError) as refused:
        condition(text, OPTIONS, KNOWN)

    assert message in refused.value.message
    assert hint in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("text", "cell", "message", "hint"),
    [
        ("rate < 3", {"isl": 1}, "`rate` has no value in the cell isl=1", "`rate == null or …`"),
        (f"isl * {'9' * 400} < 3", {"isl": 1}, "`9999999999", ""),
        (f"{'9' * 400} / isl < 3", {"isl": 1}, "is too large a number", ""),
        ("1e308 * 10 * isl < 3", {"isl": 1}, "has no value with 1e+308 and 10", ""),
        ("rate + 1 < 3", {"isl": 1}, "`rate` has no value", "`rate == null or …`"),
        ("tpot_ms < 30", {"tpot_ms": "none"}, "`tpot_ms` is the text `none`", "`tpot_ms == 'none' or …`"),
        ("1 / (isl - 1) < 3", {"isl": 1}, "`1 / (isl - 1)` has no value with 1 and 0", ""),
    ],
)
def test_what_has_no_order_in_a_cell_is_said_not_guessed(text, cell, message, hint):
    with pytest.raises(InputError) as refused:
        holds(text, **cell)

    assert message in refused.value.message
    assert hint in (refused.value.hint or "")


def read(folder: Path, where: str) -> list[grid.Cell]:
    text = "base: {gpus: 8xH100, osl: 100}\nvary:\n  model: [a, b]\n  isl: [1, 2, 3]\n" + where
    (folder / "sweep.yaml").write_text(text)
    return grid.read(str(folder / "sweep.yaml"))


def test_a_sweep_has_the_cells_that_keep_all_conditions_in_the_order_of_the_grid(tmp_path):
    cells = read(tmp_path, "where:\n  - isl * osl < 300\n  - model == 'b' or isl == 2\n")

    assert [(cell["model"], cell["isl"]) for cell in cells] == [("a", 2), ("b", 1), ("b", 2)]


def test_one_condition_needs_no_list(tmp_path):
    assert [cell["isl"] for cell in read(tmp_path, "where: isl > 1 and model == 'a'\n")] == [2, 3]


@pytest.mark.parametrize(
    ("where", "message", "place"),
    [
        ("where:\n  - isl > 1\n  - isll < 3\n", "`isll` is no option", "sweep.yaml:7:5, where[1]"),
        ("where: isl > 3\n", "no cell keeps `isl > 3`", "sweep.yaml:5:8"),
        ("where: [isl > 2, isl < 3]\n", "no cell that the conditions before it have left keeps", "where[1]"),
        ("where: [3]\n", "must be text", "sweep.yaml:5:9"),
        ("were: isl > 3\n", "unknown field `were`", "sweep.yaml:5:1"),
    ],
)
def test_a_wrong_condition_is_refused_at_its_line(tmp_path, where, message, place):
    with pytest.raises(InputError) as refused:
        read(tmp_path, where)

    assert message in refused.value.message
    assert place in refused.value.where


def test_the_example_of_the_page_is_a_sweep_of_the_cells_that_keep_its_conditions(tmp_path):
    page = Path(__file__).resolve().parents[2] / "docs" / "sweep.md"
    (tmp_path / "sweep.yaml").write_text(page.read_text().split("```yaml\n")[1].split("```")[0])

    cells = grid.read(str(tmp_path / "sweep.yaml"))

    assert len(cells) < 2 * 3 * 3 * 5
    assert max(cell["isl"] for cell in cells) == 4096
    assert max(cell["isl"] for cell in cells if cell.get("rate") == 20) == 512
    assert {cell["tpot_ms"] for cell in cells if cell["model"] == "llama-3.1-70b"} == {20, 40}

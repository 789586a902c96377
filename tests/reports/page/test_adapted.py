"""What the terminal prints as blocks of the page: the same words, styles by what they mean, tables."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Group
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from planner.reports.page.adapted import blocks, lines
from planner.reports.page.blocks import Column, Piece, Table, Words


@pytest.mark.parametrize(
    ("style", "word"),
    [
        ("green", "good"),
        ("bold green", "good"),
        ("bold yellow", "warn"),
        ("dim", "dim"),
        ("bold", "strong"),
        ("blue", ""),
        ("", ""),
    ],
)
def test_styles_are_told_by_what_they_mean(style: str, word: str):
    assert list(lines(Text("x", style=style))) == [Words((Piece("x", word),), note=word == "dim")]


def test_a_line_is_parted_where_its_style_changes_and_ends_with_its_row():
    text = Text.assemble("a ", ("b", "bold"), " c\n", ("d", "dim"), "\n\ne")

    assert list(lines(text)) == [
        Words((Piece("a "), Piece("b", "strong"), Piece(" c"))),
        Words((Piece("d", "dim"),), note=True),
        Words((Piece("e"),)),
    ]


def test_a_line_that_is_dim_in_part_is_no_note():
    (line,) = lines(Text.assemble(("a", "dim"), "b"))

    assert not line.note


PARTS = st.tuples(st.text("ab \n", max_size=4), st.sampled_from(["", "bold", "dim", "green", "blue"]))


@settings(max_examples=60)
@given(st.lists(PARTS, max_size=6))
def test_no_character_is_lost_but_empty_lines(parts: list[tuple[str, str]]):
    text = Text.assemble(*parts)

    assert [line.plain for line in lines(text)] == [line for line in text.plain.split("\n") if line]


def test_groups_and_padding_are_opened_and_tables_named():
    table = RichTable()
    table.add_column("name")
    table.add_column(Text("rate", style="dim"), justify="right")
    table.add_row("r1", Text("2/s\nat most", style="green"))
    table.add_row("r2", "3/s")
    found = list(blocks(Group("first", Padding(Group(table, "last"), 1)), "Ways"))

    assert found == [
        Words.of("first"),
        Table(
            "Ways",
            (Column("name"), Column("rate", right=True)),
            (
                ((Words.of("r1"),), (Words((Piece("2/s", "good"),)), Words((Piece("at most", "good"),)))),
                ((Words.of("r2"),), (Words.of("3/s"),)),
            ),
        ),
        Words.of("last"),
    ]
    assert list(blocks(RichTable("empty"), "None")) == [Table("None", (Column("empty"),), ())]


def test_what_the_page_has_no_way_to_show_is_refused():
    with pytest.raises(AssertionError, match="no way to show int"):
        list(lines(3))

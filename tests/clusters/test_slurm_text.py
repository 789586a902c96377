"""Lines of `sinfo` and blocks of `scontrol`, whatever columns were asked for."""

from __future__ import annotations

import pytest

from planner.clusters.found import MOST_NODES, Input
from planner.clusters.slurm_text import Line, expanded, read_scontrol, read_sinfo
from planner.errors import InputError


def sinfo(text: str) -> list[Line]:
    return read_sinfo(Input.of("sinfo.txt", text))


def scontrol(text: str) -> list[Line]:
    return read_scontrol(Input.of("nodes.txt", text))


def test_headed_columns_are_read_in_any_order():
    (one, two) = sinfo("GRES STATE NODELIST\ngpu:a40:4 idle n[1-2]\n(null) down n9\n")

    assert one == Line(("n1", "n2"), "idle", "gpu:a40:4")
    assert two == Line(("n9",), "down", "(null)")


def test_columns_without_headings_are_known_by_what_stands_in_them():
    (one, two) = sinfo("gpu* idle gpu:l40s:2(S:0) n[01-02]\ngpu* mix~ gpu:l40s:2 n07\n")

    assert one == Line(("n01", "n02"), "idle", "gpu:l40s:2(S:0)", None, ("gpu*",))
    assert two.names == ("n07",)


def test_a_cell_that_is_empty_is_found_by_where_words_stand():
    (row,) = sinfo("PARTITION NODES  GRES\nmilan        54\n")

    assert (row.partitions, row.nodes, row.gres) == (("milan",), 54, "")


@pytest.mark.parametrize("mark", ["|", "\t", "\x1f"])
def test_cells_may_be_parted_by_a_mark(mark):
    text = mark.join(("NODELIST", "STATE", "GRES")) + "\n" + mark.join(("n1", "idle", "gpu:1")) + "\n"

    assert sinfo(text) == [Line(("n1",), "idle", "gpu:1")]


def test_a_date_before_the_headings_is_passed_over():
    (row,) = sinfo("Mon Jan 05 10:00:00 2026\nNODELIST STATE GRES\nn1 idle gpu:1\n")

    assert row.names == ("n1",)


def test_counts_are_of_allocated_idle_and_other_nodes():
    (row,) = sinfo("PARTITION NODES(A/I/O/T) GRES\ngpu 3/5/1/9 gpu:h100:8\n")

    assert row.counts == (3, 5, 1)


def test_what_names_no_nodes_is_nothing():
    assert sinfo("STATE GRES\nidle gpu:1\n") == sinfo("") == []


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n[1-3,07]", ["n1", "n2", "n3", "n07"]),
        ("a[08-10]", ["a08", "a09", "a10"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("a,b[1],", ["a", "b1"]),
        ("n[x-y]", ["nx-y"]),
    ],
)
def test_lists_of_nodes_are_spelt_out_with_their_zeros(text, names):
    assert expanded(text) == names


@pytest.mark.parametrize(("text", "says"), [("n[1-", "is cut"), (f"n[1-{MOST_NODES}],m1", "more than")])
def test_a_list_that_is_cut_or_endless_is_refused(text, says):
    with pytest.raises(InputError, match=says):
        expanded(text)


def test_blocks_of_scontrol_say_what_is_in_use():
    text = "NodeName=a Arch=x86\n   State=MIXED Partitions=p,q\n   Gres=gpu:a40:4\n"
    text += "   AllocTRES=cpu=8,gres/gpu=3\n"
    (node,) = scontrol(text)

    assert node == Line(("a",), "MIXED", "gpu:a40:4", "gpu:3", ("p", "q"))


def test_nodes_on_a_line_each_and_without_gpus():
    a, b = scontrol("NodeName=a State=IDLE\nNodeName=b State=DOWN Gres=gpu:2\n")

    assert (a.gres, a.used, b.gres) == ("(null)", None, "gpu:2")


def test_json_of_scontrol_is_the_same():
    text = (
        '{"nodes": [{"name": "a", "state": ["IDLE", "DRAIN"], "gres": "gpu:2", "partitions": ["p"]}, {}, 7]}'
    )
    (node,) = scontrol(text)

    assert node == Line(("a",), "IDLE+DRAIN", "gpu:2", "", ("p",))

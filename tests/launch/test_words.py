"""Launch lines in a shell: every word arrives as it was, and variables that are left to be filled in are."""

from __future__ import annotations

import re
import shlex
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import InputError
from planner.launch import words as launch_words
from planner.launch.instances import Instance, instances
from planner.launch.words import assigned, commands, port_of, quoted, with_ports
from planner.plans.schema import Launch
from planner.reports import started
from tests.exporters.samples import made, replica

VALUES = {"HEAD_ADDR": "one two", "NODE_R1_0": "$(echo no)", "A": "other"}
NAMED = re.compile(r"\$(HEAD_ADDR)(?!\w)|\$\{(NODE_R1_0)\}")

PIECES = st.sampled_from(["$HEAD_ADDR", "${NODE_R1_0}", "${A}", "$A"]) | st.text(
    "aA $'\"\\`{}();|*!\n", max_size=3
)


def arrived(line: str) -> list[str]:
    """What a shell makes of the words of a line."""
    shell = subprocess.run(
        ["/bin/sh", "-c", f"printf '%s\\0' {line}"], env=VALUES, capture_output=True, text=True, check=True
    )
    return shell.stdout.split("\0")[:-1]


def filled(word: str) -> str:
    """A word with the variables filled in that lines ask for."""
    return NAMED.sub(lambda m: VALUES[m[1] or m[2]], word)


@pytest.mark.parametrize("words", [["serve", "--port"], ["--port", "--tp"], ["--port", "9" * 400]])
def test_a_port_that_is_none_is_refused(words: list[str]):
    """Plans are edited by hand."""
    with pytest.raises(InputError, match="is no port"):
        port_of(words)
    launch = Launch(argv=words, env={}, engine_versions="", notes=[])
    own = made(replica("r1", "vllm", "mixed")).replicas[0].model_copy(update={"launch": launch})
    with pytest.raises(InputError, match="is no port"):
        with_ports(words, Instance(own, 0, (("h-0", (0,)),), 8000))


@settings(max_examples=100)
@given(st.lists(st.text("aA $'\"\\`{}!;&|>*~#=\n-"), min_size=1))
def test_words_without_variables_come_back_as_they_were(words: list[str]):
    plain = [word.replace("$", "") for word in words]

    assert shlex.split(quoted(plain)) == plain


@settings(max_examples=25)
@given(st.lists(st.lists(PIECES).map("".join), min_size=1, max_size=30))
def test_a_shell_fills_in_variables_and_runs_nothing(words: list[str]):
    assert arrived(quoted(words)) == [filled(word) for word in words]


@pytest.mark.parametrize(
    ("word", "written"),
    [
        ("$HEAD_ADDR:5000", '"$HEAD_ADDR:5000"'),
        ("http://${NODE_R1_0}:80", '"http://${NODE_R1_0}:80"'),
        ('{"ip": "$HEAD_ADDR"}', """'{"ip": "'"$HEAD_ADDR"'"}'"""),
        ("$HEAD_ADDR$(id)", """"$HEAD_ADDR"'$(id)'"""),
        ("$HEAD_ADDRESS", "'$HEAD_ADDRESS'"),
        ("${HOME}", "'${HOME}'"),
        ("$HOME/x", "'$HOME/x'"),
        ("plain", "plain"),
        ("", "''"),
    ],
)
def test_only_variables_that_lines_ask_for_stand_in_double_quotes(word: str, written: str):
    assert quoted([word]) == written


def test_assignments_stand_before_a_command_each_with_a_space_behind_it():
    assert assigned({"A": "1", "B": "x y", "C": "$HOST_ADDR"}) == "A=1 B='x y' C=\"$HOST_ADDR\" "
    assert assigned({}) == ""


def test_the_port_of_a_command_is_the_word_behind_its_option():
    assert port_of(["serve", "--port", "8001", "--host", "::"]) == 8001


@pytest.mark.parametrize(
    ("engine", "sizes", "option", "told"),
    [
        ("vllm", {"pp": 2}, "--master-port", [None, "29565"]),
        ("vllm", {"attn_dp": 4}, "--data-parallel-rpc-port", ["13345", "13409"]),
        ("sglang", {"pp": 2}, "--dist-init-addr", ["$HEAD_ADDR:5000", "$HEAD_ADDR:5064"]),
    ],
)
def test_servers_over_the_same_nodes_meet_at_ports_of_their_own(engine, sizes, option, told):
    """Each half of two nodes: their ranks would else find those of the other server."""
    r = replica("r1", engine, tp=8 // sizes.get("attn_dp", 1) * 2, **sizes)
    plan = made(r)
    own = plan.replicas[0]
    both = [
        Instance(own, n, (("h-0", (4 * n,)), ("h-1", (4 * n,))), (8000, 30000)[engine == "sglang"] + n)
        for n in range(2)
    ]
    lines = [with_ports(own.launch.ranks[0], i) for i in both]

    assert [dict(zip(w, [*w[1:], None], strict=True)).get(option) for w in lines] == told


def test_a_port_is_free_on_every_node_that_a_server_stands_on():
    """Ranks on further nodes listen there, too: the small server beside them has another port."""
    wide, small = replica("w", "sglang", tp=4, pp=2), replica("s", "sglang", tp=4)
    first, second = wide.stages
    stages = [first.model_copy(update={"nodes": ["h-0"]}), second.model_copy(update={"nodes": ["h-1"]})]
    beside = small.stages[0].model_copy(update={"nodes": ["h-1"]})
    plan = made(wide.model_copy(update={"stages": stages}), small.model_copy(update={"stages": [beside]}))

    assert [i.port for i in instances(plan)] == [30000, 30001]


@pytest.mark.parametrize("groups", [(("r1", 3, 4),), (("r1", 2, 8), ("r2", 40, 2))])
def test_of_very_many_servers_the_first_of_each_group_are_placed_as_among_all(groups, monkeypatch):
    """The command of the router, which names all servers, is left out then."""
    plan = made(*(replica(name, "vllm", tp=tp, count=count) for name, count, tp in groups))
    every, few = instances(plan), instances(plan, 2)

    assert [i for i in every if i.number < 2] == [i for i in few if i.number < 2]
    assert len(few) < len(every)
    whole = list(commands(plan, 2))
    monkeypatch.setattr(launch_words, "PLACED", 1)
    assert list(commands(plan, 2)) == [line for line in whole if line[0] != "router"]


def test_nodes_in_use_are_those_that_stages_name_where_servers_are_very_many(monkeypatch):
    plan = made(replica("r1", "vllm", tp=4, count=5))
    (own,) = plan.replicas
    stages = [s.model_copy(update={"nodes": s.nodes[:3]}) for s in own.stages]
    plan = plan.model_copy(update={"replicas": [own.model_copy(update={"stages": stages})]})
    one_by_one = started._used(plan)
    monkeypatch.setattr(started, "PLACED", 1)

    assert started._used(plan) == one_by_one == {f"h200-sxm-{i}" for i in range(3)}

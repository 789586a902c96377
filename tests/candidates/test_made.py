"""What a kind or a variant makes: designs in the roles that they are offered in."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from planner.candidates.candidate import Key
from planner.candidates.setup import Made

KEY = Key("h100", "vllm", "alike")
SETUP = cast(Any, SimpleNamespace(fitting=np.array([0, 2]), designs=range(3)))
ALL, SOME = np.array([0, 2]), np.array([2])
MIXED = Made(KEY, SETUP, None, ((ALL, ("mixed", "decode")), (SOME, ("prefill",))))


def test_all_designs_with_room_are_offered_and_all_were_looked_at():
    made = Made.of(KEY, SETUP, None, ("mixed",))
    ((index, roles),) = made.parts

    assert index.tolist() == [0, 2]
    assert (roles, made.considered) == (("mixed",), 3)


def test_only_some_roles_leave_the_parts_that_have_any():
    left = MIXED.only(("decode", "prefill"))

    assert [(index.tolist(), roles) for index, roles in left.parts] == [
        ([0, 2], ["decode"]),
        ([2], ["prefill"]),
    ]
    assert len(MIXED.only(("prefill",)).parts) == 1
    assert MIXED.only(()).parts == ()


def test_roles_are_told_once_in_their_order():
    assert MIXED.roles == ["mixed", "decode", "prefill"]
    assert replace(MIXED, parts=MIXED.parts * 2).roles == MIXED.roles


def test_a_setup_with_a_variant_in_its_key_is_not_plain():
    assert MIXED.plain
    assert not replace(MIXED, key=replace(KEY, chunk=512)).plain

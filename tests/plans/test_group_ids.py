"""Ids of groups in a plan that is read: plain words, whatever the file says."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from planner.plans.schema import Plan
from tests.check.plans import SOUND

HOSTILE = (
    "r1\ntouch PWNED\n#",
    "r1\n",
    "$(touch PWNED)",
    "`touch PWNED`",
    "${HOME}",
    "r1;touch PWNED",
    "r1'",
    'r1"',
    "../r1",
    "-rf",
    "r 1",
    "r1\x00",
    "r\u0661",
    "",
    "r" * 64,
)


def renamed(name: str, new: str) -> Plan:
    found = json.loads(SOUND[name]().model_dump_json(by_alias=True))
    found["replicas"][0]["id"] = new
    return Plan.model_validate(found)


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("name", SOUND)
def test_an_id_that_is_more_than_a_word_is_refused(name: str, hostile: str) -> None:
    with pytest.raises(ValidationError, match="an id is 1 to 63"):
        renamed(name, hostile)


@pytest.mark.parametrize("plain", ["r1", "prefill-1.a_b", "r" * 63])
def test_a_plain_id_is_read(plain: str) -> None:
    assert renamed(next(iter(SOUND)), plain).replicas[0].id == plain

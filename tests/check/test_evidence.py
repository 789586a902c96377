"""What a plan says was never measured: names that are not there, mechanisms that nothing uses."""

from __future__ import annotations

import pytest

from planner.check import check
from planner.plans.schema import Evidence
from tests.check.plans import dense


def said(mechanism: str, *replicas: str) -> list[str]:
    """Codes of a plan without pipelines, drafts or servers apart that says so."""
    told = Evidence.model_validate({"mechanism": mechanism, "replicas": replicas, "what": "x"})
    return [v.code for v in check(dense().model_copy(update={"evidence": [told]}))]


def test_an_engine_on_a_device_is_what_every_replica_has() -> None:
    assert said("device", dense().replicas[0].id) == []


def test_a_replica_that_is_not_there_is_found() -> None:
    assert said("device", "nobody") == ["evidence_unknown"]


@pytest.mark.parametrize("mechanism", ["pipeline", "split", "draft", "attention_dp", "power_limit"])
def test_a_mechanism_that_the_replica_does_not_use_is_found(mechanism: str) -> None:
    assert said(mechanism, dense().replicas[0].id) == ["evidence_unused"]


def test_what_no_replica_does_is_not_evidence() -> None:
    assert said("device") == ["evidence_unused"]

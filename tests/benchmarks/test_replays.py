"""The examples in the docstrings of the replays that formulas are tested against come out as they stand."""

import doctest
from importlib import import_module

import pytest


@pytest.mark.parametrize("name", ["chains", "servers", "transfers"])
def test_examples_come_out_as_they_stand(name: str) -> None:
    failed, tried = doctest.testmod(import_module(f"benchmarks.replays.{name}"))

    assert tried
    assert not failed

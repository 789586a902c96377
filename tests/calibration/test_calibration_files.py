"""Calibration files: what is written is read again, whatever is nonsense is refused where it stands."""

import json
from dataclasses import replace

import pytest

from planner import __version__
from planner.calibration import files
from planner.cost.calibration import SHIPPED, shipped
from planner.errors import InputError

OWN = {"engine+device+model": {"vllm h100-sxm 32x4096-14336": 1.087}}


def own():
    """The shipped calibration with a factor and a band of a user's own."""
    factors = {**shipped().factors, "kernels": {**shipped().factors["kernels"], **OWN}}
    sigma = {"vllm h100-sxm 32x4096-14336": 0.04}
    bands = {kind: {**of, "engine+device+model": sigma} for kind, of in shipped().bands.items()}
    about = {"meshwright_version": __version__, "rows": 57}
    return replace(shipped(), factors=factors, bands=bands, about=about)


def test_what_is_written_is_read_again(tmp_path):
    path = tmp_path / "my.calib.yaml"
    path.write_text(files.written(own()))
    found = files.read(path)

    assert found == replace(own(), about={"name": "my.calib.yaml", **own().about})
    assert list(found.bands["tpot"]) == [*shipped().bands["tpot"], "engine+device+model"]  # wide to narrow


def test_factors_near_one_are_left_out_and_short_parts_stand_on_a_line():
    kernels = {"engine+device": {"vllm h100-sxm": 1.002}, "device": {"h100-sxm": 1.2}}
    text = files.written(replace(own(), factors={"kernels": kernels, "step_s": {"device": {"a": 0.9999}}}))

    assert json.loads(text)["factors"] == {"kernels": {"device": {"h100-sxm": 1.2}}}
    assert '"device": { "h100-sxm": 1.2 }' in text


def test_the_shipped_file_is_one():
    assert files.read(SHIPPED).factors == shipped().factors


def test_yaml_by_hand_is_one(tmp_path):
    path = tmp_path / "hand.yaml"
    path.write_text(
        "factors: {kernels: {device: {l4: 1.2}}}\nbands: {ttft: {all: {all: 0.4}}, tpot: {all: {all: 0.1}}}"
    )

    assert files.read(path).base == shipped().base
    assert files.read(path).factors == {"kernels": {"device": {"l4": 1.2}}}


@pytest.mark.parametrize(
    ("was", "now", "reason", "where"),
    [
        ("1.087", "-1.087", "must be at least 0.001, got -1.087", "factors.kernels.engine+device+model."),
        ("1.087", "4000", "must be at most 1000", "factors.kernels."),
        ("1.087", '"1.087"', 'must be a number, got text "1.087"', "factors.kernels."),
        ('"kernels": {', '"kernelz": {', "unknown field `kernelz`", "factors.kernelz"),
        ('"engine+device+model": {', '"engine+gpu": {', "unknown level `engine+gpu`", "factors.kernels"),
        (": 0.04", ": 0", "must be greater than 0, got 0", "bands."),
        ('"step_s": 0.0002', '"step_s": -1', "`step_s` must be at least 0", "base.step_s"),
        ('"ttft": {\n   "all"', '"ttft": {\n   "gemm"', "a band for all servers is missing", "bands.ttft"),
        ('"bands"', '"band"', "unknown field `band`", "band"),
        ('"picked": 0', '"picked": 7', "`picked` must be at most 1", "picked"),
    ],
)
def test_nonsense_is_refused_where_it_stands(was, now, reason, where, tmp_path):
    text, path = files.written(own()), tmp_path / "my.calib.yaml"
    assert was in text
    path.write_text(text.replace(was, now, 1))

    with pytest.raises(InputError) as caught:
        files.read(path)
    assert reason in caught.value.message
    assert f", {where}" in caught.value.where
    assert caught.value.where.startswith(f"{path}:")


@pytest.mark.parametrize("text", ["", "[1, 2]", "a: b", "model,device\nx,y\n", '{"bands": {}}'])
def test_other_files_are_refused(text, tmp_path):
    path = tmp_path / "my.calib.yaml"
    path.write_text(text)

    with pytest.raises(InputError):
        files.read(path)


def test_a_calibration_of_another_version_is_told():
    assert files.outdated(own()) is None
    assert files.outdated(shipped()) is None
    assert "0.0.1" in (files.outdated(replace(own(), about={"meshwright_version": "0.0.1"})) or "")

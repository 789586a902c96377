"""Kernels timed by ourselves are near what the cost model says of them."""

from __future__ import annotations

import csv

import pytest

from benchmarks.timed_kernels import TIMED, lines, said_s


def test_a_line_says_how_far_off_a_kernel_is_on_a_card():
    said = said_s(
        {"device": "h200-sxm", "kernel": "gemm bf16", "rows": "64", "n": "6144", "k": "4096"}, "vllm"
    )
    row = {"device": "h200-sxm", "kernel": "gemm bf16", "rows": "64", "n": "6144", "k": "4096"}

    found = list(lines([row | {"us": str(1e6 * said / 1.1)}]))

    assert found[0] == ["h200-sxm gemm bf16 vllm", "1", "+10.0%", "10.0%", "10.0%"]


@pytest.mark.parametrize("kernel", ["gemm bf16", "router fp32", "router tf32"])
@pytest.mark.parametrize("device", ["h100-sxm", "h200-sxm"])
def test_gemms_and_routers_are_near_what_was_timed(device: str, kernel: str):
    with TIMED.open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if (row["device"], row["kernel"]) == (device, kernel)]

    off = [float(line[3].rstrip("%")) for line in lines(rows)]

    assert len(rows) >= 30
    assert max(off) < 12

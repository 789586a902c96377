"""Time kernels of PyTorch on the GPU at hand: `python benchmarks/kernel_timer.py FILE.csv` (a minute).

Needs PyTorch and nothing else of this project, so that the file alone can be taken to a machine with a GPU.
Times are of replayed CUDA graphs, weights taken in turn from more than the L2 cache holds. What the cost
model says of the same kernels: timed_kernels.py.
"""

from __future__ import annotations

import csv
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

HEADS, WIDTH = 32, 128
"""Of the prompts' attention: query and KV heads, and their size."""

GEMMS = (
    *((6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336)),  # Llama-3.1-8B
    *((10240, 5120), (5120, 8192), (51200, 5120), (5120, 25600)),  # Qwen3-32B
    *((2560, 5120), (5120, 2048), (12800, 5120), (5120, 6400)),  # a quarter of it
)
"""Outputs and inputs."""

ROUTERS = ((256, 3072), (256, 6144), (128, 4096))
ROWS = (1, 8, 32, 64, 128, 256, 512, 1024, 4096, 8192)
PROMPTS = (256, 512, 1024, 2048, 4096, 8192, 16384)

CACHED = 256 << 20
"""Bytes of weights that are taken in turn: more than the L2 cache holds."""


def measure(path: Path) -> None:
    """Time all kernels on the GPU at hand and write them."""
    torch = import_module("torch")
    name = torch.cuda.get_device_name()
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["device", "kernel", "rows", "n", "k", "us"])
        for row in (*_gemms(torch), *_routers(torch), *_prompts(torch)):
            writer.writerow([name, *row])


def _gemms(torch: Any) -> Iterator[tuple[str, int, int, int, float]]:
    one = torch.ones((), device="cuda")
    told = {"scale_a": one, "scale_b": one, "out_dtype": torch.bfloat16, "use_fast_accum": True}
    scaled = partial(torch._scaled_mm, **told)
    for n, k in GEMMS:
        count = max(1, CACHED // (2 * n * k))
        weights = [_normal(torch, n, k) / 50 for _ in range(count)]
        for rows in ROWS:
            x, out = _normal(torch, rows, k), _normal(torch, rows, n)
            calls = [lambda w=w, x=x, out=out: torch.mm(x, w.t(), out=out) for w in weights]
            yield "gemm bf16", rows, n, k, _us(torch, calls)
        eight = [w.to(torch.float8_e4m3fn) for w in weights]
        for rows in (m for m in ROWS if m % 16 == 0):
            x = _normal(torch, rows, k).to(torch.float8_e4m3fn)
            calls = [lambda w=w, x=x: scaled(x, w.t()) for w in eight]
            yield "gemm fp8", rows, n, k, _us(torch, calls)


def _routers(torch: Any) -> Iterator[tuple[str, int, int, int, float]]:
    for n, k in ROUTERS:
        weights = [_normal(torch, n, k).float() for _ in range(32)]
        for precision in ("fp32", "tf32"):
            torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
            for rows in ROWS:
                x, out = _normal(torch, rows, k).float(), _normal(torch, rows, n).float()
                calls = [lambda w=w, x=x, out=out: torch.mm(x, w.t(), out=out) for w in weights]
                yield f"router {precision}", rows, n, k, _us(torch, calls)


def _prompts(torch: Any) -> Iterator[tuple[str, int, int, int, float]]:
    attention = import_module("torch.nn.attention")
    attend = torch.nn.functional.scaled_dot_product_attention
    for tokens in PROMPTS:
        q, k, v = (_normal(torch, 1, HEADS, tokens, WIDTH) for _ in range(3))
        with attention.sdpa_kernel(attention.SDPBackend.CUDNN_ATTENTION):
            us = _us(torch, [lambda q=q, k=k, v=v: attend(q, k, v, is_causal=True)])
        yield "prompt bf16", tokens, HEADS, WIDTH, us


def _normal(torch: Any, *shape: int) -> Any:
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)


def _us(torch: Any, calls: Sequence[Callable[[], Any]], least_s: float = 0.05) -> float:
    """Microseconds a call: all calls in one CUDA graph, replayed for `least_s` and more; median of five."""
    for call in calls:
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    started, replays = time.perf_counter(), 0
    while time.perf_counter() < started + least_s:
        graph.replay()
        torch.cuda.synchronize()
        replays += 1
    found = []
    for _ in range(5):
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        for _ in range(replays):
            graph.replay()
        last.record()
        torch.cuda.synchronize()
        found.append(first.elapsed_time(last) * 1e3 / replays / len(calls))
    return float(statistics.median(found))


if __name__ == "__main__":
    measure(Path(sys.argv[1]))

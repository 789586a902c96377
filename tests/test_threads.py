"""A service plans in several threads at once: each answer is the one that its question has alone."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from planner import api
from planner.plans.text import text

QUESTIONS: list[dict[str, Any]] = [
    {"gpus": "1xL4", "model": "qwen3-0.6b"},
    {"gpus": "2xL4", "model": "qwen3-8b", "engine": "vllm"},
    {"gpus": "8xH100", "model": "llama-3.1-8b", "engine": "sglang"},
    {"gpus": "2xA10G", "model": "llama-3.1-8b", "rate": 0.5},
]
THREADS = 8


def answered(question: dict[str, Any]) -> str:
    """The plan as text, without the seconds that it took."""
    asked = dict(question)
    plan = json.loads(text(api.plan(None, asked.pop("model"), explain=False, **asked)))
    plan["proof"]["seconds"] = 0.0
    return json.dumps(plan)


def test_eight_threads_answer_as_one_does() -> None:
    alone = [answered(question) for question in QUESTIONS]
    assert len(set(alone)) == len(QUESTIONS)
    with ThreadPoolExecutor(THREADS) as pool:
        together = list(pool.map(answered, QUESTIONS * (THREADS // len(QUESTIONS))))

    assert together == alone * (THREADS // len(QUESTIONS))

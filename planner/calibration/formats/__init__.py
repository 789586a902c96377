"""Result files of serving benchmarks, told apart by content: each form is a module with `matches` and
`run`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from planner.calibration.fields import Fields
from planner.calibration.formats import llm_d, perf, sglang, vllm
from planner.calibration.runs import Run
from planner.errors import InputError
from planner.reading import documents

ACCEPTED = (
    "accepted: a CSV with the columns of `predict` and measured_ttft_ms, measured_tpot_ms; JSON of"
    " `vllm bench serve --save-result`; JSONL of `sglang.bench_serving --output-file`; the CSV or JSON export"
    " of genai-perf or AIPerf; a benchmark report of llm-d-benchmark (YAML or JSON, 0.1 or 0.2)"
)
FORMS = (sglang, vllm, perf, llm_d)
"""In order of asking: SGLang's results hold all that vLLM's do, and more."""

_INFINITE = re.compile(r"(?m)(:[ ]+)[-+]?\.(?:inf|Inf|INF)(?=\s*(?:#.*)?$)")


def runs(text: str, path: str) -> list[tuple[str, Run | InputError]]:
    """Every run of a file with where it stands: as it reads, or what is wrong with it.

    Raises InputError: no form that is known.
    """
    entries = list(_entries(text, path))
    forms = [next((form for form in FORMS if form.matches(entry)), None) for _, entry in entries]
    if not any(forms):
        found = _shown(entries[0][1]) if entries else "an empty list"
        raise InputError(f"`{path}` is no benchmark result that is known: it holds {found}", path, ACCEPTED)
    read: list[tuple[str, Run | InputError]] = []
    for (where, entry), form in zip(entries, forms, strict=True):
        try:
            if form is None:
                raise InputError(f"no benchmark result that is known, but {_shown(entry)}")
            read.append((where, form.run(entry)))
        except InputError as error:
            read.append((where, error))
    return read


def _entries(text: str, path: str) -> Iterator[tuple[str, Fields]]:
    """The documents of a file, each with its place: one, a JSON list, or JSON one after another."""
    if text.lstrip()[:1] not in ("{", "["):
        yield path, perf.from_csv(text, path) if perf.is_csv(text) else _yaml(text, path)
        return
    values = _json(text, path)
    for line, value in values:
        place = path if len(values) == 1 else f"{path}:{line}"
        if isinstance(value, list):
            yield from ((f"{place}: entry {i}", _fields(each)) for i, each in enumerate(value, 1))
        else:
            yield place, _fields(value)


def _json(text: str, path: str) -> list[tuple[int, Any]]:
    """JSON values that follow one another, each with its line; Infinity and NaN as Python writes them."""
    decoder, found, at, line = json.JSONDecoder(), [], 0, 1
    while start := re.compile(r"\S").search(text, at):
        line += text.count("\n", at, start.start())
        try:
            value, at = decoder.raw_decode(text, start.start())
        except json.JSONDecodeError as error:
            where = f"{path}:{error.lineno}:{error.colno}"
            raise InputError(f"not valid JSON: {error.msg.lower()}", where, ACCEPTED) from None
        except (ValueError, RecursionError):  # a number of thousands of digits, thousands of brackets
            raise InputError("not JSON that can be read", f"{path}:{line}", ACCEPTED) from None
        found.append((line, value))
        line += text.count("\n", start.start(), at)
    return found


def _yaml(text: str, path: str) -> Fields:
    """A YAML document, with infinities (a concurrency without limit) as text: our forms have none."""
    try:
        document = documents.read_text(_INFINITE.sub(r'\1"inf"', text), path)
    except InputError as error:
        raise InputError(error.message, error.where, ACCEPTED) from None
    return _fields(document.data)


def _fields(value: Any) -> Fields:
    return Fields(value if isinstance(value, dict) else {"": value})


def _shown(entry: Fields) -> str:
    """What stands there instead, in a few words."""
    if "" in entry:
        return documents.kind_of(entry.data[""])
    names = [str(name)[:40] for name in entry.data]
    return f"the fields {', '.join(names[:6])}{', …' if len(names) > 6 else ''}" if names else "no fields"

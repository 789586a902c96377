"""The first screen of plans, and what it costs: `python -m benchmarks.first_screen` (some ten minutes;
`--few` a minute).

Every shipped cluster with its model, and problems drawn by seed: lines of the screen (24 at most), columns
(80 at most), blanks at the ends of lines (none). CPU seconds of the same plan in a process of its own, as
`plan` makes it, with `--details`, and with nothing beside the plan, in turn; their sums, and their ratio.
"""

from __future__ import annotations

import io
import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from benchmarks.scores.render import table
from benchmarks.shipped import FOLDER, MODELS
from planner.plans.schema import Plan
from planner.reports import fitted, screen

DRAWN = 40
FEW = 3

CLUSTERS = ("1xL4", "4xL40S", "8xH100", "16xH100", "2xRTX-4090", "8xA100,8xL40S", "8xH200", "8xMI300X")
ASKED = ("llama-3.1-8b", "qwen3-32b", "qwen3-30b-a3b", "gpt-oss-20b", "mistral-nemo-12b")

MADE = """
import resource, sys, json
from planner import api
asked = json.loads(sys.argv[1]); how = json.loads(sys.argv[2])
before = resource.getrusage(resource.RUSAGE_SELF)
try:
    plan = api.plan(asked.pop("cluster", None), asked.pop("model"), **asked, **how)
except Exception as error:
    plan = None
now = resource.getrusage(resource.RUSAGE_SELF)
spent = now.ru_utime + now.ru_stime - before.ru_utime - before.ru_stime
from planner.plans.text import text
print(json.dumps({"cpu_s": spent, "plan": None if plan is None else json.loads(text(plan))}))
"""

HOW = {"screen": {"brief": True}, "details": {}, "bare": {"explain": False}}


def problems(few: bool) -> Iterator[tuple[str, dict[str, object]]]:
    """Names and questions: shipped clusters, then drawn ones."""
    shipped = list(MODELS.items())
    for name, model in shipped[:FEW] if few else shipped:
        yield name, {"cluster": str(FOLDER / f"{name}.yaml"), "model": model}
    draw = random.Random(60)
    for i in range(FEW if few else DRAWN):
        asked: dict[str, object] = {"gpus": draw.choice(CLUSTERS), "model": draw.choice(ASKED)}
        asked |= {"isl": draw.choice([256, 1024, 6000]), "osl": draw.choice([64, 256, 1000])}
        if draw.random() < 0.4:
            asked |= {"rate": draw.choice([0.5, 2.0, 8.0])}
        if draw.random() < 0.3:
            asked |= {"percentile": draw.choice(["p90", "p95"])}
        yield f"drawn {i}", asked


def made(asked: dict[str, object], how: dict[str, bool]) -> tuple[float, Plan | None]:
    """CPU seconds, imports left out, and the plan; None where there is none."""
    words = [sys.executable, "-c", MADE, json.dumps(asked), json.dumps(how)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[1])
    told = json.loads(done.stdout.splitlines()[-1])
    return told["cpu_s"], None if told["plan"] is None else Plan.model_validate(told["plan"])


def lines_of(plan: Plan) -> list[str]:
    """The screen."""
    out = io.StringIO()
    screen.render(plan, Console(file=out, width=fitted.WIDTH, highlight=False), kept=True)
    return out.getvalue().splitlines()


def report(few: bool = False) -> str:
    """A line a problem, then the sums."""
    rows, spent = list[list[str]](), dict.fromkeys(HOW, 0.0)
    tall = wide = blank = planned = 0
    for name, asked in problems(few):
        each = {how: made(asked, options) for how, options in HOW.items()}
        plan = each["screen"][1]
        if plan is None:
            rows.append([name, "no plan", "", "", "", ""])
            continue
        lines, planned = lines_of(plan), planned + 1
        tall += len(lines) > fitted.HEIGHT
        wide += max(map(len, lines)) > fitted.WIDTH
        blank += any(line != line.rstrip() for line in lines)
        for how, (cpu_s, _) in each.items():
            spent[how] += cpu_s
        sizes = [str(len(lines)), str(max(map(len, lines)))]
        rows.append([name, *sizes, *(f"{each[how][0]:.2f}" for how in HOW)])
    rows.append(["sum", "", "", *(f"{spent[how]:.1f}" for how in HOW)])
    ratio = spent["screen"] / spent["details"] if spent["details"] else 0.0
    said = (
        f"{planned} plans: {tall} taller than {fitted.HEIGHT} lines, {wide} wider than {fitted.WIDTH} "
        f"columns, {blank} with blanks at the ends of lines; CPU seconds of the screen {ratio:.2f} of those "
        "of --details"
    )
    heads = ("problem", "lines", "columns", *(f"CPU s {how}" for how in HOW))
    return f"{table(heads, rows)}\n\n{said}"


if __name__ == "__main__":
    print(report("--few" in sys.argv))

"""All scores of one set of predictions as text."""

from __future__ import annotations

from benchmarks.scores.bands import band_table
from benchmarks.scores.errors import error_table
from benchmarks.scores.floor import floor_table
from benchmarks.scores.held import Held
from benchmarks.scores.layouts import layout_table
from benchmarks.scores.picks import pick_table
from benchmarks.scores.repeats import repeat_table


def score(held: Held) -> str:
    """The report of `python -m benchmarks.accuracy`."""
    sections = {
        "Errors of the median": error_table(held),
        "80 % bands: share inside, mean high / low - 1, mean log(high / low)": band_table(held),
        "Picks under TPOT limits of 8 to 50 ms": pick_table(held),
        "Layouts of the same GPUs at the same concurrency, more than 5 % apart: ordered right": layout_table(
            held
        ),
        "Measurements repeated: each against the mean of the others": repeat_table(held),
        "What bounds it: were the median errors of sets of rows known": floor_table(held),
    }
    return "\n\n".join(f"{title}\n{body}" for title, body in sections.items())

"""Steps of which each lasts longer than the last by the same, taken at once."""

from __future__ import annotations

import math

NO_JUMP = (0, 0.0, 0.0)
"""Steps ahead, seconds of the first, and how much longer each next one is: none."""


def steps_s(count: float, first_s: float, growth_s: float) -> float:
    """Seconds of `count` steps, the first lasting `first_s` and each next one `growth_s` longer.

    >>> steps_s(3, 1.0, 0.5)
    4.5
    """
    return count * first_s + growth_s * count * (count - 1) / 2


def steps_to_reach(time_s: float, first_s: float, growth_s: float) -> int:
    """The least number of such steps, at least one, that last `time_s` or longer.

    >>> [steps_to_reach(t, 1.0, 0.5) for t in (0.0, 1.0, 1.1, 4.5, 4.6)]
    [1, 1, 2, 3, 4]
    """
    if time_s <= first_s:
        return 1
    half = first_s - growth_s / 2  # growth/2·k² + half·k = time
    count = math.ceil(2 * time_s / (half + math.sqrt(half * half + 2 * growth_s * time_s)))
    while count > 1 and steps_s(count - 1, first_s, growth_s) >= time_s:
        count -= 1
    while steps_s(count, first_s, growth_s) < time_s:
        count += 1
    return count

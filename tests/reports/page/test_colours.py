"""Contrast by WCAG 2.2, of both themes."""

import pytest

from planner.reports.page.colours import DARK, LIGHT, PARTS, ROLES

INK = ("ink", "dim", "good", "warn", "accent")
"""Colours of text."""

GROUNDS = ("page", "card", "well", *(f"{role}-tint" for role in ROLES))
"""What text is written on."""


def contrast(one: str, other: str) -> float:
    """Contrast of two colours by WCAG 2.2, from 1 to 21.

    >>> contrast("#ffffff", "#000000"), round(contrast("#777777", "#ffffff"), 2)
    (21.0, 4.48)
    """
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return float(sum(w * x for w, x in zip((0.2126, 0.7152, 0.0722), linear, strict=True)))


THEMES = {"light": LIGHT, "dark": DARK}


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("ink", INK)
@pytest.mark.parametrize("ground", GROUNDS)
def test_text_is_read_on_every_ground(theme, ink, ground):
    assert contrast(THEMES[theme][ink], THEMES[theme][ground]) >= 4.5


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("part", PARTS)
def test_parts_of_bars_are_seen_on_their_card(theme, part):
    assert contrast(THEMES[theme][part], THEMES[theme]["card"]) >= 3


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("role", ROLES)
def test_parts_of_memory_are_seen_on_the_tint_of_a_role(theme, role):
    for part in ("weights", "kv", "activations", role):
        assert contrast(THEMES[theme][part], THEMES[theme][f"{role}-tint"]) >= 2.8


def test_both_themes_have_the_same_colours():
    assert list(LIGHT) == list(DARK)

"""Contrast by WCAG 2.2, of both themes."""

import pytest

from planner.reports.page.colours import DARK, GROUNDS, INK, LIGHT, PARTS, ROLES, contrast

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

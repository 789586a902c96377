"""A tokenizer's time by token."""

from types import SimpleNamespace

from benchmarks import tokenizing


class Reader:
    """Gives a token for each word."""

    def encode(self, text):
        return SimpleNamespace(ids=text.split())


def test_time_is_told_by_token(monkeypatch):
    clock = iter([10.0, 10.5])
    monkeypatch.setattr(tokenizing.time, "perf_counter", lambda: next(clock))
    assert tokenizing.token_us(Reader(), "a b c d e") == 1e5


def test_prose_is_long_enough_for_the_longest_prompts():
    """Four characters a token, and each text begins 1,000 further on."""
    assert len(tokenizing.prose()) > 4 * max(tokenizing.LENGTHS) + 1000 * tokenizing.TEXTS

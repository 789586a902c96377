"""What an engine's host needs to read a prompt's text, by token: `pip install tokenizers`, then
`python -m benchmarks.tokenizing`.

Engines tokenize a prompt by the library `tokenizers` before it is scheduled, on one thread, one request after
the other. Its time depends on how words are split and merged and hardly on which words there are, so the
vocabulary here is learnt from what any machine has: Python's own library and this project's pages, split as
Llama 3 splits text, 128,000 entries as most of today's models have. "Drawn": tokens drawn at random and
decoded, as benchmarks of servers make prompts. The best of several texts each, as others may use the
processor meanwhile.
"""

from __future__ import annotations

import random
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.scores.render import table

ROOT = Path(__file__).resolve().parents[1]
ENTRIES = 128_000
LENGTHS = (1024, 8192, 32768)
TEXTS = 8
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""Where Llama 3 and most models since split text before merging."""


def corpus() -> Iterator[str]:
    """Python's library, with what is installed beside it, and this project's pages."""
    places = [Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib")]
    for place, kind in [*((place, "**/*.py") for place in places), (ROOT, "**/*.md")]:
        for path in sorted(place.glob(kind)):
            yield path.read_text("utf-8", errors="ignore")


def prose() -> str:
    """This project's pages."""
    return "\n".join(path.read_text("utf-8") for path in sorted((ROOT / "docs").glob("*.md")))


def learnt() -> Any:
    """A tokenizer of `ENTRIES` entries."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    made = Tokenizer(models.BPE(ignore_merges=True))
    split = pre_tokenizers.Split(Regex(SPLIT), "isolated")
    in_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.pre_tokenizer = pre_tokenizers.Sequence([split, in_bytes])
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=ENTRIES, show_progress=False, initial_alphabet=alphabet)
    made.train_from_iterator(corpus(), trainer)
    return made


def token_us(tokenizer: Any, text: str) -> float:
    """Microseconds a token of `text`."""
    start_s = time.perf_counter()
    ids = tokenizer.encode(text).ids
    return 1e6 * (time.perf_counter() - start_s) / len(ids)


def main() -> None:
    """One line a length."""
    try:
        import tokenizers
    except ImportError:
        print("skipped: needs `pip install tokenizers`", file=sys.stderr)
        return
    tokenizer, text, rng = learnt(), prose(), random.Random(0)
    lines = []
    for length in LENGTHS:
        ids = [[rng.randrange(ENTRIES) for _ in range(length)] for _ in range(TEXTS)]
        drawn = [tokenizer.decode(some) for some in ids]
        written = [text[i * 1000 : i * 1000 + 4 * length] for i in range(TEXTS)]
        best = [min(token_us(tokenizer, one) for one in some) for some in (drawn, written)]
        lines.append([f"{length:,}", *(f"{us:.1f}" for us in best)])
    print(
        f"tokenizers {tokenizers.__version__}, {tokenizer.get_vocab_size():,} entries: microseconds a token\n"
    )
    print(table(["tokens", "drawn", "prose"], lines))


if __name__ == "__main__":
    main()

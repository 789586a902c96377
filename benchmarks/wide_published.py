"""Published deployments of DeepSeek-V3 over many nodes, and what is predicted:
`python -m benchmarks.wide_published`.

Nothing is fitted to them. What compares: one side of prefill/decode pairs, at the batch that was published.
SGLang (LMSYS, May 2025, 12 nodes of 8 H100): prompts on 4 nodes, answers on 9, experts balanced with 32
copies. DeepSeek (open-infra-index, March 2025, nodes of 8 H800): means over a day, in which servers were
neither full nor their requests alike; prompts on 4 nodes with 56.3 % of the tokens found in a cache, answers
on 18 nodes at a mean context of 4,989 tokens, of which the batch is not published: 64 and 128 sequences a GPU
are tried. Its cluster's NICs are taken as 50 GB/s a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.scores.render import table
from planner.errors import InputError
from planner.predict.predictions import predict_rows

NODE = 8
"""GPUs."""


@dataclass(frozen=True)
class Deployment:
    """`tokens` a node each second, in or out; `ranks` of attention-dp and experts, `batch` requests on each;
    `more` columns of `predict`."""

    name: str
    tokens: float
    role: str
    device: str
    ranks: int
    batch: int
    isl: int
    osl: int
    more: dict[str, str]

    def row(self) -> dict[str, str]:
        """As `predict` takes it."""
        sizes = {"tp": "1", "attn_dp": str(self.ranks), "ep": str(self.ranks), "redundant": "32"}
        load = {"isl": str(self.isl), "osl": str(self.osl), "concurrency": str(self.batch * self.ranks)}
        at = {"model": "deepseek-v3", "engine": "sglang", "device": self.device, "role": self.role}
        return at | sizes | load | {"start": "steady"} | self.more


CHUNK = {"chunk": "16384"}
DRAFT = {"draft_tokens": "1", "accepted_tokens": "0.8"}
HITS = {**CHUNK, "prefix_hit": "0.563"}

PUBLISHED = (
    Deployment("SGLang, prompts of 1k", 57_674, "prefill", "h100-sxm", 32, 16, 1024, 1, CHUNK),
    Deployment("SGLang, prompts of 2k", 54_543, "prefill", "h100-sxm", 32, 8, 2048, 1, CHUNK),
    Deployment("SGLang, prompts of 4k", 50_302, "prefill", "h100-sxm", 32, 4, 4096, 1, CHUNK),
    Deployment("SGLang, answers after 2k", 22_282, "decode", "h100-sxm", 72, 256, 2000, 100, {}),
    Deployment(
        "SGLang, answers after 4k, MTP simulated", 17_373, "decode", "h100-sxm", 72, 128, 4000, 100, DRAFT
    ),
    Deployment("DeepSeek, prompts", 73_700, "prefill", "h800-sxm", 32, 8, 4096, 1, HITS),
    Deployment("DeepSeek, answers, 64 at once", 14_800, "decode", "h800-sxm", 144, 64, 4500, 1000, {}),
    Deployment("DeepSeek, answers, 128 at once", 14_800, "decode", "h800-sxm", 144, 128, 4500, 1000, {}),
)


def predicted(one: Deployment) -> tuple[float, str]:
    """Tokens a node each second, and a note. Raises InputError."""
    (found,) = predict_rows([one.row()])
    if isinstance(found, InputError):
        raise found
    if one.role == "decode":
        assert found.out_tok_per_s is not None
        return NODE * found.out_tok_per_s / one.ranks, found.note
    assert found.ttft_ms is not None
    return NODE * one.batch * one.isl / (found.ttft_ms / 1e3), found.note


def main() -> None:
    """Predict and print."""
    lines = []
    for one in PUBLISHED:
        tokens, note = predicted(one)
        figures = [f"{one.tokens:,.0f}", f"{tokens:,.0f}", f"{tokens / one.tokens:.2f}"]
        lines.append([one.name, str(one.ranks), str(one.batch), *figures, note])
    print(
        table(
            ["tokens a node and second", "ranks", "batch", "published", "predicted", "ratio", "note"], lines
        )
    )


if __name__ == "__main__":
    main()

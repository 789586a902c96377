"""Drafts in sweeps: what a YAML file says of them reaches `plan`."""

from planner.studies.grid import read

SWEEP = """
base: {gpus: 1xH100, model: llama-3.1-8b, acceptance: 0.4}
vary:
  speculation: [off, ngram, "draft:llama-3.2-1b"]
  draft_tokens: [1, 3]
"""


def test_every_way_to_draft_is_a_cell(tmp_path):
    path = tmp_path / "sweep.yaml"
    path.write_text(SWEEP)
    cells = [(cell["speculation"], cell["draft_tokens"], cell["acceptance"]) for cell in read(str(path))]

    assert cells == [(s, k, 0.4) for s in ("off", "ngram", "draft:llama-3.2-1b") for k in (1, 3)]

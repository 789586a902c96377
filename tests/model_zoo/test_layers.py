from hypothesis import given, settings
from hypothesis import strategies as st

from model_zoo.huggingface.layers import named, run_lengths


@settings(max_examples=200)
@given(st.lists(st.sampled_from("abc"), max_size=60))
def test_run_lengths_unfold_to_the_layers_they_stand_for(names):
    runs = run_lengths(names)

    assert [name for run in runs for _ in range(run.times) for name in run.of] == names


def test_a_repeated_block_is_one_run():
    runs = run_lengths(["d"] * 3 + ["s", "s", "f"] * 20)

    assert [(run.times, run.of) for run in runs] == [(3, ["d"]), (20, ["s", "s", "f"])]


def test_parts_of_the_same_kind_are_numbered():
    assert named(["x", None, "y", "x", "z"], {"x": "attn", "y": "attn", "z": "mla"}) == {
        "x": "attn",
        "y": "attn_2",
        "z": "mla",
    }

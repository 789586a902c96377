"""What of a prompt's transfer comes after it, and what others on the way make of it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.replays.transfers import replay_transfers
from cluster_configs.reading import from_gpus
from model_zoo import catalog
from planner.cost.model import CostModel
from planner.cost.transfer import Overlap, hidden_s, shared_s
from planner.designs.precision import precisions
from planner.designs.shape import Designs, StepTimes

SECONDS = st.floats(0.01, 10.0)


def model(name: str, gpus: str = "16xh100", engine: str = "sglang") -> CostModel:
    card = catalog.find(name)[0]
    return CostModel(card, from_gpus(gpus).classes[0], engine, precisions(card))


def design(tp: int = 1, pp: int = 1, attn_dp: int = 1, cp: int = 1) -> Designs:
    sizes = (tp, pp, attn_dp, tp * attn_dp * cp, 1, 0, cp)
    return Designs(*(np.array([size]) for size in sizes))


def chunk_after_chunk(computed: list[float], part: float, last: float) -> float:
    """Seconds after the prompt until its cache is through, part by part, by simulation."""
    ready = sent = 0.0
    for i, seconds in enumerate(computed):
        ready += seconds
        sent = max(ready, sent) + (last if i == len(computed) - 1 else part)
    return sent - ready


@given(st.lists(SECONDS, min_size=2, max_size=9).map(sorted), SECONDS, SECONDS)
def test_what_is_seen_is_what_a_simulation_of_chunks_sees(computed, part, last):
    whole = (len(computed) - 1) * part + max(part, last)
    seen = Overlap(max(part, last) / whole, sum(computed[1:])).seen_s(whole)

    assert seen == pytest.approx(chunk_after_chunk(computed, part, max(part, last)))


@given(st.floats(0.01, 1.0), SECONDS, SECONDS)
def test_the_longest_bearable_transfer_is_just_seen_so_long(last, hidden, seen):
    o = Overlap(last, hidden)

    assert o.seen_s(o.bearable_s(seen)) == pytest.approx(seen)


def test_chunks_after_the_first_by_hand():
    """20,000 tokens in chunks of 8,192: three steps. Hidden: two t0 of 10 ms, 11,808 tokens of 0.1 ms, and
    the keys they see, 8,192 + 5,904 each, of 1 ns."""
    step = StepTimes(*map(np.asarray, (0.01, 1e-4, 1e-9, 0.0, 0.0, 1.0)))
    isl = np.array([20_000.0, 8_000.0])

    found = hidden_s(step, isl, isl, 8192.0)

    assert found[0, 0] == pytest.approx(0.02 + 1.1808 + 11_808 * 14_096 * 1e-9)
    assert found[0, 1] == 0


def test_a_rank_sends_its_part_of_a_llama():
    """Llama-3.1-70B: 80 layers x 2 x 8 heads x 128 x 2 bytes = 327,680 bytes a token; 1,000 tokens."""
    isl, whole = np.array([1000.0]), 327_680_000
    m = model("llama-3.1-70b")

    for tp, pp, ranks, copies in ((4, 1, 4, 1), (8, 1, 8, 1), (4, 4, 16, 1), (16, 1, 8, 2)):
        held, kept = m.handed_bytes(design(tp, pp), isl)
        assert held[0, 0] == pytest.approx(whole / ranks)
        assert kept[0, 0] == copies


def test_every_rank_of_a_latent_fetches_all_of_it():
    """DeepSeek-V3: 61 layers x (512 + 64) x 2 bytes = 70,272 bytes a token, on each of 8 ranks."""
    m, isl = model("deepseek-v3"), np.array([1000.0])

    assert m.transfer_bytes(isl)[0] == 61 * 576 * 2 * 1000
    for sizes, copies in (((8,), 8), ((1, 1, 8), 1)):
        held, kept = m.handed_bytes(design(*sizes), isl)
        assert held[0, 0] == pytest.approx(70_272_000)
        assert kept[0, 0] == copies


def test_windows_are_sent_once_and_last():
    """gpt-oss-120b: 18 of 36 layers see 128 tokens; K and V, 8 heads of 64, 2 bytes: 2,048 bytes a token and
    layer. Of 10,000 tokens in chunks of 4,000 the last adds 4,000 in 18 layers and all windows."""
    m, isl = model("gpt-oss-120b"), np.array([10_000.0])
    whole = 18 * 2048 * (10_000 + 128)

    assert m.transfer_bytes(isl)[0] == whole
    assert m.last_share(isl, isl, 4000)[0] == pytest.approx(18 * 2048 * (4000 + 128) / whole)
    assert m.last_share(isl, isl, 10_000)[0] == 1


def test_recurrent_states_do_not_grow_with_the_prompt():
    m = model("nemotron-h-56b")
    short, long = m.transfer_bytes(np.array([1000.0, 2000.0]))
    attention = 10 * 2 * 8 * 128 * 2  # 10 layers of 118

    assert long - short == 1000 * attention
    assert short > 1000 * attention


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_one_link_is_shared_as_processors_are(load):
    """20,000 transfers of one size that arrive at random."""
    rng = np.random.default_rng(1)
    start = np.cumsum(rng.exponential(1 / load, 20_000))
    ends = replay_transfers(start, np.ones(20_000), [[0]] * 20_000, np.array([1.0]))

    assert (ends - start).mean() == pytest.approx(shared_s([(1.0, load)]), rel=0.08)


def test_nics_and_a_link_on_one_way():
    """Two senders of 4 bytes/s, two receivers of 3, a link of 2: it is busy 0.6 of the time."""
    rng, n = np.random.default_rng(2), 8000
    start = np.cumsum(rng.exponential(1 / 1.2, n))
    ways = [[i % 2, 2 + int(rng.integers(2)), 4] for i in range(n)]
    ends = replay_transfers(start, np.ones(n), ways, np.array([4.0, 4.0, 3.0, 3.0, 2.0]))
    own = shared_s([(1 / 4, 0.6 / 4), (1 / 3, 0.2), (1 / 2, 0.6)])

    assert (ends - start).mean() == pytest.approx(own, rel=0.15)


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_where_two_links_are_equally_busy_the_formula_is_up_to_a_quarter_long(load):
    """A third of the transfers goes over the first link, a third over the second, a third over both."""
    rng, n = np.random.default_rng(3), 6000
    start = np.cumsum(rng.exponential(1 / (1.5 * load), n))
    kinds = rng.integers(3, size=n)
    ways = [[0], [1], [0, 1]]
    ends = replay_transfers(start, np.ones(n), [ways[k] for k in kinds], np.array([1.0, 1.0]))
    found = (ends - start)[kinds == 2].mean()

    assert 0.95 <= shared_s([(1.0, load), (1.0, load)]) / found <= 1.3


def test_a_link_that_is_full_never_delivers():
    assert shared_s([(1.0, 1.0)]) == float("inf")
    assert shared_s([(0.0, 1.5), (1.0, 0.0)]) == 1.0

"""Workers of three kinds: by hand, by every split, and by impossibility."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.formulations import workers
from benchmarks.formulations.workers import WorkersProblem
from solvers.linear import Limits

SMALL = WorkersProblem(
    rate={"pre": {"a": {1: 10.0}}, "attn": {"a": {1: 3.0, 2: 8.0}}, "ffn": {"a": {1: 4.0, 2: 6.0}}},
    stock={"a": 4},
    pairs=[("attn", "ffn")],
)


def all_splits(p, keys, stock):
    """Every count of every replica that the stock allows."""
    if not keys:
        yield {}
        return
    (w, g, t), rest = keys[0], keys[1:]
    for k in range(stock[g] // t + 1):
        for others in all_splits(p, rest, {**stock, g: stock[g] - k * t}):
            yield {**others, (w, g, t): k}


def best_by_trying_all(p: WorkersProblem) -> float | None:
    """None where no pair of workers stands."""
    keys = [(w, g, t) for w, by in p.rate.items() for g, table in by.items() for t in table]
    found = []
    for n in all_splits(p, keys, p.stock):
        replicas = {w: sum(k for (v, _, _), k in n.items() if v == w) for w in p.rate}
        if all(replicas[v] == replicas[w] > 0 for v, w in p.pairs):
            found.append(workers.served(p, n))
    return max(found, default=None)


def test_four_gpus_serve_four_requests_per_second():
    """By hand: one to prefill (10/s), two to attention (8/s), one to the FFN (4/s)."""
    s = workers.solve(SMALL, Limits())

    assert s.objective == pytest.approx(4.0) == s.bound
    assert s.replicas == {("pre", "a", 1): 1, ("attn", "a", 2): 1, ("ffn", "a", 1): 1}
    assert s.status == "optimal"


def test_two_gpus_cannot_hold_three_workers():
    s = workers.solve(WorkersProblem(SMALL.rate, {"a": 1}, SMALL.pairs), Limits())

    assert s.status == "infeasible"
    assert s.objective is None


@settings(max_examples=60, derandomize=True)
@given(data=st.data())
def test_agrees_with_trying_every_split(data):
    rates = st.sampled_from([0.0, 1.0, 2.5, 4.0, 7.0])
    types = data.draw(st.sampled_from([["a"], ["a", "b"]]))
    degrees = [1, 2] if len(types) == 2 else [1, 2, 3]
    rate = {w: {g: {t: data.draw(rates) for t in degrees} for g in types} for w in ("pre", "attn", "ffn")}
    stock = {g: data.draw(st.integers(0, 2 if len(types) == 2 else 5)) for g in types}
    p = WorkersProblem(rate, stock, [("attn", "ffn")])

    s = workers.solve(p, Limits())

    assert s.objective == pytest.approx(best_by_trying_all(p))
    assert s.bound == pytest.approx(s.objective)


def test_every_row_of_the_docstring_is_in_the_model():
    families = {family for family, _ in workers.build(SMALL).model.rows}

    assert families == {"through", "stock", "pair", "some"}
    assert all(f"\n{family}[" in workers.__doc__ for family in families)

"""Search for a placement of one layer that is within a time and copies few weights.

Moves      slots p and q exchange their experts; or slot p drops e, which has another replica, and takes f.
repair     while a GPU is over the time: the move that takes away most of what is over for each new copy
trim       while one helps: a move that saves a copy, and leaves every GPU within the time
again      some slots of the best get back what they held, and repair and trim follow
oscillate  the best move that is not forbidden, good or bad, over and over: at first copies are dear, and what
           is over the time is the dearer the longer some is. Slots don't take back at once what they gave.

The price of a change of expert is of e and f apart; before it is taken it is valued exactly.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from solvers.experts.types import Floats, Ints, counts

CHEAP = 0.05
"""A move without a new copy counts as this part of one."""
VALUED = 24
NOISE = 0.1
BACK = 0.4
"""Changed slots that get back what they held."""
PRICE, UP, DOWN = (1.0, 15.0, 1000.0), 1.1, 0.8
"""Copies that it is worth to bring all GPUs within the time where one is at twice it: least, first, most;
times so much after every move that leaves some over, and none."""
FORBIDDEN = 4
"""Moves, at least, before a GPU takes back what it gave."""
EPS = 1e-9


class Search:
    """`load` (experts,), `speed` (gpus,), `gpu` (slots,), `held` (experts, gpus), `limit` in time."""

    def __init__(
        self, load: Floats, speed: Floats, gpu: Ints, held: np.ndarray, limit: float, seed: int
    ) -> None:
        self.load, self.speed, self.gpu, self.held, self.limit = load, speed, gpu, held, limit
        self.rng = np.random.default_rng(seed)
        self.best: Ints | None = None
        self.copies = 10**9

    def offer(self, expert: Ints | None) -> None:
        """Keep experts in slots (slots,), if they are within the time, at fewer copies."""
        if expert is None:
            return
        on = self._on(expert)
        copies = int(((on > 0) & ~self.held).sum())
        if copies < self.copies and self._time(on).max() <= self.limit:
            self.best, self.copies = expert.copy(), copies

    def repaired(self, expert: Ints, noise: float = 0.0) -> Ints | None:
        """Brought within the time and trimmed; None where no more move helps before it is."""
        state = State(self, expert)
        for _ in range(2 * len(expert)):
            if state.over <= EPS * self.limit:
                return self.trimmed(state.expert)
            if not state.repair(noise):
                return None
        return None

    def again(self, present: Ints) -> Ints | None:
        """From the best, with some slots as they are at `present` (slots,)."""
        assert self.best is not None
        expert = self.best.copy()
        back = (expert != present) & (self.rng.random(len(expert)) < BACK)
        while back.any():
            expert[back] = present[back]
            lost = np.bincount(expert, minlength=len(self.load)) == 0
            back = lost[present] & (expert != present)
        return self.repaired(expert, NOISE)

    def oscillate(self, present: Ints, turns: int) -> None:
        """From `present` (slots,), keeping what is within the time at the fewest copies."""
        state, until = State(self, present), np.zeros(self.held.shape, dtype=np.int64)
        low, price, high = PRICE
        for turn in range(turns):
            within = state.over <= EPS * self.limit
            if within:
                self.offer(state.expert)
            price = min(max(price * (DOWN if within else UP), low), high)
            move = None if self.copies == 0 else state.best_move(price / self.limit, until > turn)
            if move is None:
                return
            for expert, gpu in state.make(*move):
                until[expert, gpu] = turn + FORBIDDEN + self.rng.integers(0, FORBIDDEN)

    def trimmed(self, expert: Ints) -> Ints:
        state = State(self, expert)
        while state.trim():
            pass
        return state.expert

    def _on(self, expert: Ints) -> Ints:
        return counts(expert, self.gpu, self.held.shape)

    def _time(self, on: Ints) -> Floats:
        return np.asarray(((self.load / on.sum(1)) @ on) / self.speed)


class State:
    """A placement under change."""

    def __init__(self, search: Search, expert: Ints) -> None:
        self.s, self.expert = search, expert.copy()
        self._renew()

    def _renew(self) -> None:
        self.on = self.s._on(self.expert)
        self.count = self.on.sum(1)
        self.replica = self.s.load / self.count
        self.time = (self.replica @ self.on) / self.s.speed
        self.over = float(self._over(self.time).sum())
        self.fresh = (self.on == 0) & ~self.s.held
        self.alone = (self.on == 1) & ~self.s.held

    def _over(self, time: Floats) -> Floats:
        return np.maximum(0.0, time - self.s.limit)

    def repair(self, noise: float) -> bool:
        """One move that brings GPUs nearer to the time, the cheapest for what it brings."""
        hot = self.time > self.s.limit
        slots, spare = np.flatnonzero(hot[self.s.gpu]), np.flatnonzero(self.count[self.expert] > 1)
        chosen: list[tuple[float, int, int, bool]] = []
        for rows, gain, copies, exchange in self._moves(slots, spare):
            score = -gain / np.maximum(copies, CHEAP)
            score[gain >= -EPS * self.s.limit] = -np.inf
            best = _highest(score)
            luck = np.exp(noise * self.s.rng.standard_normal(len(best))) if noise else np.ones(len(best))
            chosen += [
                (v * x, int(rows[i]), j, exchange) for (v, i, j), x in zip(best, luck.tolist(), strict=True)
            ]
        for _, p, other, exchange in sorted(chosen, reverse=True)[:VALUED]:
            if self._try(p, other, exchange, self.over * (1 - EPS) - EPS * self.s.limit):
                return True
        return False

    def best_move(self, price: float, forbidden: np.ndarray) -> tuple[int, int, bool] | None:
        """Slot, other slot or expert, is it an exchange: least price of what is over, and copies.

        `forbidden` (experts, gpus): what a GPU must not take. None where nothing is allowed.
        """
        gpu, expert = self.s.gpu, self.expert
        slots = np.flatnonzero((self.time > self.s.limit)[gpu] | self.alone[expert, gpu])
        slots = slots if slots.size else np.arange(len(gpu))
        spare = np.flatnonzero(self.count[expert] > 1)
        value, best = np.inf, None
        for rows, gain, copies, exchange in self._moves(slots, spare):
            barred = forbidden[:, gpu[rows]].T
            if exchange:
                barred = barred[:, expert] | forbidden[expert[rows]][:, gpu]
            score = np.where(barred, np.inf, price * gain + copies)
            i, j = divmod(int(score.argmin()), score.shape[1])
            if score[i, j] < value:
                value, best = score[i, j], (int(rows[i]), j, exchange)
        return best

    def make(self, p: int, other: int, exchange: bool) -> list[tuple[int, int]]:
        """Make the move; what was given by which GPU."""
        gave = [(int(self.expert[p]), int(self.s.gpu[p]))]
        if exchange:
            gave.append((int(self.expert[other]), int(self.s.gpu[other])))
            self.expert[[p, other]] = self.expert[[other, p]]
        else:
            self.expert[p] = other
        self._renew()
        return gave

    def trim(self) -> bool:
        """One move that saves a copy and keeps to the time."""
        slots = np.flatnonzero(self.alone[self.expert, self.s.gpu])
        if not slots.size:
            return False
        spare = slots[self.count[self.expert[slots]] > 1]
        for rows, gain, copies, exchange in self._moves(slots, spare):
            score = np.where(gain <= EPS * self.s.limit, -copies.astype(float), -np.inf)
            score[copies >= 0] = -np.inf
            for _, i, j in _highest(score):
                if self._try(int(rows[i]), j, exchange, max(self.over, EPS * self.s.limit)):
                    return True
        return False

    def _try(self, p: int, other: int, exchange: bool, most: float) -> bool:
        """Make the move, if what is over the time is `most` after it."""
        before = self.expert.copy()
        self.make(p, other, exchange)
        if self.over <= most:
            return True
        self.expert = before
        self._renew()
        return False

    def _moves(self, slots: Ints, spare: Ints) -> Iterator[tuple[Ints, Floats, Ints, bool]]:
        """Exchanges of `slots`, then changes of `spare` where there are any: slots, change of what is over,
        new copies, is it an exchange."""
        yield (*self._exchanges(slots), True)
        if spare.size:
            yield (*self._changes(spare), False)

    def _exchanges(self, slots: Ints) -> tuple[Ints, Floats, Ints]:
        """`slots` (n,), and with every other slot: change of what is over, new copies (n, slots)."""
        gpu, v = self.s.gpu, self.s.speed
        x, g, e = self.replica[self.expert], gpu[slots], self.expert[slots]
        shift = x[None, :] - x[slots][:, None]
        over = self._over(self.time)
        change = self._over(self.time[g][:, None] + shift / v[g][:, None]) - over[g][:, None]
        change += self._over(self.time[gpu][None, :] - shift / v[gpu][None, :]) - over[gpu][None, :]
        fresh, alone = self.fresh.astype(np.int64), self.alone.astype(np.int64)
        copies = fresh[e][:, gpu] - alone[e, g][:, None]
        copies += fresh[self.expert][:, g].T - alone[self.expert, gpu][None, :]
        change[(gpu[None, :] == g[:, None]) | (self.expert[None, :] == e[:, None])] = np.inf
        return slots, np.asarray(change), np.asarray(copies)

    def _changes(self, slots: Ints) -> tuple[Ints, Floats, Ints]:
        """`slots` (n,) of experts with other replicas, and for every expert there instead: the same."""
        s, on, count, load = self.s, self.on, self.count, self.s.load
        e, u = self.expert[slots], s.gpu[slots]
        pace = 1 / s.speed
        fewer, more = load / np.maximum(count - 1, 1), load / (count + 1)
        over = self._over(self.time)
        grows = on * (fewer - self.replica)[:, None] * pace
        shrinks = on * (more - self.replica)[:, None] * pace
        up, down = self._over(self.time + grows) - over, self._over(self.time + shrinks) - over
        own = self.time[u][:, None] + (grows[e, u] - fewer[e] * pace[u])[:, None]
        own = own + shrinks[:, u].T + more[None, :] * pace[u][:, None]
        change = (up.sum(1)[e] - up[e, u])[:, None] + (down.sum(1)[None, :] - down[:, u].T)
        change = change + self._over(own) - over[u][:, None]
        copies = self.fresh[:, u].T.astype(np.int64) - self.alone[e, u][:, None]
        change[np.arange(len(slots)), e] = np.inf
        return slots, np.asarray(change), np.asarray(copies)


def _highest(score: Floats) -> list[tuple[float, int, int]]:
    """The best finite entries of a table, best first."""
    flat = score.ravel()
    n = min(VALUED, flat.size)
    top = np.argpartition(-flat, n - 1)[:n] if flat.size > n else np.arange(flat.size)
    top = top[np.argsort(-flat[top], kind="stable")]
    top = top[np.isfinite(flat[top])]
    columns = score.shape[1]
    return list(zip(flat[top].tolist(), (top // columns).tolist(), (top % columns).tolist(), strict=True))

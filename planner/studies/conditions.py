"""Which cells of a grid are planned: the conditions under `where:` of a sweep, such as `isl + osl <= 32768`.

    condition   comparisons joined by `and`, `or`, `not` and parentheses
    comparison  values joined by `==`, `!=`, `<`, `<=`, `>`, `>=`, as 1 <= rate < 10; or `model in ['a', 'b']`
    value       a number, a 'text', null, an option of `plan` by its name, or + - * / of numbers

Python's grammar reads them into a tree; nothing is run but what stands here, and any other form is refused.
An option that a cell does not give is null. Null and texts have no order: asking for one is an error.
"""

from __future__ import annotations

import ast
import math
import operator
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from planner.errors import InputError, nearest

Cell = Mapping[str, Any]
Value = float | str | None
Texts = Mapping[str, Sequence[Any]]
"""Options of a sweep, and the values that each has in it."""

LONGEST = 1000
"""Characters of a condition."""
FORM = "write comparisons of options, as `isl + osl <= 32768`, texts in quotes, as `model == 'qwen3-32b'`"
ORDERS: dict[type, Callable[[float, float], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
SUMS: dict[type, Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def condition(text: str, options: Texts, known: Sequence[str]) -> Callable[[Cell], bool]:
    """What tells whether a cell keeps the condition `text`; `known`: all options that there are.

    Raises InputError: no condition, or an option or text that the sweep does not have. So does what is
    returned, where a cell has no number for what is compared by size.

    >>> short = condition("isl + osl <= 5000", {"isl": [4000], "osl": [1000]}, ["isl", "osl"])
    >>> short({"isl": 4000, "osl": 1000}), short({"isl": 4000, "osl": 1001})
    (True, False)
    """
    try:
        if len(text) > LONGEST:
            raise InputError(f"a condition has at most {LONGEST:,} characters")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python's, of odd spellings
            tree = ast.parse(text.strip(), mode="eval").body
        return _Reader(options, known).truth(tree)
    except SyntaxError as error:
        at = f", at character {error.offset}" if error.offset else ""
        hint = "`==` compares" if _assigns(text) else FORM
        raise InputError(f"`{text}` is no condition{at}", hint=hint) from None
    except (RecursionError, MemoryError, ValueError):
        raise InputError("a condition is nested too deep, or has characters that none has") from None


def _assigns(text: str) -> bool:
    """Whether `text` has a lone equals sign."""
    rest = text
    for sign in ("==", "!=", "<=", ">="):
        rest = rest.replace(sign, "")
    return "=" in rest


@dataclass(frozen=True)
class _Reader:
    """From a tree to a function of a cell, by the `options` of a sweep and all that are `known`."""

    options: Texts
    known: Sequence[str]

    def truth(self, node: ast.expr) -> Callable[[Cell], bool]:
        if isinstance(node, ast.BoolOp):
            parts = [self.truth(part) for part in node.values]
            whole = all if isinstance(node.op, ast.And) else any
            return lambda cell: whole(part(cell) for part in parts)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            inner = self.truth(node.operand)
            return lambda cell: not inner(cell)
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            steps = [self._comparison(*each) for each in zip(sides, node.ops, sides[1:], strict=False)]
            return lambda cell: all(step(cell) for step in steps)
        raise _refused(node, "compares nothing")

    def _comparison(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> Callable[[Cell], bool]:
        """One step of a chain of comparisons."""
        if isinstance(op, ast.In | ast.NotIn):
            return self._among(left, isinstance(op, ast.In), right)
        a, b = self.value(left), self.value(right)
        if order := ORDERS.get(type(op)):
            return lambda cell: order(_number(left, a, cell), _number(right, b, cell))
        if not isinstance(op, ast.Eq | ast.NotEq):
            raise InputError("`is` is no comparison", hint="write `== null`, or `!= null`")
        self._spelt(left, right)
        self._spelt(right, left)
        return (
            (lambda cell: a(cell) == b(cell)) if isinstance(op, ast.Eq) else lambda cell: a(cell) != b(cell)
        )

    def _among(self, left: ast.expr, wanted: bool, right: ast.expr) -> Callable[[Cell], bool]:
        if not isinstance(right, ast.List | ast.Tuple):
            raise _refused(right, "is no list", "write `in [1, 2]`")
        for item in right.elts:
            self._spelt(left, item)
        value, items = self.value(left), [self.value(item) for item in right.elts]
        return lambda cell: (value(cell) in [item(cell) for item in items]) == wanted

    def _spelt(self, name: ast.expr, text: ast.expr) -> None:
        """Refuses a text that the option beside it never is in this sweep: it is misspelt, or of no use."""
        if not (isinstance(name, ast.Name) and isinstance(text, ast.Constant)) or name.id not in self.options:
            return
        there = [value for value in self.options[name.id] if isinstance(value, str)]
        if isinstance(text.value, str) and text.value not in there:
            listed = ", ".join(f"`{near}`" for near in nearest(text.value[:60], there))
            hint = f"nearest: {listed}" if listed else f"`{name.id}` has no texts in this sweep"
            raise InputError(f"`{name.id}` is never `{text.value[:60]}` in this sweep", hint=hint)

    def value(self, node: ast.expr) -> Callable[[Cell], Value]:
        if isinstance(node, ast.Constant) and type(node.value) in (int, float, str):
            constant: Value = node.value  # type: ignore[assignment]
            return lambda cell: constant
        if isinstance(node, ast.Name):
            return self._option(node.id)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            inner = self.value(node.operand)
            return lambda cell: -_number(node.operand, inner, cell)
        if isinstance(node, ast.BinOp) and (made := SUMS.get(type(node.op))):
            a, b = self.value(node.left), self.value(node.right)
            return lambda cell: _made(node, made, _number(node.left, a, cell), _number(node.right, b, cell))
        raise _refused(node, "is no value")

    def _option(self, name: str) -> Callable[[Cell], Value]:
        if name == "null":
            return lambda cell: None
        if name in self.options:
            return lambda cell: cell.get(name)
        if name in self.known:
            raise InputError(
                f"`{name}` stands neither in `base` nor in `vary`", hint="leave it out, or give it"
            )
        texts = [value for values in self.options.values() for value in values]
        near = " or ".join(f"`{each}`" for each in nearest(name[:60], self.known, 2))
        hint = f"a text stands in quotes: '{name}'" if name in texts else f"did you mean {near}?"
        raise InputError(f"`{name[:60]}` is no option", hint=hint)


def _number(node: ast.expr, value: Callable[[Cell], Value], cell: Cell) -> float:
    """The number that `node` is in `cell`. Raises InputError where it is none."""
    found, name = value(cell), ast.unparse(node)
    if found is None:
        hint = f"say what then, as `{name} == null or …`"
        raise InputError(f"`{name}` has no value in the cell {_told(cell)}", hint=hint)
    if isinstance(found, str):
        hint = f"say what then, as `{name} == '{found}' or …`"
        raise InputError(f"`{name}` is the text `{found}`, no number, in the cell {_told(cell)}", hint=hint)
    try:
        return float(found)
    except OverflowError:
        raise InputError(f"`{name[:60]}` is too large a number") from None


def _made(node: ast.expr, made: Callable[[float, float], float], a: float, b: float) -> float:
    try:
        value = made(a, b)
    except ArithmeticError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"`{ast.unparse(node)[:200]}` has no value with {a:g} and {b:g}")
    return value


def _told(cell: Cell) -> str:
    return ", ".join(f"{name}={value}" for name, value in cell.items())


def _refused(node: ast.expr, why: str, hint: str = FORM) -> InputError:
    return InputError(f"`{ast.unparse(node)[:60]}` {why}", hint=hint)

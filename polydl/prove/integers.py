"""Integer expressions of the printed C as text that isl reads, in neutral names: `i0`, `i1`, … for the loops, `p_n` for
a parameter `n`."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any

from pycparser import c_ast

from polydl.base.records import dataclass
from polydl.model.types import spelled


class Unreadable(Exception):
    """C that the proof does not understand; the message says what."""


class Wrong(Exception):
    """The printed program is not the original; the message says where."""


@dataclass(frozen=True, slots=True)
class Affine:
    """A linear combination of loops (`i3`), parameters (`p_n`) and isl's quasi-affine terms (`floor((i0)/4)`).

    In an address it may have products of these (`i3·p_n`), which isl has no text for.
    """

    terms: tuple[tuple[str, int], ...] = ()
    constant: int = 0
    unsigned: bool = field(default=False, compare=False)
    """C computes with it modulo a power of two: less than nothing is very much."""

    @staticmethod
    def of(terms: Mapping[str, int], constant: int) -> Affine:
        return Affine(tuple(sorted((t, n) for t, n in terms.items() if n)), constant)

    def plus(self, other: Affine, factor: int = 1) -> Affine:
        """self + factor * other."""
        terms = dict(self.terms)
        for term, n in other.terms:
            terms[term] = terms.get(term, 0) + factor * n
        return Affine.of(terms, self.constant + factor * other.constant)

    def times(self, factor: int) -> Affine:
        return Affine().plus(self, factor)

    def __str__(self) -> str:
        """As isl reads it. Raises Unreadable for a product."""
        if any(_TIMES in term for term, _ in self.terms):
            raise Unreadable("a product of loops or sizes")
        return " + ".join([*(f"{n}*{t}" for t, n in self.terms), f"({self.constant})"])


_TIMES = "·"
"""Between the factors of a product, which are in the order of their text."""
ZERO = Affine()


def number(value: int) -> Affine:
    """A constant."""
    return Affine((), value)


def loop(position: int) -> Affine:
    """The variable of a loop."""
    return Affine(((f"i{position}", 1),))


def parameter(name: str, *, unsigned: bool = False) -> Affine:
    """A parameter of the program: a size that is not known. `unsigned`: by its type in C."""
    return Affine(((f"p_{name}", 1),), 0, unsigned)


def product(left: Affine, right: Affine) -> Affine:
    """left * right."""
    terms: dict[str, int] = {}
    for one, n in (*left.terms, ("", left.constant)):
        for other, m in (*right.terms, ("", right.constant)):
            both = _TIMES.join(sorted(f for f in (*one.split(_TIMES), *other.split(_TIMES)) if f))
            terms[both] = terms.get(both, 0) + n * m
    return Affine.of(terms, terms.pop("", 0))


def divided(value: Affine, by: Affine) -> tuple[Affine, Affine]:
    """(quotient, rest) with value = quotient * by + rest: the quotient is made of the terms of the value that have the
    factors of the longest term of `by`. Raises Unreadable where one has no whole number of them."""
    if not by.terms:
        raise Unreadable("a division of an address by a number")
    longest, often = max(by.terms, key=lambda term: (term[0].count(_TIMES), term))
    factors = Counter(longest.split(_TIMES))
    terms: dict[str, int] = {}
    for term, n in value.terms:
        own = Counter(term.split(_TIMES))
        if own >= factors:
            if n % often:
                raise Unreadable("an address of another form")
            terms[_TIMES.join(sorted((own - factors).elements()))] = n // often
    quotient = Affine.of(terms, terms.pop("", 0))
    return quotient, value.plus(product(quotient, by), -1)


_CHOICES: dict[str, str] = {}
"""Values with a case distinction, which isl's text has none for: per name (made of its definition) the formula that
defines it for every value of the loops."""
_CHOICE = re.compile(r"\bq[0-9a-f]{12}\b")


def _choice(test: str, then: Affine, otherwise: Affine) -> Affine:
    """`test ? then : otherwise`."""
    meaning = f"((({test}) and NAME = {then}) or ((not ({test})) and NAME = {otherwise}))"
    name = "q" + hashlib.sha256(meaning.encode()).hexdigest()[:12]
    _CHOICES[name] = meaning.replace("NAME", name)
    return Affine(((name, 1),))


def with_choices(formula: str, *others: str) -> str:
    """A formula with the values that it and some expressions mention defined."""
    found: dict[str, str] = {}
    waiting = [formula, *others]
    while waiting:
        for name in _CHOICE.findall(waiting.pop()):
            if name not in found:
                found[name] = _CHOICES[name]
                waiting.append(found[name])
    return f"exists {', '.join(found)} : {' and '.join(found.values())} and ({formula})" if found else formula


_FLOORS: dict[str, tuple[Affine, int]] = {}
"""Of terms `floor((x)/n)` x and n."""
_EXTREMES: dict[str, tuple[str, Affine, Affine]] = {}
"""Of terms `min(x, y)` and `max(x, y)` which of both, x and y."""
WHERE = "#where"
"""Of the integers in scope: a function that says whether a formula holds where an expression stands; none: not known.
No identifier is called that."""
_MOST_BOUNDS = 64
"""Inequalities in place of one, at most."""


def floor(value: Affine, by: int) -> Affine:
    """floor(value / by)."""
    if not value.terms:
        return number(value.constant // by)
    term = f"floor(({value})/{by})"
    _FLOORS[term] = value, by
    return Affine(((term, 1),))


def extreme(which: str, one: Affine, other: Affine) -> Affine:
    if not one.terms and not other.terms:
        return number((min if which == "min" else max)(one.constant, other.constant))
    term = f"{which}({one}, {other})"
    _EXTREMES[term] = which, one, other
    return Affine(((term, 1),))


def not_negative(value: Affine) -> str:
    """`value >= 0` as a formula without case distinctions where there is one: the least of two is not negative where
    both are not, and `floor(x/n) + y` where `x + n*y` is not."""
    waiting, done = [value], list[Affine]()
    while waiting and len(waiting) + len(done) < _MOST_BOUNDS:
        one = waiting.pop()
        parts = _without_case(one)
        done += [] if parts else [one]
        waiting += parts
    return " and ".join(f"({one}) >= 0" for one in (*done, *waiting))


def _without_case(value: Affine) -> list[Affine]:
    """What has to be not negative in place of a value, with a case distinction or a division less; none where it has
    to stay."""
    for term, n in value.terms:
        which, one, other = _EXTREMES.get(term, ("", ZERO, ZERO))
        if which == ("min" if n > 0 else "max"):
            rest = value.plus(Affine(((term, 1),)), -n)
            return [rest.plus(one, n), rest.plus(other, n)]
    for term, n in value.terms:
        if term in _FLOORS and abs(n) == 1:
            inner, by = _FLOORS[term]
            rest = value.plus(Affine(((term, 1),)), -n).times(by)
            # floor(x/by) >= -rest, or floor(x/by) <= rest, which is x < by * (rest + 1)
            return [rest.plus(inner) if n == 1 else rest.plus(inner, -1).plus(number(by - 1))]
    return []


_COMPARISONS = {"==": "=", "!=": "!="}


def integer(text: str) -> int:
    """The value of a C integer literal. Raises Unreadable."""
    try:
        digits = text.rstrip("uUlL")
        return int(digits, 8) if re.fullmatch(r"0[0-7]+", digits) else int(digits, 0)
    except ValueError:
        raise Unreadable(f"{text} is not an integer") from None


def affine(node: Any, env: Mapping[str, Any]) -> Affine:
    """The value of an integer expression; `env` holds the integers in scope. Raises Unreadable."""
    match node:
        case c_ast.Constant():
            return number(integer(node.value))
        case c_ast.ID():
            value = env.get(node.name)
            if not isinstance(value, Affine):
                raise Unreadable(f"'{node.name}' is not an integer of the loops")
            return value
        case c_ast.Cast():
            value = affine(node.expr, env)
            return replace(value, unsigned=value.unsigned and not _is_signed(node.to_type))
        case c_ast.UnaryOp(op="-"):
            value = affine(node.expr, env)
            _check_signs(node.op, value)
            return value.times(-1)
        case c_ast.UnaryOp(op="+"):
            return affine(node.expr, env)
        case c_ast.BinaryOp(op="+" | "-"):
            left, right = affine(node.left, env), affine(node.right, env)
            _check_signs(node.op, left, right)
            found = left.plus(right, 1 if node.op == "+" else -1)
            return replace(found, unsigned=left.unsigned or right.unsigned)
        case c_ast.BinaryOp(op="*"):
            left, right = affine(node.left, env), affine(node.right, env)
            _check_signs(node.op, left, right)
            return replace(product(left, right), unsigned=left.unsigned or right.unsigned)
        case c_ast.BinaryOp(op="/" | "%"):
            value, by = affine(node.left, env), affine(node.right, env)
            if by.terms or by.constant <= 0:
                raise Unreadable("a division by something else than a positive number")
            quotient = _truncated(value, by.constant, env)
            return quotient if node.op == "/" else value.plus(quotient, -by.constant)
        case c_ast.TernaryOp():
            test, then, otherwise = condition(node.cond, env), affine(node.iftrue, env), affine(node.iffalse, env)
            return _choice(test, then, otherwise)
        case c_ast.FuncCall(name=c_ast.ID()):
            return _helper(node, env)
    raise Unreadable(f"an integer expression ({type(node).__name__})")


def _is_signed(named: Any) -> bool:
    """Whether a cast is to a signed type of integers."""
    found = spelled(" ".join(getattr(getattr(named.type, "type", None), "names", ())))
    return found is not None and found.is_int and not found.unsigned


def _check_signs(op: str, *operands: Affine) -> None:
    """What C computes of an unsigned number is what it says where nothing below zero takes part. Raises Unreadable."""
    least = all(one.unsigned or (not one.terms and one.constant >= 0) for one in operands)
    if any(one.unsigned for one in operands) and not (least and op != "-"):
        raise Unreadable(f"'{op}' of an unsigned size, which may pass zero")


def _truncated(value: Affine, by: int, env: Mapping[str, Any]) -> Affine:
    """C's division: towards zero."""
    if not value.terms:
        quotient = abs(value.constant) // by
        return number(quotient if value.constant >= 0 else -quotient)
    if all(n % by == 0 for _, n in value.terms) and value.constant % by == 0:
        return Affine(tuple((t, n // by) for t, n in value.terms), value.constant // by)
    positive = f"({value}) >= 0"
    if WHERE in env and env[WHERE](positive):
        return floor(value, by)
    return _choice(positive, floor(value, by), floor(value.times(-1), by).times(-1))


def _helper(node: Any, env: Mapping[str, Any]) -> Affine:
    """polydl's own integer helpers: min, max, and division towards minus infinity."""
    found = re.fullmatch(r"polydl\d*_(?:n_)?(min|max|floord)", node.name.name)
    if found is None or len(node.args.exprs) != 2:
        raise Unreadable(f"the function {node.name.name} in an integer expression")
    a, b = (affine(e, env) for e in node.args.exprs)
    if found.group(1) == "floord":
        if b.terms or b.constant <= 0:
            raise Unreadable("a division by something else than a positive number")
        return floor(a, b.constant)
    return extreme(found.group(1), a, b)


def condition(node: Any, env: Mapping[str, Any]) -> str:
    """A condition on loop variables as an isl formula. Raises Unreadable."""
    match node:
        case c_ast.BinaryOp(op="&&" | "||"):
            word = "and" if node.op == "&&" else "or"
            return f"(({condition(node.left, env)}) {word} ({condition(node.right, env)}))"
        case c_ast.UnaryOp(op="!"):
            return f"(not ({condition(node.expr, env)}))"
        case c_ast.BinaryOp() if node.op in ("<", "<=", ">", ">=", *_COMPARISONS):
            left, right = affine(node.left, env), affine(node.right, env)
            _check_signs(node.op, left, right)
            if node.op in ("<", "<=", ">", ">="):
                more, less = (right, left) if node.op in ("<", "<=") else (left, right)
                return f"({not_negative(more.plus(less, -1).plus(number(-1 if node.op in '<>' else 0)))})"
            return f"({left} {_COMPARISONS[node.op]} {right})"
    return f"({affine(node, env)} != 0)"

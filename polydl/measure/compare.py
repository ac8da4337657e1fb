"""Compares results with those of the original: bit for bit where nothing rounds, within a proven bound elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from polydl.base.records import dataclass
from polydl.measure.input_data import AnyArray
from polydl.measure.measurement import WorstError
from polydl.model import isl
from polydl.model.combiners import PRODUCT, SUM, of_assignment, subtracts
from polydl.model.expr import (
    AffineValue,
    Binary,
    Call,
    Conditional,
    Const,
    Convert,
    Expr,
    Gather,
    Load,
    Unary,
    operands,
)
from polydl.model.scop import Assignment, BlackBox, MicrokernelCall, Scop, Statement

_CHUNK = 1 << 22
"""Elements compared at a time, to bound the memory of temporaries."""


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Properties of the right-hand sides of a scop that matter for the comparison of results."""

    singular: bool
    """Whether they divide or call functions: inputs around zero could be outside of the domain."""
    monotone: bool
    """Whether they only add and multiply, with positive constants: results grow with the magnitude of the inputs."""


def longest_sum(scop: Scop) -> int:
    """Additions into one element, at most, over all statements."""
    return max((terms(statement) for statement in scop.statements), default=1)


def terms(statement: Statement) -> int:
    """Values that a statement adds to one element or stores there, at most: the product of the iterations of the loops
    that do not move its target."""
    product = 1
    for iterator in statement.iterators:
        low, high = isl.least(statement.domain, iterator), isl.greatest(statement.domain, iterator)
        if low is not None and high is not None:
            product *= max(1, high - low + 1)
    product *= _kept(statement) if isinstance(statement.body, BlackBox) else 1
    written = 1
    for access in statement.accesses:
        # Data may choose one element over and over again.
        if access.write and access.exact and not access.relation.is_empty():
            hull = access.relation.range()
            ends = (isl.bounds(hull, d) for d in range(isl.arity(hull)))
            written = max(written, math.prod(high - low + 1 for low, high in ends))
    return max(1, -(-product // written))


_MOST_KEPT = 1 << 16
"""Additions of one loop that is kept as it is written, at most: their number may depend on data."""


def _kept(statement: Statement) -> int:
    """Additions inside of code that is kept as it is written, at most: as many as it may read elements of one array."""
    most = 1
    for access in statement.accesses:
        elements = access.relation.intersect_domain(statement.domain.lexmin()).range()
        if access.write or elements.is_empty():
            continue
        ends = [(isl.least(elements, d), isl.greatest(elements, d)) for d in range(isl.arity(elements))]
        several = math.prod(_MOST_KEPT if low is None or high is None else high - low + 1 for low, high in ends)
        most = max(most, min(several, _MOST_KEPT))
    return most


def arithmetic(scop: Scop) -> Arithmetic:
    """The properties of all right-hand sides together."""
    singular, monotone = False, True
    for statement in _assignments(scop.statements):
        if isinstance(statement.body, BlackBox):
            singular, monotone = True, False  # only its text is known
            continue
        assert isinstance(statement.body, Assignment)
        singular |= statement.body.op in ("/=", "%=")
        op = statement.body.op
        monotone &= op == "=" or (of_assignment(op) in (SUM, PRODUCT) and not subtracts(op))
        for node in _nodes(statement.body.value):
            match node:
                case Call():
                    singular = True
                case Binary(op):
                    singular |= op in ("/", "%")
                    monotone &= op in ("+", "*")
                case Unary(op):
                    monotone &= op == "+"
                case Const(text):
                    monotone &= not text.startswith("-")
                case AffineValue() | Conditional():
                    monotone = False
                case Convert() | Load() | Gather():
                    pass
    return Arithmetic(singular, monotone and not singular)


def _assignments(statements: Iterable[Statement]) -> Iterator[Statement]:
    """The assignments among the statements, including those inside of microkernel calls."""
    for statement in statements:
        if isinstance(statement.body, MicrokernelCall):
            yield from _assignments(statement.body.inner)
        else:
            yield statement


def _nodes(value: Expr) -> Iterator[Expr]:
    """The operations of an expression and what they are done on, without what chooses elements."""
    yield value
    if isinstance(value, Gather):
        return
    for one in operands(value):
        yield from _nodes(one)


@dataclass(frozen=True, slots=True)
class Difference:
    """How far a result is from that of the original."""

    max_error: float
    """Max-norm of the difference; elements that are equal, or both the same infinity or NaN, count as 0."""
    worst: WorstError | None
    """The element farthest outside its bound; None when all are within."""


def difference(
    name: str, value: AnyArray, expected: AnyArray, magnitude: AnyArray | None, tolerance: float
) -> Difference:
    """Compare element by element: equal, both NaN, or |value − expected| <= tolerance · m.

    m is max(|expected|, magnitude) of the element, where `magnitude` bounds Σ|terms| from above; without `magnitude`
    it is the largest finite |expected| of the whole array. All arrays have the same shape; tolerance 0 is exact.
    """
    shape = expected.shape
    flat_value, flat_expected = value.reshape(-1), expected.reshape(-1)
    flat_magnitude = None if magnitude is None else magnitude.reshape(-1)
    largest = _largest(flat_expected) if magnitude is None and tolerance else 0.0
    max_error, worst_excess, worst = 0.0, 0.0, None
    for start in range(0, flat_expected.size, _CHUNK):
        part = slice(start, start + _CHUNK)
        got, want = flat_value[part], flat_expected[part]
        suspects = np.flatnonzero(~((got == want) | ((got != got) & (want != want))))
        if not suspects.size:
            continue
        got, want = got[suspects], want[suspects]
        with np.errstate(all="ignore"):
            error = np.abs(_wide(got) - _wide(want))
            scale = np.abs(_wide(want)) if flat_magnitude is None else np.abs(_wide(flat_magnitude[part][suspects]))
            scale = np.maximum(np.where(np.isfinite(scale), scale, 0), largest)
            bound = tolerance * np.maximum(scale, np.where(np.isfinite(want), np.abs(_wide(want)), 0))
            error = np.where(np.isfinite(error), error, np.inf)
            excess = np.where(error <= bound, -1.0, error - bound)
        max_error = max(max_error, float(error.max()))
        k = int(excess.argmax())
        if excess[k] >= 0 and (worst is None or excess[k] > worst_excess):
            worst_excess = float(excess[k])
            indices = tuple(int(i) for i in np.unravel_index(start + int(suspects[k]), shape))
            worst = WorstError(name, indices, got[k].item(), want[k].item(), float(bound[k]))
    return Difference(max_error, worst)


def _largest(values: AnyArray) -> float:
    """The largest finite magnitude."""
    largest = 0.0
    for start in range(0, values.size, _CHUNK):
        part = np.abs(_wide(values[start : start + _CHUNK]))
        largest = max(largest, float(np.max(part, initial=0, where=np.isfinite(part))))
    return largest


def _wide(values: AnyArray) -> npt.NDArray[Any]:
    """Values in a wider type, in which differences do not wrap around and next to nothing is rounded: that of float
    rounds by 2^-53 in double, which takes a tenth of the time of long double."""
    if values.dtype.kind == "c":
        return values.astype(np.complex128)
    return values.astype(np.float64 if values.dtype.itemsize <= 4 else np.longdouble)

"""Recognition of contractions from access relations: never from names, loop order or the shape of the text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import islpy as isl

from polydl.model.expr import Binary, Load
from polydl.model.isl import pieces, to_int
from polydl.model.scop import Access, Array, Assignment, Scop, Statement

ELEMENT_TYPES = ("float", "double")
"""Element types that the microkernel generator knows."""


@dataclass(frozen=True, slots=True)
class Operand:
    """One array of a contraction with its memory layout."""

    array: str
    access: int
    """Index into the statement's accesses."""
    strides: Mapping[str, int]
    """Elements between neighbours along each iterator (0: does not move)."""


@dataclass(frozen=True, slots=True)
class Contraction:
    """`C[…] op= left[…] * right[…]` with affine addresses: every iterator moves each operand by a fixed stride."""

    statement: str
    dtype: str
    """`float` or `double`."""
    output: Operand
    left: Operand
    right: Operand
    negate: bool
    """`C -= A * B`."""

    @property
    def reductions(self) -> tuple[str, ...]:
        """Iterators that do not move the output, in loop order."""
        return tuple(i for i, stride in self.output.strides.items() if stride == 0)

    def roles(self, columns: str) -> tuple[Operand, Operand] | None:
        """(A, B) when `columns` can be the vectorised loop: unit stride in C and B, absent from A. Else None."""
        for a, b in ((self.left, self.right), (self.right, self.left)):
            if self.output.strides[columns] == 1 and b.strides[columns] == 1 and a.strides[columns] == 0:
                return a, b
        return None

    def columns(self) -> tuple[str, ...]:
        """Loops that can be vectorised."""
        return tuple(i for i in self.output.strides if self.roles(i) is not None)

    def rows(self, columns: str) -> tuple[str, ...]:
        """Loops that can be the register block's rows beside `columns`: move C and A, not B."""
        operands = self.roles(columns)
        if operands is None:
            return ()
        a, b = operands
        return tuple(
            i for i in self.output.strides if self.output.strides[i] != 0 and a.strides[i] != 0 and b.strides[i] == 0
        )


def array_strides(array: Array) -> tuple[int, ...] | None:
    """Elements between neighbours along each dimension, row-major; None when an extent is not a known constant."""
    if array.is_scalar:
        return ()
    strides = [1]
    for extent in reversed(array.extents[1:]):
        value = extent.max_val() if extent is not None and extent.is_cst() else None
        if value is None or not value.is_int():
            return None
        strides.append(strides[-1] * to_int(value))
    return tuple(reversed(strides))


def affine_rows(statement: Statement, access: Access) -> list[tuple[dict[str, int], int]] | None:
    """Per array dimension, the integer coefficient of each iterator and the constant; None when a subscript is not
    one affine expression (a modulo, a case distinction, a parameter) or the access is not single-valued."""
    if not access.relation.is_single_valued():
        return None
    function = access.relation.as_pw_multi_aff()
    rows: list[tuple[dict[str, int], int]] = []
    for dim in range(function.dim(isl.dim_type.out)):
        affine = pieces(function.get_pw_aff(dim).gist(statement.domain))
        if len(affine) != 1:
            return None
        aff = affine[0][1]
        if aff.dim(isl.dim_type.div) != 0 or any(
            not aff.get_coefficient_val(isl.dim_type.param, i).is_zero() for i in range(aff.dim(isl.dim_type.param))
        ):
            return None
        values = [aff.get_coefficient_val(isl.dim_type.in_, d) for d in range(statement.depth)]
        if not all(v.is_int() for v in (*values, aff.get_constant_val())):
            return None
        coefficients = dict(zip(statement.iterators, map(to_int, values), strict=True))
        rows.append((coefficients, to_int(aff.get_constant_val())))
    return rows


def linear_strides(scop: Scop, statement: Statement, access: Access) -> dict[str, int] | None:
    """Elements by which each iterator moves the address of an access; None when that is not one constant."""
    strides = array_strides(scop.arrays[access.array])
    rows = affine_rows(statement, access)
    if strides is None or rows is None:
        return None
    return {
        name: sum(row[name] * stride for (row, _), stride in zip(rows, strides, strict=True))
        for name in statement.iterators
    }


def contraction(scop: Scop, statement: Statement) -> Contraction | None:
    """The contraction that a statement computes, or None when it computes something else.

    A dimension whose addresses need more than a fixed stride (a modulo, a condition) makes it something else too.
    """
    body = statement.body
    if not isinstance(body, Assignment) or body.op not in ("+=", "-="):
        return None
    match body.value:
        case Binary(op="*", left=Load(access=left), right=Load(access=right)):
            pass
        case _:
            return None
    accesses = statement.accesses
    used = [accesses[body.target], accesses[left], accesses[right]]
    types = {scop.arrays[a.array].ctype for a in used}
    if len(types) != 1 or not types <= set(ELEMENT_TYPES) or used[0].array in (used[1].array, used[2].array):
        return None
    operands = []
    for index, access in zip((body.target, left, right), used, strict=True):
        strides = linear_strides(scop, statement, access)
        if strides is None or scop.arrays[access.array].is_scalar:
            return None
        operands.append(Operand(access.array, index, strides))
    output, a, b = operands
    found = Contraction(statement.name, types.pop(), output, a, b, negate=body.op == "-=")
    return found if found.columns() else None

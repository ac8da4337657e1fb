"""Recognition of contractions from access relations: never from names, loop order or the shape of the text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

from polydl.model.combiners import adds
from polydl.model.conversions import explicit
from polydl.model.expr import Binary, Const, Convert, Expr, Load
from polydl.model.scop import Assignment, Scop, Statement
from polydl.model.strides import Stride, strides_of
from polydl.model.types import I32, U32, ElementType


@dataclass(frozen=True, slots=True)
class Operand:
    """One array of a contraction with its memory layout."""

    array: str
    element: ElementType
    access: int
    """Index into the statement's accesses."""
    strides: Mapping[str, Stride]
    """Elements between neighbours along each iterator (0: does not move)."""


@dataclass(frozen=True, slots=True)
class Contraction:
    """`C[…] op= left[…] * right[…]` with affine addresses: every iterator moves each operand by a fixed stride."""

    statement: str
    output: Operand
    """Of the type in which it is computed."""
    left: Operand
    right: Operand
    negate: bool
    """`C -= A * B`."""
    scale: tuple[Const | Load, ...] = ()
    """Factors that are the same for every iteration, literals and scalars: `C += alpha * A * B`."""

    @property
    def element(self) -> ElementType:
        """The type in which products and sums are computed."""
        return self.output.element

    @property
    def reductions(self) -> tuple[str, ...]:
        """Iterators that do not move the output, in loop order."""
        return tuple(i for i, stride in self.output.strides.items() if stride == 0)

    def roles(self, columns: str) -> tuple[Operand, Operand] | None:
        """(A, B) when `columns` can be the vectorised loop: unit stride in C, moves B, absent from A. Else None.

        With another stride than 1 in B, the microkernel needs a packed copy of B (`copied`).
        """
        for a, b in ((self.left, self.right), (self.right, self.left)):
            if self.output.strides[columns] == 1 and b.strides[columns] != 0 and a.strides[columns] == 0:
                return a, b
        return None

    @property
    def uniform(self) -> bool:
        """Whether both operands are of the type of the sum."""
        return self.left.element is self.right.element is self.element

    def copied(self, columns: str) -> tuple[str, ...]:
        """The operands, `A` and `B`, that a microkernel can read only from a copy with `columns` vectorised: those of
        another type than the sum, which a copy converts or interleaves, and B without neighbours along `columns`."""
        operands = self.roles(columns)
        if operands is None:
            return ()
        if not self.uniform:
            return ("A", "B")
        return () if operands[1].strides[columns] == 1 else ("B",)

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

    @property
    def in_blocks(self) -> bool:
        """Whether it has rows beside its columns, so that a microkernel keeps blocks of sums in registers. One without
        (a matrix times a vector) is as well off with a sum in a scalar."""
        return any(self.rows(columns) for columns in self.columns())


def contraction_at(found: Contraction, sized: Scop) -> Contraction:
    """The contraction of a program with parameters, in the same program at values of these."""

    def operand(one: Operand) -> Operand:
        layout = sized.arrays[one.array].layout
        strides = {i: s if isinstance(s, int) else layout.distance(s.moves) or 0 for i, s in one.strides.items()}
        return replace(one, strides=strides)

    return replace(found, output=operand(found.output), left=operand(found.left), right=operand(found.right))


class Lack(Enum):
    """What a statement has not that a contraction with a microkernel needs; the value says it to people."""

    DATA = "data decide what of it runs; --fast-math drops tests that skip products with zero"
    SUM = "it does not add to what is there"
    PRODUCT = "what it adds is no product of two array elements and of factors that stay the same"
    FACTOR = "a factor changes, or is of another type than the sum"
    ITSELF = "it reads the array that it adds to"
    SCALAR = "it adds to a scalar that does not end up in one array element as it is"
    ADDRESS = "a subscript is not one affine expression of the loops"
    COLUMNS = "no loop leads to the next element of the result and of just one factor"
    TYPES = "its products are not of the type of the sum"
    OPERANDS = "not every value of its factors is one of the type of the sum"
    ELEMENT = "there are no microkernels for its type"


@dataclass(frozen=True, slots=True)
class NoContraction:
    """Why a statement is no contraction, or one without a microkernel."""

    lack: Lack
    access: int | None = None
    """Index of the access that shows it, where one does."""


def _factors(value: Expr, *, modular: bool = False) -> list[Expr]:
    """The factors of a product, however it is parenthesised, without the conversions that change no value; `modular`:
    nor its value modulo 2^32."""
    match value:
        case Binary("*", left, right):
            return _factors(left, modular=modular) + _factors(right, modular=modular)
        case Convert(source, target, operand) if modular and source.is_int and target.is_int:
            return _factors(operand, modular=True) if value.exact or target.bits >= I32.bits else [value]
        case Convert(source, target, operand) if source is target or not isinstance(operand, Binary):
            # A literal is converted when it is compiled, as the argument of a microkernel is.
            literal = isinstance(operand, Const) and source.is_int
            return _factors(operand, modular=modular) if value.exact or literal else [value]
        case _:
            return [value]


def contraction(scop: Scop, statement: Statement, *, in_place: bool = False) -> Contraction | None:
    """The contraction that a statement computes, or None when it computes something else.

    Whether there is a microkernel for its element types is another question: see `target.isa.kernel_contraction`.
    A dimension whose addresses need more than a fixed stride (a modulo, a condition) makes it something else too.
    `in_place`: the operands may be other elements of the array that it adds to (as in a factorisation), where the
    caller sees to it that no operand changes while a microkernel runs.
    """
    found = judged(scop, statement, in_place=in_place)
    return found if isinstance(found, Contraction) else None


def judged(scop: Scop, statement: Statement, *, in_place: bool = False) -> Contraction | NoContraction:
    """What `contraction` finds, or the first thing that is missing."""
    body = statement.body
    if not isinstance(body, Assignment):
        return NoContraction(Lack.DATA)
    if not adds(body.op):
        return NoContraction(Lack.SUM)
    accesses = statement.accesses
    output_type = scop.arrays[accesses[body.target].array].element
    value, product_type = explicit(body.value, lambda access: scop.arrays[accesses[access].array].element)
    # Added to a signed number in the arithmetic of unsigned ones: microkernels do just that.
    modular = (product_type, output_type) == (U32, I32)
    if product_type is not output_type and not modular:
        # rounded on the way, or computed in more digits than are kept
        return NoContraction(Lack.TYPES, body.target)
    factors = _factors(value, modular=modular)
    moving = [f.access for f in factors if isinstance(f, Load) and not scop.arrays[accesses[f.access].array].is_scalar]
    scale = tuple(f for f in factors if not isinstance(f, Load) or f.access not in moving)
    if len(moving) != 2:
        return NoContraction(Lack.PRODUCT)
    written = {a.array for s in scop.statements for a in s.accesses if a.write}
    left, right = moving
    used = [accesses[body.target], accesses[left], accesses[right]]
    constant = tuple(f for f in scale if isinstance(f, Const | Load))
    if len(constant) != len(scale):
        return NoContraction(Lack.PRODUCT)
    for f in constant:
        if isinstance(f, Load) and (
            accesses[f.access].array in written or scop.arrays[accesses[f.access].array].element is not output_type
        ):
            return NoContraction(Lack.FACTOR, f.access)
    for access in (left, right):
        if not in_place and accesses[access].array == used[0].array:
            return NoContraction(Lack.ITSELF, access)
    if scop.arrays[used[0].array].is_scalar:
        fits = all(output_type.holds(scop.arrays[accesses[access].array].element) for access in moving)
        return NoContraction(Lack.SCALAR if fits else Lack.OPERANDS, body.target)
    operands = []
    for index, one in zip((body.target, left, right), used, strict=True):
        strides = strides_of(scop, statement, one)
        if strides is None:
            return NoContraction(Lack.ADDRESS, index)
        operands.append(Operand(one.array, scop.arrays[one.array].element, index, strides))
    output, a, b = operands
    found = Contraction(statement.name, output, a, b, negate=body.op == "-=", scale=constant)
    return found if found.columns() else NoContraction(Lack.COLUMNS, body.target)

"""Recognition of contractions from access relations: never from names, loop order or the shape of the text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from enum import Enum

from polydl.base.by_identity import once_for_each
from polydl.base.records import dataclass
from polydl.model import isl
from polydl.model.bf16_words import bf16_word
from polydl.model.combiners import adds, subtracts
from polydl.model.conversions import explicit
from polydl.model.expr import Binary, Call, Conditional, Const, Convert, Expr, Load, Unary, loads, on_operands
from polydl.model.functions import function_of
from polydl.model.scop import Assignment, BlackBox, Scop, Segment, Statement
from polydl.model.strides import Stride, strides_of
from polydl.model.types import BF16_WORDS, F32, F64, I32, U32, ElementType, float_literal


@dataclass(frozen=True, slots=True)
class Operand:
    """One array of a contraction with its memory layout."""

    array: str
    element: ElementType
    access: int
    """Index into the statement's accesses."""
    strides: Mapping[str, Stride]
    """Elements between neighbours along each iterator (0: does not move)."""


WINDOWS = (1, 2)
"""Elements between neighbours that a vector of an image under a window is read of (`Contraction.windows`)."""

LEFT, RIGHT, OLD = Load(0), Load(1), Load(2)
"""What a step is made of (`Contraction.step`): the elements of the operands, and what was in the output before."""


@dataclass(frozen=True, slots=True)
class Within:
    """A reduction that runs within an instance of a statement which is kept as it is written (`scop.Segment`)."""

    iterator: str
    """Of the statement that says what is accumulated."""
    extent: int | None
    """Iterations; None: those of the segment."""
    left: Stride
    right: Stride
    left_table: str = ""
    """The array of integers whose entries say by how many strides the operand moves; empty: the iteration does."""
    right_table: str = ""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Contraction:
    """`C[…] = step(left[…], right[…], C[…])` with affine addresses: every iterator moves each operand by a fixed
    stride. The step is `C += left * right` where nothing else is said; it may be any expression, as those of products
    of the (min, +) semiring, of distances, and of windows (pooling, depthwise convolutions)."""

    statement: str
    output: Operand
    """Of the type in which it is computed."""
    left: Operand
    right: Operand
    negate: bool
    """`C -= A * B`."""
    scale: tuple[Const | Load, ...] = ()
    """Factors that are the same for every iteration, literals and scalars: `C += alpha * A * B`."""
    step: Expr | None = None
    """What the element of the output becomes, of `LEFT`, `RIGHT`, `OLD` and literals; None: `scale` times the product
    is added to it, or taken away."""
    within: tuple[Within, ...] = ()
    """Reductions that are no loops of the statement, outermost first: the first of them runs through a segment. The
    accesses of the operands are those of the segment's sum then."""

    @property
    def alone(self) -> bool:
        """Whether there is one operand only, which stands for both."""
        return self.left.access == self.right.access

    @property
    def element(self) -> ElementType:
        """The type in which products and sums are computed."""
        return self.output.element

    @property
    def reductions(self) -> tuple[str, ...]:
        """Iterators that do not move the output, in loop order."""
        return tuple(i for i, stride in self.output.strides.items() if stride == 0)

    def roles(self, columns: str) -> tuple[Operand, Operand] | None:
        """(A, B) when `columns` can be the vectorised loop: unit stride in C and in what is read in vectors; else None.

        A moves along the rows of a block and B does not, so that an element of B, or a vector, is used in each of them.
        Where only B moves along the columns, the elements of A are broadcast; with another stride than 1 in B, the
        microkernel needs a packed copy of B then (`copied`). Else A is read in vectors, too (`windows`).
        """
        return _roles_of(self)[columns]

    def windows(self, columns: str) -> int:
        """By how many elements A moves along `columns`, as the image of a window that slides over it does: it is read
        in vectors then. One of `WINDOWS`; 0: it does not move."""
        operands = self.roles(columns)
        stride = 0 if operands is None else operands[0].strides[columns]
        return stride if isinstance(stride, int) else 0

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
        if not self.uniform and not self.within:  # which data choose, kernels read where it is
            return ("A", "B")
        return () if operands[1].strides[columns] == 1 or self.windows(columns) else ("B",)

    def columns(self) -> tuple[str, ...]:
        """Loops that can be vectorised."""
        return tuple(i for i in self.output.strides if self.roles(i) is not None)

    def rows(self, columns: str) -> tuple[str, ...]:
        """Loops that can be the register block's rows beside `columns`: move C and A, not B."""
        operands = self.roles(columns)
        return () if operands is None else _rows(self, *operands, columns)

    @property
    def in_blocks(self) -> bool:
        """Whether it has rows beside its columns, so that a microkernel keeps blocks of sums in registers. One without
        (a matrix times a vector) is as well off with a sum in a scalar."""
        return any(self.rows(columns) for columns in self.columns())


@once_for_each
def _roles_of(found: Contraction) -> Mapping[str, tuple[Operand, Operand] | None]:
    """`Contraction.roles` by iterator: a search asks for them a million times."""
    return {columns: _roles(found, columns) for columns in found.output.strides}


def _roles(found: Contraction, columns: str) -> tuple[Operand, Operand] | None:
    pairs = ((found.left, found.right), (found.right, found.left))
    if found.output.strides[columns] != 1:
        return None
    shared = [(a, b) for a, b in pairs if b.strides[columns] != 0 and a.strides[columns] == 0]
    windows = [(a, b) for a, b in pairs if _is_window(found, a, b, columns)]
    possible = [(a, b) for a, b in (*shared, *windows) if _rows(found, a, b, columns)]
    rowless = (*shared, *windows) if found.within else shared if found.step is None else ()
    return next(iter((*possible, *rowless)), None)


def _is_window(found: Contraction, a: Operand, b: Operand, columns: str) -> bool:
    plain = found.uniform and found.element in (F32, F64) and bool(found.reductions or found.within)
    # An operand that stands for both is read as A only.
    return plain and a.strides[columns] in WINDOWS and (found.alone or b.strides[columns] in (0, 1))


def _rows(found: Contraction, a: Operand, b: Operand, columns: str) -> tuple[str, ...]:
    moving = [i for i, stride in found.output.strides.items() if stride != 0 and a.strides[i] != 0 and i != columns]
    return tuple(i for i in moving if b.strides[i] == 0 or found.alone)


def first_element(statement: Statement, access: int) -> isl.Map:
    """{ S[i…] -> A[a…] } what an instance reads or writes by an access of a contraction: within a segment, in the first
    iteration of its loops and for an entry, or an element of a table, that is 0."""
    body = statement.body
    if not isinstance(body, BlackBox) or body.segment is None:
        return statement.accesses[access].relation
    inner = body.segment.sum
    domain = inner.domain
    for iterator in inner.iterators[statement.depth :]:
        low = isl.least(domain, iterator)
        assert low is not None, "it has iterations (`iterations`)"
        domain = isl.fix(domain, iterator, low)
    relation = isl.domain_onto(inner.accesses[access].relation.intersect_domain(domain), range(statement.depth))
    return isl.domain_named(relation, statement.name, statement.iterators)


def contraction_at(found: Contraction, sized: Scop) -> Contraction:
    """The contraction of a program with parameters, in the same program at values of these."""

    def operand(one: Operand) -> Operand:
        layout = sized.arrays[one.array].layout
        strides = {i: s if isinstance(s, int) else layout.distance(s.moves) or 0 for i, s in one.strides.items()}
        return replace(one, strides=strides)

    def within(one: Within) -> Within:
        left, right = (
            s if isinstance(s, int) else sized.arrays[of.array].layout.distance(s.moves) or 0
            for of, s in ((found.left, one.left), (found.right, one.right))
        )
        return replace(one, left=left, right=right)

    return replace(
        found,
        output=operand(found.output),
        left=operand(found.left),
        right=operand(found.right),
        within=tuple(map(within, found.within)),
    )


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


def product_factors(value: Expr, *, modular: bool = False) -> list[Expr]:
    """The factors of a product, however it is parenthesised, without the conversions that change no value; `modular`:
    nor its value modulo 2^32."""
    match value:
        case Binary("*", left, right):
            return product_factors(left, modular=modular) + product_factors(right, modular=modular)
        case Convert(source, target, operand) if modular and source.is_int and target.is_int:
            return product_factors(operand, modular=True) if value.exact or target.bits >= I32.bits else [value]
        case Convert(source, target, operand) if source is target or not isinstance(operand, Binary):
            # A literal is converted when it is compiled, as the argument of a microkernel is.
            literal = isinstance(operand, Const) and source.is_int
            return product_factors(operand, modular=modular) if value.exact or literal else [value]
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
    if isinstance(statement.body, BlackBox) and statement.body.segment is not None:
        return _over_segment(scop, statement, statement.body, statement.body.segment)
    found = _product(scop, statement, in_place=in_place)
    if isinstance(found, Contraction) and found.in_blocks:
        return found
    stepped = _stepped(scop, statement)
    return found if stepped is None or not stepped.in_blocks else stepped


def _over_segment(scop: Scop, statement: Statement, body: BlackBox, segment: Segment) -> Contraction | NoContraction:
    """The sum of products over a segment, where it may be made in registers first, or steps in the order of its
    entries, with the loops around the segment for its own."""
    if not _says(statement, segment):
        return NoContraction(Lack.DATA)
    product = _product(scop, segment.sum, in_place=False) if body.regroups else NoContraction(Lack.SUM)
    found = product if isinstance(product, Contraction) else _stepped(scop, segment.sum)
    if found is not None and BF16_WORDS in (found.left.element, found.right.element):
        return NoContraction(Lack.OPERANDS)  # kernels read them where they are, as C does
    if found is None:
        assert isinstance(product, NoContraction), "there is no other"
        return NoContraction(product.lack)
    loops = [i for i in segment.sum.iterators if i not in (*statement.iterators, *segment.tables)]
    extents = {i: iterations(segment.sum, i) for i in loops[1:]}
    if found.scale or any(extent is None for extent in extents.values()):
        return NoContraction(Lack.PRODUCT)
    left_table, right_table = (_table(one, segment) for one in (found.left, found.right))
    if left_table is None or right_table is None:
        return NoContraction(Lack.ADDRESS)
    first = Within(
        segment.entry,
        None,
        found.left.strides[left_table or segment.entry],
        found.right.strides[right_table or segment.entry],
        segment.tables.get(left_table, ""),
        segment.tables.get(right_table, ""),
    )
    rest = (Within(i, extents[i], found.left.strides[i], found.right.strides[i]) for i in loops[1:])
    output, left, right = (
        replace(one, strides={i: one.strides[i] for i in statement.iterators})
        for one in (found.output, found.left, found.right)
    )
    made = replace(found, statement=statement.name, output=output, left=left, right=right, within=(first, *rest))
    return made if made.columns() else NoContraction(Lack.COLUMNS)


def _says(statement: Statement, segment: Segment) -> bool:
    """Whether a statement still touches the elements that its segment's sum does: rewrites may have changed it since it
    was read, and the sum not."""
    return says_all(statement, segment, range(len(segment.sum.accesses)))


def says_all(statement: Statement, segment: Segment, accesses: Iterable[int]) -> bool:
    """Whether a statement still touches the elements that some accesses of its segment's sum do."""
    inner, depth = segment.sum, statement.depth
    if inner.iterators[:depth] != statement.iterators:
        return False
    domain = inner.domain
    for iterator in (segment.entry, *segment.tables):
        domain = isl.fix(domain, iterator, 0)
    for access in (inner.accesses[number] for number in accesses):
        own = isl.domain_onto(access.relation.intersect_domain(domain), range(depth))
        own = isl.domain_named(own, statement.name, statement.iterators)
        known = [a.relation for a in statement.accesses if (a.array, a.write) == (access.array, access.write)]
        if not any(own.is_subset(one) for one in known) or (access.write and not own.is_equal(known[0])):
            return False
    return True


def iterations(statement: Statement, iterator: str) -> int | None:
    """How often a loop runs, the same in all iterations of the loops around it; None for another one."""
    low, high = isl.least(statement.domain, iterator), isl.greatest(statement.domain, iterator)
    if low is None or high is None or not isl.is_apart(statement.domain, iterator):
        return None
    return high - low + 1


def _table(operand: Operand, segment: Segment) -> str | None:
    """The iterator that stands for the entry of a table by which an operand moves; empty where the number of the entry
    moves it, or nothing does; None where there is more than one of these."""
    moving = [i for i in (segment.entry, *segment.tables) if operand.strides[i] != 0]
    if len(moving) > 1:
        return None
    return "" if not moving or moving[0] == segment.entry else moving[0]


def _product(scop: Scop, statement: Statement, *, in_place: bool) -> Contraction | NoContraction:
    """The sum of products that a statement adds to its element."""
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
    found_factors = product_factors(value, modular=modular)
    words = {word.access for f in found_factors if (word := bf16_word(scop, statement, f)) is not None}
    factors = [bf16_word(scop, statement, f) or f for f in found_factors]
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
        element = BF16_WORDS if index in words else scop.arrays[one.array].element
        operands.append(Operand(one.array, element, index, strides))
    output, a, b = operands
    found = Contraction(statement.name, output, a, b, negate=subtracts(body.op), scale=constant)
    return found if found.columns() else NoContraction(Lack.COLUMNS, body.target)


def _stepped(scop: Scop, statement: Statement) -> Contraction | None:
    """Any other way in which a statement makes its element anew in loops that do not move it, of that element and of at
    most two others; None where there is none.

    In these loops it reads more than one element of another array, perhaps each of them several times. All is of one
    type, so that a vector holds what C computes; where that is not associative, the dependences keep the order of the
    loops.
    """
    body, accesses = statement.body, statement.accesses
    if not isinstance(body, Assignment):
        return None
    target = accesses[body.target]
    element, read = scop.arrays[target.array].element, loads(body.value)
    if (
        element not in (F32, F64)
        or scop.arrays[target.array].is_scalar
        or any(scop.arrays[accesses[i].array].element is not element for i in read)
        or not in_lanes(body.value, element)
    ):
        return None
    output = strides_of(scop, statement, target)
    if output is None or all(stride != 0 for stride in output.values()):
        return None
    own = {i for i, a in enumerate(accesses) if a.array == target.array}
    groups = _same_elements(statement, [i for i in read if i not in own])
    if (
        not 1 <= len(groups) <= 2
        or any(scop.arrays[accesses[group[0]].array].is_scalar for group in groups)
        or not all(bool(accesses[i].relation.is_equal(target.relation)) for i in own)
    ):
        return None
    place = dict.fromkeys(own, OLD) | {i: (LEFT, RIGHT)[n] for n, group in enumerate(groups) for i in group}
    step = _placed(body.value, place)
    if body.op != "=":
        step = Binary(body.op[:-1], OLD, step)
    operands = []
    for index in (groups[0][0], groups[-1][0]):
        strides = strides_of(scop, statement, accesses[index])
        if strides is None:
            return None
        operands.append(Operand(accesses[index].array, element, index, strides))
    left, right = operands
    again = [loop for loop, stride in output.items() if stride == 0]
    if not any(one.strides[loop] != 0 for one in operands for loop in again):
        return None
    made = Operand(target.array, element, body.target, output)
    found = Contraction(statement.name, made, left, right, negate=False, step=step)
    return found if OLD.access in loads(step) else None


def _same_elements(statement: Statement, of: Sequence[int]) -> list[list[int]]:
    """Indices of accesses in groups that touch the same elements."""
    groups: list[list[int]] = []
    for index in dict.fromkeys(of):
        one = statement.accesses[index]
        for group in groups:
            other = statement.accesses[group[0]]
            if one.array == other.array and bool(one.relation.is_equal(other.relation)):
                group.append(index)
                break
        else:
            groups.append([index])
    return groups


def in_lanes(value: Expr, element: ElementType) -> bool:
    """Whether an expression is a few instructions on vectors of a type, so that it can stand in an inner loop."""
    match value:
        case Load():
            return True
        case Const(text):
            literal = float_literal(text)
            return literal is None or element.holds(literal)
        case Unary("+" | "-", operand) | Convert(_, _, operand):
            return (isinstance(value, Unary) or value.target is element) and in_lanes(operand, element)
        case Binary("+" | "-" | "*", left, right):
            return in_lanes(left, element) and in_lanes(right, element)
        case Call(name, arguments):
            row = function_of(name)
            quick = row is not None and row.of(element) == name and row.cheap and row.vector is not None
            return quick and all(in_lanes(one, element) for one in arguments)
        case Conditional(condition, then, otherwise):
            return _decides(condition, element) and in_lanes(then, element) and in_lanes(otherwise, element)
        case _:
            return False


def _decides(condition: Expr, element: ElementType) -> bool:
    match condition:
        case Binary("<" | "<=" | ">" | ">=" | "==" | "!=", left, right):
            return in_lanes(left, element) and in_lanes(right, element)
        case Binary("&&" | "||", left, right):
            return _decides(left, element) and _decides(right, element)
        case Unary("!", operand):
            return _decides(operand, element)
        case _:
            return False


def _placed(value: Expr, place: Mapping[int, Load]) -> Expr:
    """The expression with what an access stands for in place of it."""
    return place[value.access] if isinstance(value, Load) else on_operands(value, lambda one: _placed(one, place))

"""Factors of another type than their sum, copied into its type first: then the products are a plain contraction.

    double s = 0;  for k: s += (double)A[i][k] * B[k][j];

Each element is converted once instead of once for each product that it is in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from polydl.base.records import dataclass
from polydl.equations.step import RegroupingRule, Step, one_by_one
from polydl.model import isl
from polydl.model.combiners import adds
from polydl.model.conversions import explicit
from polydl.model.expr import Const, Convert, Expr, Load, factors_of, loads, on_operands
from polydl.model.isl import quota
from polydl.model.scop import Access, Assignment, Scop, Statement
from polydl.rewrite.contract import PREFIX
from polydl.rewrite.cut import in_order
from polydl.rewrite.new_statements import assignment
from polydl.rewrite.scratch_array import Box, box_of, element_of, free_name, has_room, scratch_array
from polydl.target.isa import VECTOR_TYPES, has_register_blocks, kernel_contraction
from polydl.target.products import inner_product


@dataclass(frozen=True, slots=True)
class Widened(RegroupingRule):
    """The factors of a sum of products are copied into the type of the sum before the loops around it.

    before:    for i: for j: for k: s[i][j] += (double)A[i][k] * B[k][j]
    after:     W[i][k] = A[i][k] for all;  V[k][j] = B[k][j] for all;  for i: for j: for k: s[i][j] += W[i][k] * V[k][j]
    requires:  leave to reassociate, for where a product is of a narrower type than the sum it is not rounded to that
               any more; nothing in the outermost loop around the sum writes what is copied
    """

    statement: str
    copies: tuple[tuple[str, str, str], ...]
    """(array, its copy, the statement that copies)."""

    def __str__(self) -> str:
        names = ", ".join(array for array, _, _ in self.copies)
        return f"{self.statement} reads {names} converted to the type of its sum beforehand"


def widen(scop: Scop) -> Iterator[Step]:
    """Copy the factors of every sum that becomes a contraction in blocks of registers by it (`Widened`), but for those
    that an instruction multiplies as they are.

    Changes how products are rounded. Raises QuotaExceeded.
    """
    names = [s.name for s in scop.statements if not _in_words(scop, s)]
    yield from one_by_one(scop, names, _step)


def _in_words(scop: Scop, statement: Statement) -> bool:
    """Whether there is an inner product for groups of the factors of a sum."""
    found = kernel_contraction(scop, statement)
    product = None if found is None else inner_product(found)
    return product is not None and product.in_words


def _step(scop: Scop, name: str) -> Step | None:
    statement = scop.statement(name)
    body = statement.body
    if not isinstance(body, Assignment) or not adds(body.op):
        return None
    element = scop.arrays[statement.target.array].element
    read = [scop.arrays[statement.accesses[i].array] for i in loads(body.value)]
    other = list(dict.fromkeys(a.name for a in read if a.element is not element and not a.is_scalar))
    if not other or element not in VECTOR_TYPES or not _is_product(body.value):
        return None
    copies = tuple(
        (array, free_name(scop, f"{PREFIX}{array}_{statement.name}"), f"{statement.name}w{number}")
        for number, array in enumerate(other)
    )
    with quota(f"the copies that {statement.name} reads"):
        made = _made(scop, statement, copies)
    if made is None or not has_register_blocks(made, made.statement(name)):
        return None
    return Step(Widened(name, copies), scop, made)


def _made(scop: Scop, statement: Statement, copies: Sequence[tuple[str, str, str]]) -> Scop | None:
    """The program after `Widened`; None where it is not known how much is copied, or that is a lot."""
    body = statement.body
    assert isinstance(body, Assignment)
    element = scop.arrays[statement.target.array].element
    value, _ = explicit(body.value, lambda i: scop.arrays[statement.accesses[i].array].element)
    room, statements = len(copies) + 1, list[Statement]()
    arrays, places, boxes = dict(scop.arrays), dict[str, isl.Map](), list[Box]()
    for number, (array, copy, name) in enumerate(copies):
        reading = [a for a in statement.accesses if a.array == array]
        elements = isl.united(a.relation.intersect_domain(statement.domain).range() for a in reading)
        assert elements is not None, "it is read"
        elements = elements.coalesce()
        box = box_of(elements)
        if box is None or any(a.write or not a.exact for a in reading):
            return None
        boxes.append(box)
        arrays[copy] = scratch_array(copy, element, box)
        places[array] = element_of(elements, copy, box)
        itself = isl.Map.identity(elements.get_space().map_from_set()).intersect_domain(elements)
        loops = [f"e{dim}" for dim in range(isl.arity(elements))], elements
        position = (room * statement.position[0] + number, *[0] * isl.arity(elements))
        converted = Convert(scop.arrays[array].element, element, Load(0))
        statements.append(assignment(statement, name, loops, position, [itself, places[array]], converted))
    if not has_room(scop, boxes):
        return None
    for s in scop.statements:
        new = _reading(s, places, value) if s is statement else s
        statements.append(replace(new, position=(room * s.position[0] + len(copies), *s.position[1:])))
    return replace(in_order(scop, statements), arrays=arrays)


def _is_product(value: Expr) -> bool:
    """Whether a value is a product of elements and literals. Whether the factors may be converted first is for the
    check to say."""
    return all(isinstance(one, Load | Const) for one in factors_of(value, lambda _: True))


def _reading(statement: Statement, places: Mapping[str, isl.Map], value: Expr) -> Statement:
    """The statement with copies in place of arrays."""

    def factors(one: Expr) -> Expr:
        if isinstance(one, Convert) and loads(one):
            return factors(one.operand)
        return on_operands(one, factors)

    def read(access: Access) -> Access:
        place = places.get(access.array)
        if place is None:
            return access
        return replace(access, array=isl.range_name(place), relation=access.relation.apply_range(place))

    assert isinstance(statement.body, Assignment)
    return replace(
        statement, accesses=tuple(map(read, statement.accesses)), body=replace(statement.body, value=factors(value))
    )

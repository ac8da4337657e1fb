"""Nests of a program that are equal up to the names of their statements and arrays, and to numbers such as 0.3 that
they multiply by and add: they are searched once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest

from polydl.dependences.nests import Nest
from polydl.dependences.scalars import private_storage, users
from polydl.model import isl
from polydl.model.expr import Binary, Const, Expr, affine_values, on_operands
from polydl.model.isl import quota
from polydl.model.scop import Assignment, Scop, Statement, Storage
from polydl.model.types import literal_value

_STATEMENT, _ARRAY = "statement", "array"


def arrays_of(nest: Nest) -> tuple[str, ...]:
    """The arrays and scalars of a nest in the order of their first access."""
    return tuple(dict.fromkeys(access.array for statement in nest.statements for access in statement.accesses))


def first_equal(scop: Scop, nests: Sequence[Nest]) -> Mapping[str, Nest]:
    """By the name of each nest the first one that is equal to it: the same loops by name, domains, access relations,
    operations, and types, sizes and layouts of arrays, in the order of `arrays_of`; temporaries of a nest are
    temporaries of the other. Numbers that are no whole ones may
    differ where they are added or multiplied by, which takes as long with any of them; where one stands in two places
    of a statement, it does in both. Raises QuotaExceeded."""
    found: dict[str, Nest] = {}
    with quota(f"which nests of {scop.function} are equal"):
        for nest in nests:
            known = list({one.name: one for one in found.values()}.values())
            found[nest.name] = next((one for one in known if _equal(scop, one, nest)), nest)
    return found


def _equal(scop: Scop, one: Nest, other: Nest) -> bool:
    if one.loops != other.loops or one.box != other.box or len(one.statements) != len(other.statements):
        return False
    mine, others = arrays_of(one), arrays_of(other)
    if len(mine) != len(others) or one.counts != other.counts:
        return False
    arrays = (_alike(scop, (one, a), (other, b)) for a, b in zip(mine, others, strict=True))
    places = dict(zip(mine, others, strict=True))
    return all(arrays) and all(_same(s, t, places) for s, t in zip(one.statements, other.statements, strict=True))


def _alike(scop: Scop, one: tuple[Nest, str], other: tuple[Nest, str]) -> bool:
    """Whether the arrays of two nests have the same type, size and layout, and are both temporaries or neither is."""
    a, b = (scop.arrays[name] for _, name in (one, other))
    if a.rows is not None or a.members is not None:
        return False
    same = [(x.element, x.linear, x.behind, x.rows, x.members, x.layout) for x in (a, b)]
    extents = zip_longest(a.extents, b.extents)
    return (
        same[0] == same[1]
        and _temporary(scop, *one) == _temporary(scop, *other)
        and all(x is y or (x is not None and y is not None and x.is_equal(y)) for x, y in extents)
    )


def _temporary(scop: Scop, nest: Nest, name: str) -> tuple[int | None, Storage | None]:
    """The loops to one iteration of which an array is private, and where it lies that nobody but the nest knows; None:
    others know it, wherever it lies."""
    array = scop.arrays[name]
    own = array.storage is Storage.REGION or (
        array.storage in (Storage.SCRATCH, Storage.LOCAL) and name not in scop.live_out
    )
    inside = own and {s.name for s in users(scop, name)} <= {s.name for s in nest.statements}
    return private_storage(scop).get(name), array.storage if inside else None


def _same(one: Statement, other: Statement, places: Mapping[str, str]) -> bool:
    """Whether two statements compute the same, the arrays of the second in the places of the first's."""
    a, b = one.body, other.body
    if not isinstance(a, Assignment) or affine_values(a.value):
        return False  # functions of the iterators name their statement
    if not isinstance(b, Assignment) or replace(a, value=_numbered(a.value)) != replace(b, value=_numbered(b.value)):
        return False
    if (one.iterators, one.descending) != (other.iterators, other.descending):
        return False
    if len(one.accesses) != len(other.accesses) or _relative(one) != _relative(other):
        return False
    if not one.domain.set_tuple_name(_STATEMENT).is_equal(other.domain.set_tuple_name(_STATEMENT)):
        return False
    pairs = list(zip(one.accesses, other.accesses, strict=True))
    if any((x.write, x.exact, places[x.array]) != (y.write, y.exact, y.array) for x, y in pairs):
        return False
    return all(_renamed(x.relation).is_equal(_renamed(y.relation)) for x, y in pairs)


def _numbered(value: Expr) -> Expr:
    """An expression with numbers in place of its factors and terms that are no whole numbers, in their order."""
    known: dict[str, Const] = {}

    def one(at: Expr, *, free: bool) -> Expr:
        if isinstance(at, Const):
            number = literal_value(at.text)
            if not free or number is None or number == int(number):
                return at
            return known.setdefault(at.text, Const(f"{len(known)}{at.text.lstrip('0123456789.eE+-')}"))
        below = isinstance(at, Binary) and at.op in ("+", "-", "*")
        return on_operands(at, lambda operand: one(operand, free=below))

    return one(value, free=False)


def _relative(statement: Statement) -> tuple[int, ...]:
    """The position inside of the outermost loop."""
    return statement.position[1:]


def _renamed(relation: isl.Map) -> isl.Map:
    return isl.range_named(isl.domain_named(relation, _STATEMENT), _ARRAY)

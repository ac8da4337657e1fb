"""The products that a sum of quantised numbers adds, of factors that change while it is added up and of others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from polydl.dependences.scalars import private_depth
from polydl.model import isl
from polydl.model.combiners import adds
from polydl.model.scop import Access, Assignment, Scop, Statement
from polydl.model.strides import strides_of
from polydl.model.types import I32, ElementType
from polydl.rewrite.modular import Products, products
from polydl.rewrite.scratch_array import box_of, is_box


@dataclass(frozen=True, slots=True)
class Split:
    """The products that a statement adds."""

    outer: int
    """How many of its loops are around the whole sum that an element gets, from outside: those that lead to another
    element, up to the first one that adds up."""
    kept: tuple[str, ...]
    """Iterators that lead to another element."""
    main: tuple[int, ...]
    """Accesses of the one product that two factors change in while it is added up."""
    number: int
    """Before it."""
    single: Mapping[tuple[int, tuple[str, ...]], Products]
    """By the access of a factor that changes, and the iterators of `kept` that lead to others of its sums, what that
    sum is multiplied by: products of what stays the same."""
    fixed: Products
    """Products in which nothing changes."""
    times: tuple[isl.PwAff, ...]
    """{ [parameters] -> [n] }: their product is how often each is added to one element."""


def held_type(scop: Scop, statement: Statement, access: int) -> ElementType:
    return scop.arrays[statement.accesses[access].array].element


def element_of_sum(scop: Scop, statement: Statement) -> ElementType | None:
    body = statement.body
    return held_type(scop, statement, body.target) if isinstance(body, Assignment) else None


def split_of(scop: Scop, statement: Statement) -> Split | str:
    """The products that a statement adds, or why they are not those of a sum with zero points."""
    body, name = statement.body, statement.name
    if not isinstance(body, Assignment) or not adds(body.op) or element_of_sum(scop, statement) is not I32:
        return f"{name} does not add integers of 32 bits"
    found = products(body.value, lambda i: held_type(scop, statement, i))
    if found is None or len(found) < 2:
        return f"{name} adds no sum of products"
    target = statement.target
    if any(
        a.array == target.array for i, a in enumerate(statement.accesses) if i not in (body.target, body.target_read)
    ):
        return f"{name} reads {target.array}, to which it adds"
    if not is_box(statement):
        return f"the loops around {name} are no box, so a zero point counts for some sums more than others"
    kept = kept_iterators(scop, statement, target)
    if kept is None:
        return f"which element {name} adds to is no affine function of its loops"
    reduced = [i for i in statement.iterators if i not in kept]
    moves: dict[int, set[str]] = {}
    for access in {i for factors in found for i in factors}:
        strides = strides_of(scop, statement, statement.accesses[access])
        if strides is None:
            return f"what {name} reads of {statement.accesses[access].array} is no affine function of its loops"
        moves[access] = {i for i, stride in strides.items() if stride != 0}
    main: list[tuple[int, ...]] = []
    single: dict[tuple[int, tuple[str, ...]], dict[tuple[int, ...], int]] = {}
    fixed: dict[tuple[int, ...], int] = {}
    for factors, number in found.items():
        moving = [i for i in factors if moves[i] & {*reduced}]
        if len(moving) > 1:
            main.append(factors)
        elif not moving:
            fixed[factors] = number
        else:
            (access,) = moving
            own = tuple(i for i in kept if i in moves[access])
            if not own:
                return f"{statement.accesses[access].array} is the same for all sums of {name}"
            single.setdefault((access, own), {})[tuple(i for i in factors if i != access)] = number
    if len(main) != 1:
        return f"{name} adds {len(main)} products of two factors that change, not one"
    if not reduced:
        return f"{name} adds to each element once"
    outer = next(d for d, i in enumerate(statement.iterators) if i in reduced)
    box = box_of(isl.project_onto(statement.domain, reduced))
    assert box is not None  # says `is_box`
    signed = -1 if body.op == "-=" else 1
    return Split(
        outer, tuple(kept), main[0], signed * found[main[0]],
        {key: {f: signed * n for f, n in own.items()} for key, own in single.items()},
        {f: signed * n for f, n in fixed.items()}, box.extents,
    )  # fmt: skip


def kept_iterators(scop: Scop, statement: Statement, target: Access) -> list[str] | None:
    """The iterators that lead to another element, or value of a private scalar; None where that is not known."""
    if scop.arrays[target.array].is_scalar:
        depth = private_depth(scop, target.array)
        return None if depth is None else list(statement.iterators[:depth])
    strides = strides_of(scop, statement, target)
    if strides is None or not target.exact:
        return None
    kept = [i for i in statement.iterators if strides[i] != 0]
    onto = isl.domain_onto(target.relation.intersect_domain(statement.domain), kept)
    return kept if onto.is_injective() else None

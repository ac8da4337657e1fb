"""Sums of products of quantised numbers: the zero points come out of the sum.

    for k: s += (A[i][k] - za) * (B[k][j] - zb);

is, modulo 2^32, `s += A[i][k] * B[k][j]` with `s -= zb * (sum of A[i][…]) + za * (sum of B[…][j]) - K * za * zb` once
(gemmlowp, "Low-precision matrix multiplication", docs/low-precision.md; Jacob et al., "Quantization and Training of
Neural Networks for Efficient Integer-Arithmetic-Only Inference", CVPR 2018, eq. 7). What is left is a contraction of
the bytes as they are, for which there are instructions, where `A[i][k] - za` needs nine bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce

from polydl.base.records import dataclass
from polydl.dependences.scalars import private_depth, private_scalars, users
from polydl.equations.step import Step, applied, one_by_one
from polydl.equations.substitution import Rebuilt
from polydl.model import isl
from polydl.model.accumulation import addition
from polydl.model.conversions import converted, explicit
from polydl.model.expr import AffineValue, Binary, Const, Convert, Expr, Load, constant_number, is_zero
from polydl.model.isl import quota
from polydl.model.scop import Access, Assignment, Scop, Statement
from polydl.model.time import common_depth, map_from_affs
from polydl.model.types import I32, U32
from polydl.rewrite.contract import PREFIX
from polydl.rewrite.cut import in_order
from polydl.rewrite.materialise import in_blocks, only_read, substituted, substituted_runs
from polydl.rewrite.new_statements import assignment
from polydl.rewrite.scratch_array import Box, box_of, element_of, free_name, has_room, scratch_array
from polydl.rewrite.storage import expanded
from polydl.rewrite.zero_point_products import Single, Split, held_type, split_of, unsigned_sum


@dataclass(frozen=True, slots=True)
class ZeroPoints:
    """A sum of a product of sums adds the one product that needs all its loops; the others are summed up beforehand.

    before:    s = e;  for k: s += (A[i][k] - za) * (B[k][j] - zb)
    after:     for j: for k: T[j] += B[k][j];  for i: for k: R[i] += A[i][k]
               s = e - zb * R[i] - za * T[j] + K * za * zb;  for k: s += (unsigned)(A[i][k] * B[k][j])
    requires:  integers of 32 bits, for all of this is modulo 2^32; the loops of the sum are a box; nothing writes the
               factors from the nest's start on, nor touches the sum inside of the loops that add it up
    """

    statement: str
    sums: tuple[str, ...]
    """Arrays of the sums of single factors."""

    def broken(self, before: Scop, after: Scop) -> str | None:
        """See `polydl.equations.step.Rewrite`."""
        with quota(f"the zero points of {self.statement}"):
            step = _step(before, before.statement(self.statement), self.sums)
        if not isinstance(step, Step):
            return step or f"{self.statement} adds no sum of products of integers of 32 bits"
        if len({*self.sums, *before.arrays}) != len(self.sums) + len(before.arrays):
            return f"{', '.join(self.sums)}: not all of them are new arrays"
        same = after.statements == step.after.statements
        same = same and all(after.arrays[name] == step.after.arrays[name] for name in self.sums)
        return None if same else f"more than the sum of {self.statement} was changed"

    def __str__(self) -> str:
        names = f" (the sums of its factors: {', '.join(self.sums)})" if self.sums else ""
        return f"{self.statement} adds one product, what zero points add comes once before{names}"


def zero_points(scop: Scop) -> Iterator[Step]:
    """Take the zero points out of every sum that becomes a contraction in blocks of registers by it (`ZeroPoints`).

    Changes the order of sums of integers. Raises QuotaExceeded.
    """

    def made(one: Scop, name: str) -> Step | None:
        step = _step(one, one.statement(name))
        return step if isinstance(step, Step) and useful(step.after, name) else None

    return one_by_one(scop, [s.name for s in scop.statements], made)


def useful(scop: Scop, name: str) -> bool:
    """Whether a statement adds up in blocks of registers, once the scalar that it may add to has become an array."""
    array = scop.statement(name).target.array
    depth = private_depth(scop, array) if scop.arrays[array].is_scalar else None
    if not depth:
        return in_blocks(scop, [name])
    step = expanded(scop, array, depth)
    return step is not None and in_blocks(step.after, [name])


def factors_in_place(scop: Scop) -> Iterator[Step]:
    """Substitute the temporaries of sums of integers that become contractions in blocks of registers by it, perhaps
    with zero points. Raises QuotaExceeded."""

    def wanted(after: Scop, last: Statement) -> bool:
        if addition(last) is None or after.arrays[last.target.array].element is not I32:
            return False
        out = [step.rewrite.statement for step in zero_points(after) if isinstance(step.rewrite, ZeroPoints)]
        return last.name in out or useful(after, last.name)

    def made(one: Scop, name: str) -> Step | None:
        first, *reading = users(one, name)
        step = substituted(one, [first.name]) if _is_integer_from_outside(one, name, first, reading) else None
        if step is None or not any(wanted(step.after, step.after.statement(s.name)) for s in reading):
            return None
        return step

    steps = list(one_by_one(scop, private_scalars(scop), made))
    yield from steps
    yield from substituted_runs(applied(scop, steps), wanted)


def _is_integer_from_outside(scop: Scop, name: str, first: Statement, reading: Sequence[Statement]) -> bool:
    """Whether a scalar holds an integer that is read before the loops that use it."""
    body = first.body
    value = body.value if isinstance(body, Assignment) and body.op == "=" else Const("0")
    while isinstance(value, Convert):
        value = value.operand
    deeper = any(s.depth > first.depth for s in reading)
    return isinstance(value, Load) and deeper and only_read(reading, name) and scop.arrays[name].element.is_int


def zero_points_stay(scop: Scop, statement: Statement) -> str | None:
    """Why zero points stay in a sum of integers; None where they come out, and for other statements."""
    with quota(f"the zero points of {statement.name}"):
        step = _step(scop, statement)
    return f"zero points stay in the sum: {step}" if isinstance(step, str) else None


def _step(scop: Scop, statement: Statement, names: Sequence[str] | None = None) -> Step | str | None:
    """`ZeroPoints` of a statement, or why it is none; None where it adds no sum of products of integers. `names`: of
    the sums of factors, in order; None: any that are free."""
    split = split_of(scop, statement)
    if not isinstance(split, Split):
        return split
    if names is None:
        stems = [f"{PREFIX}{statement.accesses[one.access].array}_sum_{statement.name}" for one in split.single]
        names = [free_name(scop, stem + "_" * number) for number, stem in enumerate(stems)]
    if len(names) != len(split.single):
        return f"{statement.name} has {len(split.single)} sums of factors"
    why = _written(scop, statement, split)
    if why is not None:
        return why
    # Room before the nest for the sums, and at each depth for what comes once before.
    room, outermost = 2 * len(names) + 1, statement.position[0]
    boxes, statements, sums = list[Box](), list[Statement](), dict[Single, Access]()
    for number, (array, one) in enumerate(zip(names, split.single, strict=True)):
        place = 2 * (room * outermost + 2 * number) + 1, f"{statement.name}z{number}"
        box, summing, sums[one] = _summing(statement, split, one, array, place)
        boxes.append(box)
        statements += summing
    if not has_room(scop, boxes):
        return f"the sums of the factors of {statement.name} need more room than the program has"
    start = _start(scop, statement, split)
    for s in scop.statements:
        at = tuple(2 * p + 1 for p in (room * s.position[0] + room - 1, *s.position[1:]))
        if s is statement and start is None:
            once = (*at[: split.outer], at[split.outer] - 1, *[0] * (len(split.kept) - split.outer))
            statements.append(_once(scop, s, split, sums, once))
        new = _adding(scop, s, split) if s is statement else s
        statements.append(replace(_corrected(scop, statement, split, sums, s) if s is start else new, position=at))
    arrays = {name: scratch_array(name, U32, box) for name, box in zip(names, boxes, strict=True)}
    made = replace(in_order(scop, statements), arrays={**scop.arrays, **arrays})
    return Step(ZeroPoints(statement.name, tuple(names)), scop, made)


def _fixed_arrays(statement: Statement, split: Split) -> set[str]:
    """Arrays of factors that stay the same while the sum is made."""
    return {statement.accesses[i].array for held in (*split.single.values(), split.fixed) for f in held for i in f}


def _written(scop: Scop, statement: Statement, split: Split) -> str | None:
    """Which statement is in the way: writes a factor in the nest, or touches the sum while it is made."""
    target, once = statement.target.array, _fixed_arrays(statement, split)
    summed = {statement.accesses[one.access].array for one in split.single}
    for s in scop.statements:
        inside = s is not statement and s.position[: split.outer + 1] == statement.position[: split.outer + 1]
        for access in s.accesses:
            if access.write and access.array in summed and s.position[0] == statement.position[0]:
                return f"{s.name} writes {access.array} in the loops around {statement.name}"
            if inside and access.write and access.array in once:
                return f"{s.name} writes {access.array} while {statement.name} adds"
            if inside and access.array == target:
                return f"{s.name} touches {target} while {statement.name} adds to it"
    return None


def _summing(
    statement: Statement, split: Split, single: Single, array: str, place: tuple[int, str]
) -> tuple[Box, list[Statement], Access]:
    """`T[d…] = 0` and `T[d…] += x` over the loops that add up, in unsigned arithmetic; with the box of the elements of
    T, and the access of the statement to the sum of its factor."""
    own, factor = single.kept, statement.accesses[single.access]
    loops = [i for i in statement.iterators if i in own or i not in split.kept]
    points = isl.project_onto(statement.domain, own).reset_tuple_id()
    box = box_of(points)
    assert box is not None  # says `is_box`
    position, name = place
    element = element_of(points, array, box)

    def element_in(dims: Sequence[str], of: isl.Set) -> isl.Map:
        at = isl.coordinates(of)
        there = map_from_affs(of, [at[dims.index(i)] for i in own])
        return there.apply_range(isl.domain_named(element, None))

    start = assignment(statement, f"{name}s", (own, points), (position, *[0] * len(own)), [element], Const("0u"))
    domain = isl.project_onto(statement.domain, loops)
    read = isl.domain_onto(factor.relation.intersect_domain(statement.domain), loops)
    touched, behind = [read, element_in(loops, domain)], (position + 2, *[0] * len(loops))
    value = converted(Load(0), single.element, U32)
    adding = assignment(statement, name, (loops, domain), behind, touched, value, "+=")
    whole = element_in(statement.iterators, statement.domain)
    return box, [start, adding], Access(array, False, whole, statement.span)


def _adding(scop: Scop, statement: Statement, split: Split) -> Statement:
    """The statement with the one product that it goes on adding, modulo 2^32: without the zero points there is more to
    add than fits, perhaps."""
    made, held = Rebuilt(), [held_type(scop, statement, i) for i in split.main]
    factors = [made.taken(Load(i), statement.accesses) for i in split.main]
    if abs(split.number) != 1:
        factors.insert(0, Const(str(abs(split.number))))
    if abs(split.number) * math.prod(one.maximum + (not one.unsigned) for one in held) > I32.maximum:
        factors = [converted(one, explicit(one, held.__getitem__)[1], U32) for one in factors]
    value = reduce(lambda left, right: Binary("*", left, right), factors)
    value = converted(value, explicit(value, held.__getitem__)[1], U32)
    return made.statement(statement, statement.target, "-=" if split.number < 0 else "+=", value)


def _start(scop: Scop, statement: Statement, split: Split) -> Statement | None:
    """The statement that gives the sum its first value, right before its loops; None where there is none."""
    if len(split.kept) != split.outer:
        return None
    target, fixed = statement.target, _fixed_arrays(statement, split)
    before = [s for s in scop.statements if s.position < statement.position]
    start = next((s for s in reversed(before) if any(a.array == target.array for a in s.accesses)), None)
    if start is None or not isinstance(start.body, Assignment) or start.body.op != "=":
        return None
    if any(a.write and a.array in fixed for s in before[before.index(start) + 1 :] for a in s.accesses):
        return None
    if start.depth != split.outer or common_depth(start, statement) != split.outer:
        return None
    if any(a.array == target.array and not a.write for a in start.accesses):
        return None
    own, other = start.target, isl.domain_onto(target.relation, range(split.outer))
    same = own.array == target.array and isl.domain_named(own.relation, None).is_equal(isl.domain_named(other, None))
    outer = isl.project_onto(statement.domain, range(split.outer)).reset_tuple_id()
    return start if same and start.domain.reset_tuple_id().is_equal(outer) else None


@dataclass(frozen=True, slots=True)
class _Loops:
    """Those of a statement that computes what zero points add."""

    statement: str
    iterators: Sequence[str]
    domain: isl.Set


def _correction(
    scop: Scop, statement: Statement, split: Split, sums: Mapping[Single, Access], there: _Loops, made: Rebuilt
) -> dict[tuple[Expr, ...], int]:
    """What zero points add to an element, as `unsigned_sum` takes it, for a statement that is `made` in the loops
    `there`. `sums`: the accesses of the statement to the sums of its factors."""
    lifted = [_lifted(statement, split, there, access) for access in statement.accesses]

    def loaded(number: int) -> Expr:
        return converted(made.taken(Load(number), lifted), held_type(scop, statement, number), U32)

    terms: dict[tuple[Expr, ...], int] = {}
    for one, held in split.single.items():
        sum_ = made.taken(Load(0), [_lifted(statement, split, there, sums[one])])
        for factors, number in held.items():
            terms[*map(loaded, factors), sum_] = number
    often = [AffineValue(isl.lifted(times, there.domain)) for times in split.times]
    known = math.prod(constant_number(one) or 1 for one in often)
    unknown = [converted(one, I32, U32) for one in often if constant_number(one) is None]
    for factors, number in split.fixed.items():
        terms[*map(loaded, factors), *unknown] = number * known
    return terms


def _lifted(statement: Statement, split: Split, there: _Loops, access: Access) -> Access:
    """An access of the statement to what stays the same while it adds, of one in the other loops alone."""
    relation = isl.domain_onto(access.relation.intersect_domain(statement.domain), split.kept)
    return replace(access, relation=isl.domain_named(relation, there.statement, there.iterators))


def _corrected(
    scop: Scop, statement: Statement, split: Split, sums: Mapping[Single, Access], start: Statement
) -> Statement:
    """`s = e` with what zero points add."""
    assert isinstance(start.body, Assignment)
    made = Rebuilt(once=True)
    value, element = explicit(start.body.value, lambda i: held_type(scop, start, i))
    first = made.taken(converted(converted(value, element, I32), I32, U32), start.accesses)
    terms = _correction(scop, statement, split, sums, _Loops(start.name, start.iterators, start.domain), made)
    return made.statement(start, start.target, "=", unsigned_sum(terms, None if is_zero(start.body.value) else first))


def _once(
    scop: Scop, statement: Statement, split: Split, sums: Mapping[Single, Access], position: Sequence[int]
) -> Statement:
    """What zero points add, as a statement of its own."""
    name, made = f"{statement.name}z", Rebuilt(once=True)
    domain = isl.named(isl.project_onto(statement.domain, split.kept).set_tuple_name(name), split.kept)
    there = _Loops(name, split.kept, domain)
    value = unsigned_sum(_correction(scop, statement, split, sums, there, made))
    touched = [a.relation for a in (*made.accesses, _lifted(statement, split, there, statement.target))]
    return assignment(statement, name, (split.kept, domain), position, touched, value, "+=")

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
from dataclasses import dataclass, replace
from functools import reduce

from polydl.dependences.scalars import private_depth, private_scalars, users
from polydl.equations.step import Step
from polydl.model import isl
from polydl.model.combiners import adds
from polydl.model.conversions import converted, explicit
from polydl.model.expr import AffineValue, Binary, Const, Convert, Expr, Load, constant_number, is_zero
from polydl.model.isl import quota
from polydl.model.scop import Access, Array, Assignment, Scop, Statement
from polydl.model.time import common_depth, map_from_affs
from polydl.model.types import I32, U32
from polydl.rewrite.contract import PREFIX
from polydl.rewrite.modular import products, unsigned_sum
from polydl.rewrite.new_statements import assignment
from polydl.rewrite.scratch_array import Box, box_of, element_of, free_name, has_room, scratch_array
from polydl.rewrite.storage import expanded
from polydl.rewrite.temporaries import only_read, substituted, substituted_runs
from polydl.rewrite.zero_point_products import Split, element_of_sum, held_type, kept_iterators, split_of
from polydl.target.isa import has_register_blocks


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
            made = _made(before, before.statement(self.statement), self.sums)
        if isinstance(made, str):
            return made
        if len({*self.sums, *before.arrays}) != len(self.sums) + len(before.arrays):
            return f"{', '.join(self.sums)}: not all of them are new arrays"
        same = after.statements == made.statements and all(after.arrays[n] == made.arrays[n] for n in self.sums)
        return None if same else f"more than the sum of {self.statement} was changed"

    def __str__(self) -> str:
        names = f" (the sums of its factors: {', '.join(self.sums)})" if self.sums else ""
        return f"{self.statement} adds one product, what zero points add comes once before{names}"


def zero_points(scop: Scop) -> Iterator[Step]:
    """Take the zero points out of every sum that becomes a contraction in blocks of registers by it (`ZeroPoints`).

    Changes the order of sums of integers. Raises QuotaExceeded.
    """
    for name in [s.name for s in scop.statements]:
        step = _step(scop, scop.statement(name))
        if step is not None and step.broken() is None and useful(step.after, name):
            yield step
            scop = step.after


def useful(scop: Scop, name: str) -> bool:
    """Whether a statement adds up in blocks of registers, once the scalar that it may add to has become an array."""
    statement = scop.statement(name)
    target = statement.target
    depth = private_depth(scop, target.array) if scop.arrays[target.array].is_scalar else None
    if not depth:
        return has_register_blocks(scop, statement)
    tried = expanded(scop, target.array, free_name(scop, f"{PREFIX}{target.array}_each"), depth)
    return tried is not None and has_register_blocks(tried, tried.statement(name))


def factors_in_place(scop: Scop) -> Iterator[Step]:
    """Substitute the temporaries of sums of integers that become contractions in blocks of registers by it, perhaps
    with zero points. Raises QuotaExceeded."""

    def wanted(after: Scop, last: Statement) -> bool:
        body = last.body
        assert isinstance(body, Assignment)
        if not adds(body.op) or after.arrays[last.target.array].element is not I32:
            return False
        if any(
            isinstance(step.rewrite, ZeroPoints) and step.rewrite.statement == last.name for step in zero_points(after)
        ):
            return True
        return useful(after, last.name)

    for name in private_scalars(scop):
        first, *reading = users(scop, name)
        if not _is_integer_from_outside(scop, name, first, reading):
            continue
        step = substituted(scop, [first.name])
        if step is not None and step.broken() is None:
            if any(wanted(step.after, step.after.statement(s.name)) for s in reading):
                yield step
                scop = step.after
    yield from substituted_runs(scop, wanted)


def _is_integer_from_outside(scop: Scop, name: str, first: Statement, reading: Sequence[Statement]) -> bool:
    """Whether a scalar holds an integer that is read before the loops that use it."""
    body = first.body
    value = body.value if isinstance(body, Assignment) and body.op == "=" else Const("0")
    while isinstance(value, Convert):
        value = value.operand
    deeper = any(s.depth > first.depth for s in reading)
    return isinstance(value, Load) and deeper and only_read(reading, name) and scop.arrays[name].element.is_int


def _step(scop: Scop, statement: Statement) -> Step | None:
    split = split_of(scop, statement)
    if isinstance(split, str):
        return None
    names: list[str] = []
    for access, _ in split.single:
        array = statement.accesses[access].array
        names.append(free_name(scop, f"{PREFIX}{array}_sum_{statement.name}" + "_" * len(names)))
    made = _made(scop, statement, names)
    return None if isinstance(made, str) else Step(ZeroPoints(statement.name, tuple(names)), scop, made)


def zero_points_stay(scop: Scop, statement: Statement) -> str | None:
    """Why zero points stay in a sum of integers; None where they come out, and for other statements."""
    body = statement.body
    if not isinstance(body, Assignment) or element_of_sum(scop, statement) is not I32 or not adds(body.op):
        return None
    found = products(body.value, lambda i: held_type(scop, statement, i))
    if found is None or len(found) < 2:
        return None
    with quota(f"the zero points of {statement.name}"):
        split = split_of(scop, statement)
        names = [] if isinstance(split, str) else [f"{PREFIX}sum{number}" for number in range(len(split.single))]
        made = split if isinstance(split, str) else _made(scop, statement, names)
    return f"zero points stay in the sum: {made}" if isinstance(made, str) else None


def _made(scop: Scop, statement: Statement, names: Sequence[str]) -> Scop | str:
    """The program after `ZeroPoints`, or why there is none. `names`: of the sums of factors, in order."""
    split = split_of(scop, statement)
    if isinstance(split, str):
        return split
    if len(names) != len(split.single):
        return f"{statement.name} has {len(split.single)} sums of factors"
    why = _written(scop, statement, split)
    if why is not None:
        return why
    arrays, before, reads = dict(scop.arrays), list[Statement](), dict[tuple[int, tuple[str, ...]], Access]()
    first = statement.position[0]
    room = 2 * len(names) + 1
    boxes: list[Box] = []
    for number, (array, key) in enumerate(zip(names, split.single, strict=True)):
        made = _summing(scop, statement, key, array, (room * first + 2 * number, f"{statement.name}z{number}"))
        arrays[array], boxes = made.array, [*boxes, made.box]
        before += made.statements
        reads[key] = made.read
    if not has_room(scop, boxes):
        return f"the sums of the factors of {statement.name} need more room than the program has"
    start = _start(scop, statement, split)
    changed: dict[str, list[Statement]] = {statement.name: [_adding(scop, statement, split)]}
    if start is not None:
        changed[start.name] = [_corrected(scop, statement, split, reads, start)]
    elif split.single or split.fixed:
        once = _once(scop, statement, split, reads)
        changed[statement.name] = [once, *changed[statement.name]]
    statements = [*before]
    for s in scop.statements:
        for new in changed.get(s.name, [s]):
            # Room before the nest for the sums, and at each depth for what comes once before.
            place = (room * s.position[0] + room - 1, *s.position[1:])
            place = tuple(2 * p + 1 for p in place)
            if new.name == f"{statement.name}z":
                place = (*place[: split.outer], place[split.outer] - 1, *[0] * (new.depth - split.outer))
            statements.append(replace(new, position=place))
    for number, one in enumerate(before):
        statements[number] = replace(one, position=(2 * one.position[0] + 1, *one.position[1:]))
    return replace(scop, statements=tuple(sorted(statements, key=lambda s: s.position)), arrays=arrays)


def _written(scop: Scop, statement: Statement, split: Split) -> str | None:
    """Which statement is in the way: writes a factor in the nest, or touches the sum while it is made."""
    target = statement.target.array
    summed = {statement.accesses[access].array for access, _ in split.single}
    once = {statement.accesses[i].array for held in (*split.single.values(), split.fixed) for f in held for i in f}
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


@dataclass(frozen=True, slots=True)
class _Summing:
    """The sums of one factor."""

    array: Array
    box: Box
    """Of the elements of the array."""
    statements: list[Statement]
    read: Access
    """Of a sum, by the statement whose factor it is."""


def _summing(
    scop: Scop, statement: Statement, key: tuple[int, tuple[str, ...]], array: str, place: tuple[int, str]
) -> _Summing:
    """`T[d…] = 0` and `T[d…] += x` over the loops that add up, in unsigned arithmetic."""
    access, own = key
    factor = statement.accesses[access]
    kept = kept_iterators(scop, statement, statement.target)
    assert kept is not None  # says `split_of`
    loops = [i for i in statement.iterators if i in own or i not in kept]
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
    value, behind = converted(Load(0), scop.arrays[factor.array].element, U32), (position + 1, *[0] * len(loops))
    adding = assignment(statement, name, (loops, domain), behind, [read, element_in(loops, domain)], value, "+=")
    whole = element_in(statement.iterators, statement.domain)
    made = scratch_array(array, U32, box)
    return _Summing(made, box, [start, adding], Access(array, False, whole, statement.span))


def _adding(scop: Scop, statement: Statement, split: Split) -> Statement:
    """The statement with the one product that it goes on adding, modulo 2^32: without the zero points there is more to
    add than fits, perhaps."""
    body = statement.body
    assert isinstance(body, Assignment)
    used = [*split.main, body.target_read, body.target]
    accesses = tuple(statement.accesses[i] for i in used if i is not None)
    held = [held_type(scop, statement, i) for i in split.main]
    factors: list[Expr] = [Load(i) for i in range(len(held))]
    if abs(split.number) != 1:
        factors.insert(0, Const(str(abs(split.number))))
    if abs(split.number) * math.prod(one.maximum + (not one.unsigned) for one in held) > I32.maximum:
        factors = [converted(one, explicit(one, held.__getitem__)[1], U32) for one in factors]
    value = reduce(lambda left, right: Binary("*", left, right), factors)
    value = converted(value, explicit(value, held.__getitem__)[1], U32)
    op = "-=" if split.number < 0 else "+="
    read = None if body.target_read is None else len(split.main)
    return replace(statement, accesses=accesses, body=Assignment(len(accesses) - 1, op, value, read))


def _start(scop: Scop, statement: Statement, split: Split) -> Statement | None:
    """The statement that gives the sum its first value, right before its loops; None where there is none."""
    if len(split.kept) != split.outer:
        return None
    target = statement.target
    same_for_all = {
        statement.accesses[i].array for held in (*split.single.values(), split.fixed) for f in held for i in f
    }
    start = None
    for s in reversed([s for s in scop.statements if s.position < statement.position]):
        if any(a.array == target.array for a in s.accesses):
            start = s
            break
        if any(a.write and a.array in same_for_all for a in s.accesses):
            return None
    if start is None or not isinstance(start.body, Assignment):
        return None
    body = start.body
    if body.op != "=" or start.depth != split.outer or common_depth(start, statement) != split.outer:
        return None
    if any(a.array == target.array and not a.write for a in start.accesses):
        return None
    own, other = start.target, isl.domain_onto(target.relation, range(split.outer))
    same = own.array == target.array and isl.domain_named(own.relation, None).is_equal(isl.domain_named(other, None))
    outer = isl.project_onto(statement.domain, range(split.outer)).reset_tuple_id()
    return start if same and start.domain.reset_tuple_id().is_equal(outer) else None


def _correction(
    scop: Scop,
    statement: Statement,
    split: Split,
    reads: Mapping[tuple[int, tuple[str, ...]], Access],
    lifted: Mapping[int, Access],
    accesses: list[Access],
    domain: isl.Set,
) -> dict[tuple[Expr, ...], int]:
    """What zero points add to an element, as `unsigned_sum` takes it; its accesses are added to `accesses`.
    `lifted`: by number the statement's accesses to what stays the same, of the statement that computes this, whose
    domain is `domain`; `reads`: of the sums, likewise."""
    places: dict[int, int] = {}

    def loaded(number: int) -> Expr:
        if number not in places:
            places[number] = len(accesses)
            accesses.append(lifted[number])
        return converted(Load(places[number]), held_type(scop, statement, number), U32)

    terms: dict[tuple[Expr, ...], int] = {}
    for key, held in split.single.items():
        accesses.append(reads[key])
        sum_ = Load(len(accesses) - 1)
        for factors, number in held.items():
            terms[*map(loaded, factors), sum_] = number
    often = [AffineValue(isl.lifted(times, domain)) for times in split.times]
    known = math.prod(constant_number(one) or 1 for one in often)
    unknown = [converted(one, I32, U32) for one in often if constant_number(one) is None]
    for factors, number in split.fixed.items():
        terms[*map(loaded, factors), *unknown] = number * known
    return terms


def _lifted(statement: Statement, split: Split, to: str, loops: Sequence[str], access: Access) -> Access:
    """An access of the statement to what stays the same while it adds, of one in the other loops alone."""
    relation = isl.domain_onto(access.relation.intersect_domain(statement.domain), loops)
    return replace(access, relation=isl.domain_named(relation, to, loops))


def _corrected(
    scop: Scop,
    statement: Statement,
    split: Split,
    reads: Mapping[tuple[int, tuple[str, ...]], Access],
    start: Statement,
) -> Statement:
    """`s = e` with what zero points add."""
    assert isinstance(start.body, Assignment)

    def lifted(access: Access) -> Access:
        there = _lifted(statement, split, start.name, split.kept, access)
        return replace(there, relation=isl.domain_named(there.relation, start.name, start.iterators))

    own = [a for i, a in enumerate(start.accesses) if i != start.body.target]
    assert start.body.target == len(start.accesses) - 1, "reads come before the write"
    first, element = explicit(start.body.value, lambda i: held_type(scop, start, i))
    first = converted(converted(first, element, I32), I32, U32)
    zero = is_zero(start.body.value)
    fixed = {i: lifted(a) for i, a in enumerate(statement.accesses)}
    sums = {key: lifted(read) for key, read in reads.items()}
    terms = _correction(scop, statement, split, sums, fixed, own, start.domain)
    value = unsigned_sum(terms, None if zero else first) if terms else start.body.value
    accesses = (*own, start.target)
    return replace(start, accesses=accesses, body=Assignment(len(own), "=", value))


def _once(
    scop: Scop, statement: Statement, split: Split, reads: Mapping[tuple[int, tuple[str, ...]], Access]
) -> Statement:
    """What zero points add, as a statement of its own."""
    body, name = statement.body, f"{statement.name}z"
    assert isinstance(body, Assignment)

    def lifted(access: Access) -> Access:
        return _lifted(statement, split, name, split.kept, access)

    accesses: list[Access] = []
    fixed = {i: lifted(a) for i, a in enumerate(statement.accesses)}
    sums = {key: lifted(read) for key, read in reads.items()}
    domain = isl.named(isl.project_onto(statement.domain, split.kept).set_tuple_name(name), split.kept)
    value = unsigned_sum(_correction(scop, statement, split, sums, fixed, accesses, domain))
    touched = [a.relation for a in (*accesses, fixed[body.target])]
    return assignment(statement, name, (split.kept, domain), statement.position, touched, value, "+=")

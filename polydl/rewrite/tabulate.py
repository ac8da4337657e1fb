"""Values of slow functions that many iterations need again: computed once for each argument, into a table.

    for step: for i: v[i] = max(p * v[i + 1] + q * v[i], k - s * pow(u, 2 * i - step));        (an option in a lattice)

There are n^2/2 iterations and 2 n values of `2 * i - step`. What the expression reads, and the values of loop variables
in it, are affine functions of the iteration; those that they have in common are what the table is subscripted with: a
basis of the integer combinations of loop variables that the functions are made of. What a program stores into the table
is what it computed before, operation by operation.

source:    generalised loop redundancy elimination (Ding and Shen, "GLORE: generalized loop redundancy elimination upon
           LER-notation", OOPSLA 2017), for expressions that call a function; bases by the Hermite normal form
           (Schrijver, "Theory of Linear and Integer Programming", 1986, section 4.1)

"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import reduce

from polydl.base.records import dataclass
from polydl.equations.step import Rule, Step
from polydl.equations.substitution import Rebuilt
from polydl.model import isl
from polydl.model.conversions import explicit
from polydl.model.counting import count
from polydl.model.expr import (
    Binary,
    Call,
    Expr,
    Gather,
    Load,
    affine_values,
    calls,
    every_part,
    loads,
    on_affine_values,
    on_operands,
)
from polydl.model.functions import function_called
from polydl.model.isl import quota
from polydl.model.scop import Access, Assignment, Scop, Statement
from polydl.model.time import map_from_affs
from polydl.rewrite.contract import PREFIX
from polydl.rewrite.cut import in_order
from polydl.rewrite.materialise import substituted_runs
from polydl.rewrite.new_statements import assignment, free_statement_name
from polydl.rewrite.scratch_array import (
    Box,
    array_of_extents,
    box_of,
    element_of,
    elements_of,
    free_name,
    has_room,
    scratch_array,
)

MOST_APART = 8
"""Steps from one iteration to the next at most: so many rows has a table that neighbours read one behind the other."""
WORTH = 2
"""How often a value is needed at least, where sizes are known."""


@dataclass(frozen=True, slots=True)
class Tabulated(Rule):
    """An expression that calls a function is computed once for each value of what it is made of.

    before:    for i: for j: A[i][j] = e(x[i + j])
    after:     for t: T[t] = e(x[t]);  for i: for j: A[i][j] = T[i + j]
    requires:  the expression has no effect, and nothing in the loops around changes what it reads
    """

    statement: str
    table: str
    functions: tuple[str, ...]
    """Those that it calls."""

    def __str__(self) -> str:
        return f"{self.statement} looks up {', '.join(self.functions)} in {self.table}: each value is computed once"


@dataclass(frozen=True, slots=True)
class _Basis:
    """Combinations of the inner loops of a statement that tell the values of an expression apart."""

    around: int
    """Loops around those, which it may depend on as well."""
    rows: tuple[tuple[int, ...], ...]
    """By combination the factor of each inner loop."""
    inverse: tuple[tuple[int, ...], ...]
    """By inner loop the factor of each combination: an iteration for each value that these may have together."""

    @property
    def apart(self) -> int:
        """Of the last combination, how far the iterations of the innermost loop are apart; 1 where that is more than a
        table has rows for, or none."""
        step = self.rows[-1][-1]
        return step if 1 < step <= MOST_APART else 1


def tabulated(scop: Scop) -> Iterator[Step]:
    """Tabulate every expression that iterations share (`Tabulated`). Raises QuotaExceeded."""

    def wanted(after: Scop, last: Statement) -> bool:
        return _step(after, last) is not None

    for step in substituted_runs(scop, wanted):
        yield step
        scop = step.after
    for name in [s.name for s in scop.statements]:
        while (made := _step(scop, scop.statement(name))) is not None and made.broken() is None:
            yield made
            scop = made.after


def _step(scop: Scop, statement: Statement) -> Step | None:
    """The step for the first expression of a statement that is worth a table."""
    body = statement.body
    if not isinstance(body, Assignment) or not statement.depth or not any(map(_called, calls(body.value))):
        return None
    with quota(f"tables of what {statement.name} computes"):
        return _first(scop, statement, body.value)


def _called(function: str) -> bool:
    """Whether it is a function of the C library that compilers make a call of."""
    row = function_called(function)
    return row is not None and row.cycles is None and not row.cheap


def _first(scop: Scop, statement: Statement, value: Expr) -> Step | None:
    if not any(isinstance(one, Call) and _called(one.function) for one in every_part(value)):
        return None
    whole = _of(scop, statement, value)
    if whole is not None:
        return whole
    found: list[Step] = []

    def visit(one: Expr) -> Expr:
        if not found and (step := _first(scop, statement, one)) is not None:
            found.append(step)
        return one

    on_operands(value, visit)
    return found[0] if found else None


def _of(scop: Scop, statement: Statement, value: Expr) -> Step | None:
    """The step for one expression; None where it may have another value in each iteration, or a table of its values has
    no room."""
    read = [statement.accesses[i] for i in loads(value)]
    if any(isinstance(one, Gather) for one in every_part(value)) or not all(map(_is_read, read)):
        return None
    functions = _functions(statement, value, read)
    rows = None if functions is None else [isl.coefficients(one) for one in functions]
    if functions is None or rows is None:
        return None
    known = [row for row in rows if row is not None]
    fixed = next((d for d in range(statement.depth) if not _changed(scop, statement, d, read)), statement.depth)
    for around in range(fixed, statement.depth) if len(known) == len(rows) else ():
        basis = _basis([row[around:] for row in known], around)
        if basis is not None and len(basis.rows) < statement.depth - around:
            step = _with_table(scop, statement, value, functions, basis)
            if step is not None:
                return step
    return None


def _is_read(access: Access) -> bool:
    return access.exact and not access.write and bool(access.relation.is_single_valued())


def _changed(scop: Scop, statement: Statement, depth: int, read: Sequence[Access]) -> bool:
    """Whether some statement in the same iteration of so many loops, and in the same loop in there, writes what is
    read."""
    names = {access.array for access in read}
    inside = (s for s in scop.statements if s.position[: depth + 1] == statement.position[: depth + 1])
    return any(a.write and a.array in names for s in inside for a in s.accesses)


def _functions(statement: Statement, value: Expr, read: Sequence[Access]) -> list[isl.Aff] | None:
    """The subscripts of what is read, and the values of loop variables, as expressions; None where one is not one."""
    functions = [f for a in read for f in isl.components(a.relation.as_pw_multi_aff())]
    functions += [one.value for one in affine_values(value)]
    pieces = [isl.pieces(function.gist(statement.domain)) for function in functions]
    return [own[0][1] for own in pieces] if all(len(own) == 1 for own in pieces) else None


def _basis(forms: Sequence[Sequence[int]], around: int) -> _Basis | None:
    """A basis of the combinations of loops that functions with these factors are made of, those without the innermost
    loop first; None where there are none."""
    size = len(forms[0]) if forms else 0
    left = [list(row) for row in sorted(forms, key=lambda row: row[-1] != 0)]
    # Unimodular column operations: `rows` times `columns` stays the identity.
    rows = [[int(a == b) for b in range(size)] for a in range(size)]
    columns = [list(row) for row in rows]
    rank = 0

    def swap(a: int, b: int) -> None:
        for row in (*left, *columns):
            row[a], row[b] = row[b], row[a]
        rows[a], rows[b] = rows[b], rows[a]

    def subtract(a: int, b: int, times: int) -> None:
        """Of columns a and b."""
        for row in (*left, *columns):
            row[a] -= times * row[b]
        rows[b] = [x + times * y for x, y in zip(rows[b], rows[a], strict=True)]

    for form in left:
        while len(used := [c for c in range(rank, size) if form[c]]) > 1:
            least = min(used, key=lambda c: abs(form[c]))
            for c in used:
                if c != least:
                    subtract(c, least, form[c] // form[least])
        if used:
            swap(rank, used[0])
            rank += 1
    if not rank:
        return None
    if next(x for x in reversed(rows[rank - 1]) if x) < 0:
        # Upwards along the innermost loop.
        rows[rank - 1] = [-x for x in rows[rank - 1]]
        columns = [[-x if c == rank - 1 else x for c, x in enumerate(row)] for row in columns]
    return _Basis(around, tuple(map(tuple, rows[:rank])), tuple(tuple(row[:rank]) for row in columns))


def _with_table(
    scop: Scop, statement: Statement, value: Expr, functions: Sequence[isl.Aff], basis: _Basis
) -> Step | None:
    """The step with a table that a basis subscripts, made in front of the loops inside of those `around`; None where
    there is no room for it, or too little use. `functions`: those of `_functions`."""
    around, loops = basis.around, isl.coordinates(statement.domain)
    begin = _begin(statement, basis)
    if begin is None:
        return None
    places = _places(statement, basis, begin)
    there = map_from_affs(statement.domain, [*loops[:around], *places])
    points, inner = there.range().coalesce(), range(around, around + len(places))
    # Of each remainder there is a whole row.
    rows = [place for place in inner if basis.apart == 1 or place != inner[-2]]
    box = box_of(isl.project_onto(points, rows))
    # One dimension is no longer than some loops are together, which are all run for each of others.
    if box is None or (len(rows) > 1 and not has_room(scop, [box])):
        return None
    if basis.apart != 1:
        remainders = Box.between([(0, basis.apart - 1)])
        box = Box(
            *(
                (*own[:-1], *more, own[-1])
                for own, more in ((box.first, remainders.first), (box.extents, remainders.extents))
            )
        )
    if not _worth(statement, there, box, around):
        return None
    calls_ = list(dict.fromkeys(name for name in calls(value) if _called(name)))
    table = free_name(scop, f"{PREFIX}{calls_[0]}_table")
    element = explicit(value, lambda i: scop.arrays[statement.accesses[i].array].element)[1]
    made = array_of_extents(table, element, box.extents) if around else scratch_array(table, element, box)
    values = isl.project_onto(points, inner)
    place = element_of(box.points(values), table, box)
    whole = isl.project_onto(points, range(around)).flat_product(box.points(values)).coalesce()
    # Beyond the values that are asked for there may be no elements to read, and no quotient.
    domain = whole if _is_total(statement, value, around) else points

    own = iter(_at_values(statement, functions, basis, begin, domain))
    reads = [
        (a.array, map_from_affs(domain, [next(own) for _ in range(isl.range_arity(a.relation))]))
        for a in (statement.accesses[i] for i in loads(value))
    ]
    *outer, own_place = statement.position[: around + 1]
    name, number = free_statement_name(scop, f"{statement.name}v"), iter(range(len(reads)))
    stored = _numbered(
        on_affine_values(value, lambda _: isl.function_named(next(own).intersect_domain(domain), name)), number
    )
    target = map_from_affs(domain, isl.coordinates(domain)[around:]).apply_range(isl.domain_named(place, None))
    new = assignment(
        statement,
        name,
        (_iterators(scop, statement, around, len(places)), domain),
        (*(2 * p + 1 for p in outer), 2 * own_place, *(0 for _ in places)),
        [*(isl.range_named(relation, array) for array, relation in reads), target],
        stored,
    )
    looked_up = map_from_affs(statement.domain, places).apply_range(place)
    changed = _looking_up(statement, value, Access(table, False, isl.range_named(looked_up, table), statement.span))
    others = (changed if s is statement else s for s in scop.statements)
    statements = [new, *(replace(s, position=tuple(2 * p + 1 for p in s.position)) for s in others)]
    after = replace(in_order(scop, statements), arrays={**scop.arrays, table: made})
    return Step(Tabulated(statement.name, table, tuple(calls_)), scop, after)


def _begin(statement: Statement, basis: _Basis) -> list[isl.Aff] | None:
    """{ [] -> [t] } the least value of each combination; None where it has none, 0 where it is no one expression."""
    domain = statement.domain
    combined = [isl.linear(domain, {basis.around + d: x for d, x in enumerate(row)}) for row in basis.rows]
    box = box_of(map_from_affs(domain, combined).range())
    if box is None:
        return None
    least = [isl.pieces(low) for low in box.first]
    return [own[0][1] if len(own) == 1 else isl.constant(isl.unnamed_space(0), 0) for own in least]


def _places(statement: Statement, basis: _Basis, begin: Sequence[isl.Aff]) -> list[isl.PwAff]:
    """{ S[i…] -> [t] } the coordinates of a table: the combinations, counted from where they `begin`. The last one is
    taken apart into its remainder and quotient by how far neighbours are apart."""
    domain, around = statement.domain, basis.around
    step, last = basis.apart, statement.depth - 1
    found = []
    for row, least in zip(basis.rows, begin, strict=True):
        combined = isl.linear(domain, {around + d: x for d, x in enumerate(row)})
        found.append(isl.PwAff.from_aff(combined).sub(isl.lifted(isl.PwAff.from_aff(least), domain)))
    if step == 1:
        return found
    *others, whole = found
    along = isl.PwAff.from_aff(isl.linear(domain, {last: 1}))
    rest = whole.sub(along.scale_val(isl.value(step)))
    quotient = isl.floor_div(rest, step)
    return [*others, rest.sub(quotient.scale_val(isl.value(step))), quotient.add(along)]


def _at_values(
    statement: Statement, functions: Sequence[isl.Aff], basis: _Basis, begin: Sequence[isl.Aff], domain: isl.Set
) -> list[isl.PwAff]:
    """{ [p…, t…] -> [v] } expressions of a statement's loops as functions of the loops around and the coordinates of
    the table."""
    around, step = basis.around, basis.apart
    at = [isl.PwAff.from_aff(one) for one in isl.coordinates(domain)]
    places = at[around:]
    if step != 1:
        places = [*places[:-2], places[-1].scale_val(isl.value(step)).add(places[-2])]
    lows = [isl.lifted(isl.PwAff.from_aff(least), domain) for least in begin]
    combined = [place.add(low) for place, low in zip(places, lows, strict=True)]
    nothing = isl.PwAff.from_aff(isl.constant(domain, 0))
    inner = [
        reduce(isl.PwAff.add, (one.scale_val(isl.value(x)) for one, x in zip(combined, row, strict=True)), nothing)
        for row in basis.inverse
    ]
    anywhere = isl.Set.universe(domain.get_space())
    iteration = isl.range_named(map_from_affs(anywhere, [*at[:around], *inner]), statement.name)
    back = iteration.as_pw_multi_aff()
    return [isl.PwAff.from_aff(one).pullback_pw_multi_aff(back) for one in functions]


def _is_total(statement: Statement, value: Expr, around: int) -> bool:
    """Whether an expression has a value for all numbers, and not only for those of iterations: what it reads is the
    same for all, and it divides no integers."""
    divides = any(isinstance(one, Binary) and one.op in ("/", "%", "<<", ">>") for one in every_part(value))
    inner = range(around, statement.depth)
    subscripts = (isl.components(statement.accesses[i].relation.as_pw_multi_aff()) for i in loads(value))
    moves = any(isl.uses(one.gist(statement.domain), d) for several in subscripts for one in several for d in inner)
    return not moves and not (divides and affine_values(value))


def _worth(statement: Statement, there: isl.Map, box: Box, around: int) -> bool:
    """Whether each value of a table is used several times."""
    if isl.involved_parameters(statement.domain):
        return not there.is_injective()
    made = elements_of([(0, isl.to_int(extent.max_val()) - 1) for extent in box.extents])
    times = count(isl.project_onto(statement.domain, range(around))).upper if around else 1
    return count(statement.domain).lower >= WORTH * made * times


def _iterators(scop: Scop, statement: Statement, around: int, more: int) -> tuple[str, ...]:
    """Names of the loops that make a table."""
    taken: Collection[str] = {*statement.iterators, *scop.parameters, *scop.arrays}
    names = list(statement.iterators[:around])
    for number in range(more):
        name = f"t{number}"
        while name in taken or name in names:
            name += "_"
        names.append(name)
    return tuple(names)


def _numbered(value: Expr, number: Iterator[int]) -> Expr:
    """An expression whose loads are numbered from left to right."""
    return Load(next(number)) if isinstance(value, Load) else on_operands(value, lambda one: _numbered(one, number))


def _looking_up(statement: Statement, value: Expr, access: Access) -> Statement:
    """The statement with an access in place of a value."""
    body = statement.body
    assert isinstance(body, Assignment), "it has a value"
    accesses, made = (*statement.accesses, access), Rebuilt()

    def changed(one: Expr) -> Expr:
        return Load(len(statement.accesses)) if one == value else on_operands(one, changed)

    return made.statement(statement, statement.target, body.op, made.taken(changed(body.value), accesses))

"""Temporaries as the expressions that they hold.

    for k: { int a = A[i][k] - za; int b = B[k][j] - zb; s += a * b; }
    for k: { t = alpha * A[i][k]; for j: C[i][j] += t * B[k][j]; }
    float v = s * scale; v = v < 0 ? 0 : v; C[i][j] = (int8_t)v;

Only done around sums that a microkernel keeps in blocks of registers: what they add is a product of array elements
then, and what follows them is one assignment, which a microkernel may end with. Elsewhere a scalar is as good, and
saves work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from polydl.dependences.scalars import private_depth, private_scalars, users
from polydl.equations.step import Rule, Step, applied
from polydl.equations.substitution import inlined
from polydl.model.accumulation import keeps, places
from polydl.model.bf16_words import is_part_of_word
from polydl.model.combiners import adds
from polydl.model.contraction import in_lanes
from polydl.model.expr import Const, Expr, Load, factors_of, loads
from polydl.model.isl import quota
from polydl.model.scop import Assignment, Scop, Statement
from polydl.rewrite.terms import products
from polydl.target.isa import has_register_blocks, kernel_contraction


@dataclass(frozen=True, slots=True)
class Substituted(Rule):
    """What statements store in scalars becomes part of the assignments that read it.

    before:    t = alpha * A[i][k];  for j: C[i][j] += t * B[k][j];
    after:     for j: C[i][j] += (alpha * A[i][k]) * B[k][j];
    requires:  each read gets what the statements stored in the same iteration of their loops, and what that was made of
               is the same there
    """

    statements: tuple[str, ...]
    """Those that store, which go, in textual order."""
    readers: tuple[str, ...]

    def __str__(self) -> str:
        return f"{', '.join(self.readers)} computes what {', '.join(self.statements)} held for it"


def substituted(scop: Scop, names: Sequence[str]) -> Step | None:
    """The step that computes what statements store where it is read; None where there is none."""
    with quota(f"the temporaries that {', '.join(names)} store to"):
        made = inlined(scop, names)
    if isinstance(made, str):
        return None
    old = {s.name: s for s in scop.statements}
    readers = tuple(s.name for s in made.statements if s is not old[s.name])
    return Step(Substituted(tuple(names), readers), scop, made)


def forward(scop: Scop) -> Iterator[Step]:
    """Substitute the scalars between array elements and the products that they are factors of, where these become
    contractions that a microkernel keeps in blocks of registers. Raises QuotaExceeded.

    Steps are checked once it is known which are of use: of a hundred scalars none may be, and each check looks at all
    of the program.
    """
    names = _candidates(scop)
    while names:
        made: dict[str, Step] = {}
        for name in names:
            last = applied(scop, made.values())
            step = substituted(last, [users(last, name)[0].name])
            if step is not None:
                made[name] = step
        kept = list(made)
        if kept == names:
            kept = _useful(scop, names, applied(scop, made.values()))
        if kept == names:
            kept = [name for name, step in made.items() if step.broken() is None]
        if kept == names:
            yield from made.values()
            return
        names = kept


def _candidates(scop: Scop) -> list[str]:
    """Scalars that hold a product of elements and literals, or what else a step is made of (`Contraction.step`), those
    that others are made of first."""
    found = []
    for name in private_scalars(scop):
        first, *reading = users(scop, name)
        body = first.body
        element = scop.arrays[name].element
        if not isinstance(body, Assignment) or body.op != "=" or not loads(body.value):
            continue
        made = element.is_float and (_is_product(body.value) or in_lanes(body.value, element))
        if (made or is_part_of_word(body.value)) and reading and only_read(reading, name):
            found.append(name)
    return _summed_up(scop, found)


def _summed_up(scop: Scop, names: list[str]) -> list[str]:
    """Those of the scalars of which every use ends in a statement that reads the element that it makes: in no other
    there will be a contraction."""
    while True:
        holding = {users(scop, name)[0].name for name in names}
        kept = [
            name for name in names if all(s.name in holding or _is_made_of_itself(s) for s in users(scop, name)[1:])
        ]
        if kept == names:
            return names
        names = kept


def _is_made_of_itself(statement: Statement) -> bool:
    body = statement.body
    if not isinstance(body, Assignment):
        return False
    target = statement.target.array
    return body.op != "=" or any(statement.accesses[i].array == target for i in loads(body.value))


def only_read(statements: Sequence[Statement], name: str) -> bool:
    return all(
        isinstance(s.body, Assignment) and all(a.array != name or not a.write for a in s.accesses) for s in statements
    )


def _is_product(value: Expr) -> bool:
    return all(isinstance(one, Load | Const) for one in factors_of(value, lambda convert: convert.exact))


def _useful(scop: Scop, names: list[str], made: Scop) -> list[str]:
    """Those of the scalars whose every use ends in a statement that is a contraction now and was none."""
    useful = list(names)
    while True:
        holding = {users(scop, name)[0].name for name in useful}
        good = {
            s.name
            for s in made.statements
            if _in_blocks(made, s) and kernel_contraction(scop, scop.statement(s.name)) is None
        }
        kept = [name for name in useful if all(s.name in good | holding for s in users(scop, name)[1:])]
        if kept == useful:
            return useful
        useful = kept


def _in_blocks(scop: Scop, statement: Statement) -> bool:
    """Whether a microkernel keeps blocks of what a statement adds in registers: a product, or products one by one."""
    terms = products(scop, statement)
    return all(has_register_blocks(scop, one) for one in terms) if terms else has_register_blocks(scop, statement)


def values_of_extremes(scop: Scop) -> Iterator[Step]:
    """Substitute the scalars that only the search for one extreme reads, and what is kept of its last: such a search
    has no parts of its result, and tests many values at once where none is on the way. Raises QuotaExceeded."""
    for name in private_scalars(scop):
        first, *reading = users(scop, name)
        extremes = {one.extreme for s in reading for one in places(s) if one.last and one.extreme != name}
        if len(extremes) == 1 and all(s.target.array in extremes or keeps(s) for s in reading):
            step = substituted(scop, [first.name])
            if step is not None and step.broken() is None:
                yield step
                scop = step.after


def results_of_blocks(scop: Scop) -> Iterator[Step]:
    """Substitute the temporaries between an array that holds sums in blocks of registers, and the element that is made
    of one of them. Raises QuotaExceeded."""
    sums = {s.target.array for s in scop.statements if isinstance(s.body, Assignment) and has_register_blocks(scop, s)}

    def wanted(after: Scop, last: Statement) -> bool:
        assert isinstance(last.body, Assignment)
        return not adds(last.body.op) and any(last.accesses[i].array in sums for i in loads(last.body.value))

    yield from substituted_runs(scop, wanted)


def substituted_runs(scop: Scop, wanted: Callable[[Scop, Statement], bool]) -> Iterator[Step]:
    """Substitute what the statements right before one store for it, where it is `wanted` then."""
    for name in [s.name for s in scop.statements]:
        run = _run(scop, name)
        step = substituted(scop, run) if run else None
        if step is not None and wanted(step.after, step.after.statement(name)) and step.broken() is None:
            yield step
            scop = step.after


def _run(scop: Scop, name: str) -> list[str]:
    """The longest run of statements right before one, in the same iterations, that store to scalars which nothing uses
    behind it; empty where it is gone."""
    place = next((i for i, s in enumerate(scop.statements) if s.name == name), 0)
    last = scop.statements[place]
    later = {a.array for s in scop.statements[place + 1 :] for a in s.accesses}
    later |= {a.array for a in last.accesses if a.write}
    written: set[str] = set()
    read = {a.array for a in last.accesses if not a.write}
    found = first = place
    while first > 0 and _in_one_loop(scop.statements[first - 1], last):
        first -= 1
        accesses = scop.statements[first].accesses
        new = {a.array for a in accesses if a.write} - written
        # What ends a run ends each longer one.
        if not later.isdisjoint(new) or any(private_depth(scop, x) != last.depth for x in new):
            break
        written |= new
        read |= {a.array for a in accesses if not a.write}
        if read >= written:
            found = first
    return [s.name for s in scop.statements[found:place]]


def _in_one_loop(one: Statement, two: Statement) -> bool:
    """Whether two assignments have the same iterations."""
    if not isinstance(one.body, Assignment) or not isinstance(two.body, Assignment):
        return False
    loops = [(s.position[:-1], s.iterators, s.descending) for s in (one, two)]
    return loops[0] == loops[1] and one.domain.reset_tuple_id().is_equal(two.domain.reset_tuple_id())

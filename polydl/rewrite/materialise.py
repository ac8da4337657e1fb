"""Where the values of private scalars and rows are stored: nowhere, in the array element that they end in, or in an
array of their own.

    for i: for j: { s = 0; for k: s += A[i][k] * B[k][j]; C[i][j] = s; }

`s` is private to each (i, j), and since `C[i][j] = s` only copies it, the sum may be made in place (`InPlace`).

    for i: for j: { s = 0; for k: s += A[i][k] * B[k][j]; C[i][j] = s > C[i][j] ? s : C[i][j]; }
    for i: { for j: { h[j] = 0; for k: h[j] += A[i][k] * B[k][j]; }  for j: A[i][j] = h[j]; }

An accumulator that ends in something else gets an element for each of its values (`Expanded`; scalar expansion: Padua
and Wolfe, "Advanced compiler optimizations for supercomputers", CACM 1986; the other way round: `rewrite.contract`). A
row is expanded where it is added up, or multiplied in a sum: the values between two layers of a network.

    for k: { int a = A[i][k] - za; int b = B[k][j] - zb; s += a * b; }
    for k: { t = alpha * A[i][k]; for j: C[i][j] += t * B[k][j]; }
    float v = s * scale; v = v < 0 ? 0 : v; C[i][j] = (int8_t)v;

What only holds a value for others is computed where it is read (`Substituted`): what sums add is a product of array
elements then, and what follows them is one assignment, which a microkernel may end with.

But for sums in place, and for what only the search for the last of equal extremes reads, all of this is only done
around sums that a microkernel keeps in blocks of registers, which is tried out: elsewhere a scalar is as good, and
saves work. All of it leaves what is computed as it is: the check compares values, which have no place.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from polydl.base.records import dataclass
from polydl.dependences.analysis import dependences
from polydl.dependences.nests import nests
from polydl.dependences.scalars import private_depth, private_scalars, private_storage, users
from polydl.equations.step import RegroupingRule, Rule, Step, applied, one_by_one
from polydl.equations.substitution import inlined
from polydl.model import isl
from polydl.model.accumulation import accumulation, addition, keeps, places
from polydl.model.bf16_words import is_part_of_word
from polydl.model.combiners import SUM
from polydl.model.contraction import in_lanes
from polydl.model.expr import Const, Load, factors_of, is_zero, loads
from polydl.model.isl import quota
from polydl.model.scop import Access, Assignment, Scop, Statement, Storage, without_scalar
from polydl.model.time import common_depth, prefix
from polydl.rewrite.reduction_fission import products, reduction_fission
from polydl.rewrite.reroll import reroll
from polydl.rewrite.scratch_array import is_box, stored_in
from polydl.rewrite.storage import Expanded, expanded
from polydl.rewrite.triangle_padding import staircase
from polydl.rewrite.widen import widen
from polydl.target.isa import has_register_blocks, kernel_contraction


@dataclass(frozen=True, slots=True)
class InPlace(Rule):
    """A private accumulator becomes the array element that it ends up in.

    before:    s = e;  for k: s += …;  C[f(i)] = g(s)
    after:     C[f(i)] = e;  for k: C[f(i)] += …;  C[f(i)] = g(C[f(i)])
    requires:  s private to the last statement's iteration and of C's type; C[f(i)] not accessed between the two

    Where g(s) is s the last statement goes away, where e is C[f(i)] the first.
    """

    scalar: str
    array: str
    statements: tuple[str, ...]
    """Those that use the scalar, in textual order."""
    left_out: tuple[str, ...]
    """Those of them that only copy."""

    def __str__(self) -> str:
        copies = f"; {', '.join(self.left_out)} only copied it" if self.left_out else ""
        return f"{self.scalar} is the element of {self.array} that it ends in{copies}"


@dataclass(frozen=True, slots=True)
class AddedInPlace(RegroupingRule, InPlace):
    """A private sum is added to the array element that it ends up in, term by term.

    before:    s = 0;  for k: s += …;  C[f(i)] += s
    after:     for k: C[f(i)] += …
    requires:  as `InPlace`, and leave to reassociate
    """


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


# What is wanted.


def through(scop: Scop, *rewrites: Callable[[Scop], Iterable[Step]]) -> Scop:
    """The program after some rewrites, one after the other."""
    for rewrite in rewrites:
        scop = applied(scop, rewrite(scop))
    return scop


def in_blocks(scop: Scop, names: Iterable[str]) -> bool:
    """Whether microkernels keep blocks of what statements add in registers."""
    return all(has_register_blocks(scop, scop.statement(name)) for name in names)


def finished(scop: Scop) -> Scop:
    """The program after the rewrites that contractions come of."""
    return through(scop, in_place, forward, reduction_fission, reroll, widen, staircase)


def alone(scop: Scop, statements: Sequence[Statement]) -> bool:
    """Whether each of the statements is in loops of its own. Raises QuotaExceeded."""
    parts = nests(scop, dependences(scop, reads=False))
    return {n.statements[0].name for n in parts if len(n.statements) == 1} >= {s.name for s in statements}


def left(scop: Scop, added: int = 0) -> tuple[int, int]:
    """How many sums are no contractions in blocks of registers, but for `added` ones, and how many of those that are
    have loops whose bounds change."""
    sums = [s for s in scop.statements if addition(s) is not None]
    blocks = [s for s in sums if has_register_blocks(scop, s)]
    return len(sums) - len(blocks) - added, sum(not is_box(s) for s in blocks)


# In the element that it ends in.


def in_place(scop: Scop, *, reassociate: bool = True) -> Iterator[Step]:
    """Make every private accumulator that ends up in an array element that element (`InPlace`). Raises
    QuotaExceeded."""
    return one_by_one(scop, private_scalars(scop), lambda one, name: _in_place(one, name, reassociate))


def _in_place(scop: Scop, name: str, reassociate: bool) -> Step | None:
    using = users(scop, name)
    if len(using) < 3:
        return None
    first, *between, last = using
    target = _result(last, name)
    if target is None or scop.arrays[target.array].storage is Storage.SCRATCH:
        return None  # a rewrite has put it there, and in a scalar it keeps its loops together (`around_products`)
    if last.depth != first.depth or common_depth(first, last) != last.depth:
        return None
    if not all(_makes_anew(scop, s, name, first.depth) for s in between):
        return None
    assert isinstance(last.body, Assignment)
    assert isinstance(first.body, Assignment)
    copies, adding = isinstance(last.body.value, Load), last.body.op == SUM.op
    if adding and not (reassociate and all(map(addition, between)) and copies and is_zero(first.body.value)):
        return None
    dropped = ({last.name} if copies else set()) | ({first.name} if adding or _reads_only(first, target) else set())
    element = isl.domain_named(target.relation, None)
    moved = {s.name: stored_in(s, name, target.array, prefix(s, last.depth).apply_range(element)) for s in using}
    statements = tuple(moved.get(s.name, s) for s in scop.statements if s.name not in dropped)
    made = without_scalar(replace(scop, statements=statements), name)
    stepping = [s.name for s in between if _steps(scop, s)]
    if stepping and not in_blocks(through(made, forward), stepping):
        return None
    what = (AddedInPlace if adding else InPlace)(
        name, target.array, tuple(s.name for s in using), tuple(s.name for s in using if s.name in dropped)
    )
    return Step(what, scop, made)


def _result(statement: Statement, name: str) -> Access | None:
    """The write of `C[…] = g(s)` or `C[…] += s`; None for any other statement."""
    body = statement.body
    if not isinstance(body, Assignment) or body.op not in ("=", SUM.op):
        return None
    target = statement.target
    return target if _reads(statement, name) and target.array != name and not statement.domain.is_empty() else None


def _reads(statement: Statement, name: str) -> bool:
    """Whether the value of an assignment is made of a scalar."""
    body = statement.body
    return isinstance(body, Assignment) and any(statement.accesses[i].array == name for i in loads(body.value))


def _reads_only(first: Statement, target: Access) -> bool:
    """Whether a statement takes the value of the element, and nothing else: s = C[f(i)]."""
    body = first.body
    if not isinstance(body, Assignment) or not isinstance(body.value, Load):
        return False
    read = first.accesses[body.value.access]
    if read.array != target.array:
        return False
    return bool(isl.domain_named(read.relation, None).is_equal(isl.domain_named(target.relation, None)))


def _makes_anew(scop: Scop, statement: Statement, name: str, depth: int) -> bool:
    """Whether a statement accumulates into the scalar, in whatever way (s += x, m = e > m ? e : m), or gives it another
    value once for each time that it begins: s = s * 0.5 + R[i][j]."""
    body = statement.body
    if not isinstance(body, Assignment) or statement.target.array != name:
        return False
    if body.op != "=":
        return not _reads(statement, name)
    return _steps(scop, statement) or (statement.depth == depth and _reads(statement, name))


def _steps(scop: Scop, statement: Statement) -> bool:
    """Whether a statement accumulates in another way: m = e > m ? e : m."""
    body = statement.body
    return isinstance(body, Assignment) and body.op == "=" and accumulation(scop, statement) is not None


# Nowhere.


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
            after = applied(scop, made.values())
            kept = _ending_in(scop, names, {s.name for s in after.statements if _new_in_blocks(scop, after, s)})
        if kept == names:
            kept = [name for name, step in made.items() if step.broken() is None]
        if kept == names:
            yield from made.values()
            return
        names = kept


def _candidates(scop: Scop) -> list[str]:
    """Scalars that hold a product of elements and literals, or what else a step is made of (`Contraction.step`), those
    that others are made of first; only where every use ends in a statement that reads the element that it makes: in no
    other there will be a contraction."""
    found = []
    for name in private_scalars(scop):
        first, *reading = users(scop, name)
        body = first.body
        element = scop.arrays[name].element
        if not isinstance(body, Assignment) or body.op != "=" or not loads(body.value):
            continue
        factors = factors_of(body.value, lambda convert: convert.exact)
        is_product = all(isinstance(one, Load | Const) for one in factors)
        made = element.is_float and (is_product or in_lanes(body.value, element))
        if (made or is_part_of_word(body.value)) and reading and only_read(reading, name):
            found.append(name)
    return _ending_in(scop, found, {s.name for s in scop.statements if _is_made_of_itself(s)})


def _ending_in(scop: Scop, names: list[str], ends: Collection[str]) -> list[str]:
    """Those of the scalars, each of which one statement stores to, of which every use leads to one of the statements
    `ends`."""
    while True:
        holding = {users(scop, name)[0].name for name in names}
        kept = [name for name in names if all(s.name in holding or s.name in ends for s in users(scop, name)[1:])]
        if kept == names:
            return names
        names = kept


def _is_made_of_itself(statement: Statement) -> bool:
    body = statement.body
    return isinstance(body, Assignment) and (body.op != "=" or _reads(statement, statement.target.array))


def _new_in_blocks(before: Scop, scop: Scop, statement: Statement) -> bool:
    """Whether a microkernel keeps blocks of what a statement adds in registers, a product or products one by one, and
    there was none for it before."""
    terms = products(scop, statement) or [statement]
    blocks = all(has_register_blocks(scop, one) for one in terms)
    return blocks and kernel_contraction(before, before.statement(statement.name)) is None


def only_read(statements: Sequence[Statement], name: str) -> bool:
    """Whether assignments are all that uses an array, and none of them writes it."""
    return all(
        isinstance(s.body, Assignment) and all(a.array != name or not a.write for a in s.accesses) for s in statements
    )


def values_of_extremes(scop: Scop) -> Iterator[Step]:
    """Forward substitution of scalars that nothing but one search for an extreme reads.

        before:    v = a[i] - b[i];  if (v >= m) { m = v; at = i; }
        after:     if (a[i] - b[i] >= m) { m = a[i] - b[i]; at = i; }

    Only for searches that keep the last of equal extremes (`>=`): their results are not computed in parts, and without
    the scalar a vector of values is compared at once, with nothing to store as long as none is greater. Raises
    QuotaExceeded.
    """

    def made(scop: Scop, name: str) -> Step | None:
        first, *reading = users(scop, name)
        extremes = {one.extreme for s in reading for one in places(s) if one.last and one.extreme != name}
        only = len(extremes) == 1 and all(s.target.array in extremes or keeps(s) for s in reading)
        return substituted(scop, [first.name]) if only else None

    return one_by_one(scop, private_scalars(scop), made)


def results_of_blocks(scop: Scop) -> Iterator[Step]:
    """Substitute the temporaries between an array that holds sums in blocks of registers, and the element that is made
    of one of them. Raises QuotaExceeded."""
    sums = {s.target.array for s in scop.statements if isinstance(s.body, Assignment) and has_register_blocks(scop, s)}

    def wanted(after: Scop, last: Statement) -> bool:
        return addition(last) is None and any(_reads(last, name) for name in sums)

    return substituted_runs(scop, wanted)


def results_of_sums(scop: Scop) -> Iterator[Step]:
    """Substitute the temporaries between a private accumulator that gets an array of its own by it, and the element
    that is made of it (`Substituted`). Raises QuotaExceeded."""

    def wanted(after: Scop, last: Statement) -> bool:
        assert isinstance(last.body, Assignment)
        read = {last.accesses[i].array for i in loads(last.body.value)}
        inside = (s for s in after.statements if s.iterators[: last.depth] == last.iterators and s.depth > last.depth)
        if read.isdisjoint(s.target.array for s in inside if addition(s) is not None):
            return False
        return any(isinstance(step.rewrite, Expanded) and step.rewrite.name in read for step in expand(after))

    return substituted_runs(scop, wanted)


def substituted_runs(scop: Scop, wanted: Callable[[Scop, Statement], bool]) -> Iterator[Step]:
    """Substitute what the statements right before one store for it, where it is `wanted` then."""

    def made(one: Scop, name: str) -> Step | None:
        run = _run(one, name)
        step = substituted(one, run) if run else None
        return step if step is not None and wanted(step.after, step.after.statement(name)) else None

    return one_by_one(scop, [s.name for s in scop.statements], made)


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


# In an array of its own.


def expand(scop: Scop) -> Iterator[Step]:
    """Expand the accumulators of contractions that end in no array element (`Expanded`), where the elements are no more
    than the program has anyway. Raises QuotaExceeded."""

    def made(one: Scop, stored: tuple[str, int]) -> Step | None:
        name, depth = stored
        using = users(one, name)
        if not any(_adds(one, s, name) for s in using) or not all(isinstance(s.body, Assignment) for s in using):
            return None
        step = expanded(one, name, depth)
        return step if step is not None and _useful(step) else None

    return one_by_one(scop, private_storage(scop).items(), made)


def _adds(scop: Scop, statement: Statement, name: str) -> bool:
    """Whether a statement adds up in a scalar, or adds up elements of an array or in one."""
    if addition(statement) is None:
        return False
    target = statement.target
    if scop.arrays[name].is_scalar:
        return target.array == name
    several = not target.relation.intersect_domain(statement.domain).is_injective()
    return several and any(access.array == name for access in statement.accesses)


def _useful(step: Step) -> bool:
    """Whether what is added to an expanded scalar is a contraction in blocks of registers afterwards, alone in its
    loops, but none where the scalar becomes the array element that it may end in, or one in a triangle."""
    assert isinstance(step.rewrite, Expanded)
    tried = finished(step.after)
    adding = [s for s in tried.statements if _adds(tried, s, step.rewrite.array)]
    blocks = bool(adding) and in_blocks(tried, [s.name for s in adding])
    return blocks and alone(tried, adding) and left(tried) < left(finished(step.before))

"""Innermost loops as kernels see them: statements whose instances stand side by side in a row of columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from types import MappingProxyType

from polydl.base.records import dataclass
from polydl.kernels.row_loops import RowLoops, RowStatement
from polydl.kernels.vector_text import NotVectorised
from polydl.model import isl
from polydl.model.layout import Layout
from polydl.model.scop import Access, Array, Assignment, Statement
from polydl.model.strides import subscript_rows
from polydl.model.time import map_from_affs
from polydl.target.isa import Isa

VECTOR = 1
"""The shape of a row, in vectors of columns that one step takes."""


@dataclass(frozen=True, slots=True)
class RowOptions:
    """What a row may do."""

    stream: frozenset[str] = frozenset()
    """Arrays that are stored past the caches."""
    reassociate: bool = True
    """Sums may be added up in another order."""
    fast_math: bool = False
    """See Scop."""
    long: str = ""
    """See Scop."""
    jam: bool = False
    """Iterations of the loops around that are written out inside of a row are part of it."""


@dataclass(frozen=True, slots=True)
class Printed:
    """The loops of a piece as they are printed; which instances run in a row is known exactly there."""

    body: tuple[RowStatement, ...]
    loops: RowLoops
    private: frozenset[str]
    """Scalars that no statement outside of the body uses, and whose first user writes them."""
    options: RowOptions
    turned: bool = False
    """Whether the first column is the last iteration: what the row touches lies in memory the other way round."""
    _relations: dict[tuple[int, int], tuple[Access, isl.Map]] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )
    """By statement and the identity of an access, which is kept, its `relation`."""

    def relation(self, at: int, access: Access) -> isl.Map:
        """{ [c…] -> A[a…] } what a statement's access touches, in terms of the loops in C."""
        key = at, id(access)
        if key not in self._relations:
            self._relations[key] = access, self.body[at].schedule.reverse().apply_range(access.relation)
        return self._relations[key][1]

    def apart(self, one: isl.Map, other: isl.Map) -> bool:
        """Whether a row never touches the same element in two ways. `one`, `other`: { [c…] -> A[a…] } the ways."""
        pairs = one.apply_range(other.reverse())
        return bool(isl.agree(pairs, range(self.loops.dims[0])).is_empty())

    def along(self, array: Array, at: int, access: int) -> int | None:
        """By how many elements an iteration of a statement's loop inside of the row moves an access; None where that is
        not one number."""
        relation = self.relation(at, self.body[at].statement.accesses[access])
        return 0 if array.is_scalar else _elements(array, relation, isl.domain_arity(relation) - 1)

    def growth(self, at: int, value: isl.PwAff) -> int | None:
        """By how much a value of a statement grows from one column to the next; None where it is not one number."""
        relation = self.body[at].schedule.reverse().apply_range(isl.Map.from_pw_aff(value))
        along = [factors[d] for d in self.loops.dims] if (factors := _factors(relation)) is not None else [None]
        return _continued(along, self.loops)


@dataclass(frozen=True, slots=True)
class Innermost:
    """An innermost loop, with the loops around it that go on where it ends: a row of columns.

    No iteration needs what another one makes, but for elements that a statement writes in all of them (its target's
    move is 0): what becomes of those is for the family to see.
    """

    arrays: Mapping[str, Array]
    statements: tuple[Statement, ...]
    moves: tuple[tuple[float | None, ...], ...]
    """Per statement and access the elements from one column to the next; None where that is not one number."""
    shares: tuple[tuple[float, ...], ...]
    """Per statement and access the part of its loads and stores that is left when loops inside are written out."""
    times: tuple[float, ...]
    """Instances of each statement in a column: more than one where loops inside are written out."""
    printed: Printed | None = None
    """None: only what it would take is asked."""
    inner: Mapping[int, int] = field(default_factory=dict)
    """Statements that each column runs in one more loop, by their place: its iterations, any number of them known."""
    in_place: bool = False
    """Whether columns read elements that later ones write, `v[i] = f(v[i], v[i + 1])`: they have to run in their order,
    and those that run together have to read before any of them writes."""


@dataclass(frozen=True, slots=True)
class Argument:
    """An element, or its address, that a statement touches in the first column; or a value made of loop variables."""

    statement: int
    access: int
    """Of an affine value its place among those of the statement's right-hand side, from left to right."""
    pointer: bool
    affine: bool = False


@dataclass(frozen=True, slots=True)
class RowFunction:
    """A vector function and what it is called with."""

    name: str
    text: str
    """C definitions; ends in a newline."""
    signature: str
    """`const ptrdiff_t n`, the columns, comes first."""
    prologue: tuple[str, ...]
    """File-scope pieces that must stand before it."""
    arguments: tuple[Argument, ...]
    """Those behind the length."""
    streams: bool = False
    """Whether it stores past the caches."""
    gathers: bool = False
    """Whether it reads and writes elements that stay where they are, in a row without columns, too."""

    @property
    def always_touches(self) -> bool:
        """Whether a call reads or writes elements though its row has no columns: those need not be there."""
        return self.gathers or any(not one.pointer and not one.affine for one in self.arguments)


class OfRows:
    """What is the same for every family of innermost loops."""

    def shapes(self, use: object, isa: Isa) -> Sequence[int]:
        """One vector of columns for each step: how wide it is, the instruction set says."""
        return (VECTOR,)

    def layouts(self, use: object, shape: int) -> Mapping[str, Layout]:
        """None: an operand that does not lie side by side along the row is no match."""
        return {}


def stated(name: str, signature: str, meaning: str, body: str) -> str:
    """C text of a function with its meaning above it, in one line: there the proof reads what calls of it do."""
    return f"/* does: {meaning} */\nstatic inline __attribute__((unused)) void {name}({signature})\n{{\n{body}}}\n"


def printed(
    arrays: Mapping[str, Array],
    private: frozenset[str],
    loops: RowLoops,
    body: Sequence[RowStatement],
    options: RowOptions,
    inner: Mapping[int, int] = MappingProxyType({}),
    alike: Sequence[int] = (),
) -> Innermost:
    """The piece that printed loops are; `inner`: see `Innermost`; `alike`: per statement the place of the first one
    that moves as it does, where that is known. Raises NotVectorised where they are no row: a call, iterations that need
    each other. Where all that moves goes down one element at a time, the row is turned round."""
    for at in body:
        if not isinstance(at.statement.body, Assignment):
            raise NotVectorised(f"{at.statement.name} is a call")
    alike = alike or range(len(body))
    piece = _piece(arrays, Printed(tuple(body), loops, private, options), inner, alike)
    if not inner and {move for moves in piece.moves for move in moves if move != 0} == {-1}:
        turned = tuple(RowStatement(at.statement, _turned(at.schedule, loops)) for at in body)
        piece = _piece(arrays, Printed(turned, loops, private, options, turned=True), inner, alike)
    assert piece.printed is not None
    return replace(piece, in_place=_is_in_place(piece, piece.printed))


def _turned(schedule: isl.Map, loops: RowLoops) -> isl.Map:
    """A schedule whose loops of a row run the other way."""
    times = schedule.range()
    affs = [aff.neg() if d in loops.dims else aff for d, aff in enumerate(isl.coordinates(times))]
    return schedule.apply_range(map_from_affs(times, affs))


def _piece(arrays: Mapping[str, Array], where: Printed, inner: Mapping[int, int], alike: Sequence[int]) -> Innermost:
    statements = tuple(at.statement for at in where.body)
    first = {
        n: tuple(move_along(arrays[a.array], where.relation(n, a), where.loops) for a in statements[n].accesses)
        for n in dict.fromkeys(alike)
    }
    moves = tuple(first[n] for n in alike)
    shares = tuple((1.0,) * len(s.accesses) for s in statements)
    return Innermost(arrays, statements, moves, shares, (1.0,) * len(statements), where, inner)


def move_along(array: Array, relation: isl.Map, loops: RowLoops) -> int | None:
    """Elements from one iteration of the row to the next; None where it is not one number, or the loops of the row do
    not continue each other."""
    if array.is_scalar:
        return 0
    rows = subscript_rows(relation, relation.domain(), from_anywhere=True)
    if rows is None:
        return None
    return _continued([array.layout.distance([factors[d] for factors, _ in rows]) for d in loops.dims], loops)


def _continued(along: Sequence[int | None], loops: RowLoops) -> int | None:
    """What the innermost loop adds, where each outer one goes on where it ends."""
    inner = along[-1]
    for extent, outer, next_ in zip(loops.extents, along, along[1:], strict=False):
        if outer is None or next_ is None or outer != extent * next_:
            return None
    return inner


def _factors(relation: isl.Map) -> tuple[int, ...] | None:
    """The factor of each loop in the one value that a relation gives; None where that is no such sum."""
    rows = subscript_rows(relation, relation.domain(), from_anywhere=True)
    return None if rows is None else rows[0][0]


def _elements(array: Array, relation: isl.Map, loop: int) -> int | None:
    """By how many elements one iteration of a loop moves an access."""
    rows = subscript_rows(relation, relation.domain(), from_anywhere=True)
    return None if rows is None else array.layout.distance([factors[loop] for factors, _ in rows])


def _is_in_place(piece: Innermost, where: Printed) -> bool:
    """See `Innermost.in_place`. Raises NotVectorised where an iteration of the row needs what another one makes."""
    for at, statement in enumerate(piece.statements):
        assert isinstance(statement.body, Assignment)
        if piece.moves[at][statement.body.target] is None:
            target = statement.target.array
            raise NotVectorised(f"{target} does not move by the same number of elements all along the row")
    written = {a.array for s in piece.statements for a in s.accesses if a.write}
    for at in piece.inner:
        body = piece.statements[at].body
        own = piece.statements[at].target.array if isinstance(body, Assignment) else ""
        if any(a.array != own and a.array in written for a in piece.statements[at].accesses):
            raise NotVectorised("a sum inside of a row over what the row changes")
    in_place = False
    for one, statement in enumerate(piece.statements):
        for number, a in enumerate(statement.accesses):
            if not a.write or piece.moves[one][number] == 0:
                continue
            for two, other in enumerate(piece.statements):
                for b in other.accesses:
                    if a.array != b.array:
                        continue
                    pairs = _conflicts(where, where.relation(one, a), where.relation(two, b))
                    if pairs.is_empty():
                        continue
                    if b.write or where.turned or not pairs.is_subset(isl.Map.lex_gt(pairs.get_space().domain())):
                        raise NotVectorised(f"iterations touch the same elements of {a.array}")
                    in_place = True
    return in_place


def conflict(where: Printed, a: isl.Map, b: isl.Map) -> bool:
    """Whether two different iterations of one row touch the same element."""
    return not _conflicts(where, a, b).is_empty()


def _conflicts(where: Printed, a: isl.Map, b: isl.Map) -> isl.Map:
    """{ [c…] -> [c…] } the pairs of different iterations of one row that touch the same element: in the way of `a`, and
    in that of `b`."""
    pairs = a.apply_range(b.reverse())
    return isl.differ(isl.agree(pairs, range(where.loops.dims[0])), where.loops.dims)

"""Which innermost loops of a schedule tree become rows, asked of the families before any C is written.

What is printed decides (`lower.passes.row_calls`): conditions and bounds of the printed loops are known there alone.
Here the same piece is built from the tree, and the same families are asked, so that estimates say what will be there
(tests/rank/test_predicted_rows.py holds both against each other).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product

from polydl.base.records import dataclass
from polydl.kernels.families import has_row
from polydl.kernels.innermost import RowOptions, printed
from polydl.kernels.row_loops import RowStatement, in_columns, row_loops, together
from polydl.kernels.vector_text import NotVectorised
from polydl.model import isl
from polydl.model.scop import Scop, Statement
from polydl.model.time import map_from_affs
from polydl.schedule.innermost_passes import WRITTEN_OUT
from polydl.schedule.tree import Member, Node, rows_of, summed_cut


@dataclass(frozen=True, slots=True)
class Inside:
    """A statement of an innermost loop."""

    statement: Statement
    loops: tuple[Member, ...]
    """Above it, outermost first, the innermost one included."""
    written_out: tuple[Member, ...]
    """Those below that, all of them written out."""
    inner: Member | None = None
    """The one loop below that, inside of the row, in which each column adds something up."""


def row_options(scop: Scop, part: Node) -> Mapping[str, RowOptions]:
    """By statement of a part of a program what the innermost loops around it may become; those of others stay loops."""
    if summed_cut(part) is not None:
        return {}
    return {
        name: RowOptions(frozenset(rows.stream), not rows.keep_order, scop.fast_math, scop.long, bool(rows.jam))
        for name, rows in rows_of(part).items()
    }


def common_options(names: Iterable[str], options: Mapping[str, RowOptions]) -> RowOptions | None:
    """What an innermost loop around some statements may become; None: it stays a loop."""
    several = {options.get(name) for name in names}
    return several.pop() if len(several) == 1 else None


def becomes_row(scop: Scop, private: frozenset[str], inside: Sequence[Inside], options: RowOptions) -> bool:
    """Whether a family has a function for an innermost loop with these statements. `private`: scalars of which each
    thread may have its own."""
    if any(one.written_out for one in inside) and not options.jam:
        return False
    names = {one.statement.name for one in inside}
    own = private - {a.array for s in scop.statements if s.name not in names for a in s.accesses}
    try:
        running = [(at, one.inner) for one in inside for at in _instances(one)]
        if not running:
            return False  # the loop has no iteration
        inner = [loop is not None for _, loop in running]
        body = together([at for at, _ in running], inner)
        loops = row_loops(in_columns(body, inner), ())
        sums = {k: _iterations(at, loop) for k, (at, loop) in enumerate(running) if loop is not None}
        # Iterations of a loop that is written out differ in constants alone.
        in_turn = [at.statement.name for at in body]
        alike = list(map(in_turn.index, in_turn))
        return has_row(printed(scop.arrays, own, loops, body, options, sums, alike))
    except NotVectorised:
        return False


def _instances(inside: Inside) -> Iterator[RowStatement]:
    """The statement once for each iteration of the loops that are written out. Raises NotVectorised where they are not
    short."""
    name, domain = inside.statement.name, inside.statement.domain
    around = [member.affs[name] for member in (*inside.loops, *([inside.inner] if inside.inner is not None else []))]
    places = {id(member.key): place for place, member in enumerate(inside.loops) if member.tile > 1}
    tiled = {places[id(member.key)]: member for member in inside.written_out if id(member.key) in places}
    whole = [_values(m.affs[name], domain) for m in inside.written_out if id(m.key) not in places]
    every = [range(inside.loops[place].tile) for place in tiled]
    if math.prod(map(len, (*whole, *every))) > WRITTEN_OUT:
        raise NotVectorised("a long loop is written out")
    for values in product(*every):
        # Where the loop over tiles of s is at t, iteration v of a tile is where the loop itself is at s*t + v.
        affs = list(around)
        for (place, member), value in zip(tiled.items(), values, strict=True):
            offset = member.affs[name].add_constant_val(isl.value(-value))
            affs[place] = offset.scale_down_val(isl.value(inside.loops[place].tile))
        times = map_from_affs(domain, affs)
        for sets in product(*whole):
            some = times
            for one in sets:
                some = some.intersect_domain(one)
            if not some.is_empty():
                yield RowStatement(inside.statement, some)


def _iterations(at: RowStatement, loop: Member) -> int:
    """How often a loop runs. Raises NotVectorised where that is not one number."""
    inner = isl.Map.from_aff(loop.affs[at.statement.name]).intersect_domain(at.statement.domain)
    around = isl.range_onto(at.schedule, range(isl.range_arity(at.schedule) - 1))
    each = around.reverse().apply_range(inner)
    ends = [(isl.least(one, 0), isl.greatest(one, 0)) for one in (each.lexmin().range(), each.lexmax().range())]
    (least, first), (last, most) = ends
    if least is None or most is None or least < 0 or least != first or last != most:
        raise NotVectorised("a loop of any length inside of a row")
    return most - least + 1


def _values(aff: isl.Aff, domain: isl.Set) -> list[isl.Set]:
    """Instances for each value of a loop that is written out. Raises NotVectorised where the values are many."""
    loop = isl.Map.from_aff(aff)
    values = loop.intersect_domain(domain).range()
    least, most = isl.least(values, 0), isl.greatest(values, 0)
    if least is None or most is None or most - least >= WRITTEN_OUT:
        raise NotVectorised("a long loop is written out")
    return [loop.intersect_range(isl.fix(values, 0, value)).domain() for value in range(least, most + 1)]

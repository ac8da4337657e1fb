"""Makes the isl schedule tree of a structure, with the copies and calls that its AST runs as statements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from polydl.lower.packing_plan import PackCall
from polydl.model import isl
from polydl.model.isl.trees import add_loop, add_mark, add_sequence, partial_schedule, separated, tree_of, union_set
from polydl.model.schedule import map_from_affs
from polydl.model.scop import Statement
from polydl.schedule.kernel_call import Edge, KernelCall
from polydl.schedule.structure import HILBERT, Structure, loop_aff, normalised, outer_affs, rest_affs

PARALLEL = "parallel"
SERIAL = "serial"
COPIED = "copied"
CURVE = "curve"
SIMD = "simd"
SUM = "sum"
"""Mark names: the loops from the first to the next are to be run by all threads, collapsed. After PARALLEL the name may
go on with OpenMP clauses. CURVE stands for PARALLEL where two loops run along a space-filling curve. After SIMD, the
next loop runs in vectors."""


@dataclass(frozen=True, slots=True)
class Part:
    """Instances with one aff per dimension of the schedule that is being built."""

    domain: isl.Set
    affs: Sequence[isl.Aff | isl.PwAff]


def union_pw_affs(statements: Sequence[Part], dims: int) -> isl.MultiUnionPwAff:
    """The partial schedule of several statements."""
    columns = [[_pieces(part.affs[d]).intersect_domain(part.domain) for part in statements] for d in range(dims)]
    return partial_schedule(columns, statements[0].domain.get_space())


def _pieces(aff: isl.Aff | isl.PwAff) -> isl.PwAff:
    return isl.PwAff.from_aff(aff) if isinstance(aff, isl.Aff) else aff


def nest_tree(
    structure: Structure, call: KernelCall | None, packs: Sequence[PackCall], edge: Edge | None = None
) -> isl.Schedule:
    """The schedule tree of one nest: a band per loop, marks around the parallel ones, copies where they are due, the
    block at the leaf, then the rows of those blocks that are no boxes, then what is no box either."""
    nest = structure.nest
    depth = max(s.depth for s in nest.statements)
    outer: list[Part] = []
    plain: list[Part] = []
    for statement in nest.statements:
        domain, affs = statement.domain, outer_affs(structure, statement)
        inner = rest_affs(structure, statement, depth)
        if call is not None:
            y = normalised(nest, statement)
            inner = [loop_aff(loop, y[loop.iterator]) for loop in structure.inner]
            covered = map_from_affs(statement.domain, affs).intersect_range(call.domain.reset_tuple_id())
            domain = domain.subtract(covered.domain())
            if not call.domain.is_empty():
                outer.append(Part(call.domain, isl.coordinates(call.domain)))
        if edge is not None:
            rows = edge.call.domain
            in_rows = map_from_affs(domain, outer_affs(edge.structure, statement))
            domain = domain.subtract(in_rows.intersect_range(rows.reset_tuple_id()).domain())
            outer.append(Part(rows, isl.coordinates(rows)[:-1]))
        if not domain.is_empty():
            outer.append(Part(domain, affs))
            plain.append(Part(domain, inner))
    everything = union_set([*(part.domain for part in outer), *(pack.domain for pack in packs)])
    node = _insert_loops(tree_of(everything), structure, outer, packs)
    return _insert_leaf(node, plain, call, edge).get_schedule()


def _insert_loops(
    node: isl.ScheduleNode, structure: Structure, statements: Sequence[Part], packs: Sequence[PackCall]
) -> isl.ScheduleNode:
    parallel = structure.parallel_positions
    if not statements:
        return node
    split = split_positions(structure)
    for position in range(len(structure.loops) + 1):
        due = [p for p in packs if p.depth == position]
        later = [p for p in packs if p.depth > position]
        if due:
            rest = [*(s.domain for s in statements), *(p.domain for p in later)]
            node = insert_copies(node, due, rest, in_parallel=bool(parallel))
        if position == len(structure.loops):
            break
        if parallel and position == parallel[0]:
            node = add_mark(node, CURVE if structure.omp_schedule == HILBERT else PARALLEL + _clause(structure))
            if structure.grid:
                node = add_mark(_insert_grid(node, structure, statements, later), SERIAL)
        column = [Part(s.domain, [s.affs[position]]) for s in statements]
        column += [Part(p.domain, [isl.coordinate(p.domain, position)]) for p in later]
        node = node.insert_partial_schedule(union_pw_affs(column, 1))
        if position in split:
            node = separated(node)
        node = node.child(0)
        if parallel and position == parallel[-1] and not structure.grid:
            node = add_mark(node, SERIAL)
    return node


def split_positions(structure: Structure) -> tuple[int, ...]:
    """Loops of which some statement runs in one iteration only, as a nest does that was fused into the last one: their
    index set is split there (Griebl, Feautrier, Lengauer: "Index set splitting", IJPP 2000), so that no condition is
    left in the loop."""
    nest = structure.nest
    if structure.kernel is not None or len(nest.statements) < 2 or not nest.perfect:
        return ()
    fixed = [{i for i in nest.loops if _is_fixed(s, i)} for s in nest.statements]
    some = {i for i in nest.loops if any(i in one for one in fixed) and not all(i in one for one in fixed)}
    return tuple(p for p, loop in enumerate(structure.loops) if loop.iterator in some)


def _is_fixed(statement: Statement, iterator: str) -> bool:
    """Whether a statement runs for one value of a loop, whatever the loops around it are."""
    return bool(isl.project_onto(statement.domain, [iterator]).is_singleton())


def _clause(structure: Structure) -> str:
    if structure.grid:
        return " schedule(static, 1)"  # thread t takes cell t of the grid; with fewer threads they take turns
    return f" schedule({structure.omp_schedule})" if structure.omp_schedule else ""


def _insert_grid(
    node: isl.ScheduleNode, structure: Structure, statements: Sequence[Part], packs: Sequence[PackCall]
) -> isl.ScheduleNode:
    """A loop over each axis of the thread grid, layers outside of rows outside of columns, as PARLOOPER numbers its
    threads. The grid's loops, further inside, run over one block each."""
    names = [loop.name for loop in structure.loops]
    for axis in sorted(structure.grid, key=lambda a: "LRC".index(a.axis)):
        position = names.index(axis.loop)
        column = [Part(s.domain, [isl.floor_div(_pieces(s.affs[position]), axis.chunk)]) for s in statements]
        column += [Part(p.domain, [isl.floor_div(isl.coordinate(p.domain, position), axis.chunk)]) for p in packs]
        node = node.insert_partial_schedule(union_pw_affs(column, 1)).child(0)
    return node


def insert_copies(
    node: isl.ScheduleNode, due: Sequence[PackCall], rest: Sequence[isl.Set], *, in_parallel: bool
) -> isl.ScheduleNode:
    """Copies first, then the rest; returns the place of the rest. Shared copies are made by all threads."""
    sequence = add_sequence(node, [*(union_set([pack.domain]) for pack in due), union_set(rest)])
    height = sequence.get_tree_depth()
    for k, pack in enumerate(due):
        place = sequence.child(k).child(0)
        shared = pack.shared and in_parallel and bool(pack.panels)
        if shared:
            place = add_mark(place, PARALLEL)
        for aff in isl.coordinates(pack.domain)[pack.depth :]:
            place = add_loop(place, aff, pack.domain)
        if shared:
            place = add_mark(place, COPIED)
        sequence = place.ancestor(place.get_tree_depth() - height)
    return sequence.child(len(due)).child(0)


def _insert_leaf(
    node: isl.ScheduleNode, plain: Sequence[Part], call: KernelCall | None, edge: Edge | None
) -> isl.ScheduleNode:
    """What runs inside all loops: calls for blocks, calls for their rows, plain loops."""
    parts: list[tuple[isl.UnionSet, Sequence[Part], int]] = []
    if call is not None and not call.domain.is_empty():
        parts.append((union_set([call.domain]), (), 0))
    if edge is not None:
        row = [Part(edge.call.domain, isl.coordinates(edge.call.domain)[-1:])]
        parts.append((union_set([edge.call.domain]), row, 1))
    if plain:
        parts.append((union_set(part.domain for part in plain), plain, len(plain[0].affs)))
    if len(parts) > 1:
        node = add_sequence(node, [instances for instances, _, _ in parts])
    height = node.get_tree_depth()
    for place, (_, inside, dims) in enumerate(parts):
        if not dims:
            continue
        at = node.child(place).child(0) if len(parts) > 1 else node
        at = at.insert_partial_schedule(union_pw_affs(inside, dims))
        node = at.ancestor(at.get_tree_depth() - height)
    return node

"""From a structure to an isl schedule tree and the statements that its AST will call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import islpy as isl

from polydl.lower.packing_plan import PackCall
from polydl.model.schedule import map_from_affs
from polydl.model.scop import Statement
from polydl.schedule.kernel_call import KernelCall
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
    ctx = isl.DEFAULT_CONTEXT
    columns = isl.UnionPwAffList.alloc(ctx, dims)
    for d in range(dims):
        pieces = [
            isl.UnionPwAff.from_pw_aff(_pieces(part.affs[d]).intersect_domain(part.domain)) for part in statements
        ]
        columns = columns.add(reduce(isl.UnionPwAff.union_add, pieces))
    space = statements[0].domain.get_space().params().add_unnamed_tuple_ui(dims)
    return isl.MultiUnionPwAff.from_union_pw_aff_list(space, columns)


def _pieces(aff: isl.Aff | isl.PwAff) -> isl.PwAff:
    return isl.PwAff.from_aff(aff) if isinstance(aff, isl.Aff) else aff


def identity_affs(domain: isl.Set) -> list[isl.Aff]:
    """{ S[i…] -> [i] } for each dimension."""
    local_space = isl.LocalSpace.from_space(domain.get_space())
    return [isl.Aff.var_on_domain(local_space, isl.dim_type.set, d) for d in range(domain.dim(isl.dim_type.set))]


def nest_tree(structure: Structure, call: KernelCall | None, packs: Sequence[PackCall]) -> isl.Schedule:
    """The schedule tree of one nest: a band per loop, marks around the parallel ones, copies where they are due, the
    block at the leaf."""
    nest = structure.nest
    depth = max(s.depth for s in nest.statements)
    outer: list[Part] = []
    plain: list[Part] = []
    for statement in nest.statements:
        domain, affs = statement.domain, outer_affs(structure, statement)
        inner = rest_affs(structure, statement, depth)
        if call is not None:
            y = normalised(nest, statement)
            inner = [loop_aff(loop, y[loop.iterator]) for loop in structure.inside]
            covered = map_from_affs(statement.domain, affs).intersect_range(call.domain.reset_tuple_id())
            domain = domain.subtract(covered.domain())
            if not call.domain.is_empty():
                outer.append(Part(call.domain, identity_affs(call.domain)))
        if not domain.is_empty():
            outer.append(Part(domain, affs))
            plain.append(Part(domain, inner))
    everything = isl.UnionSet.empty(nest.statements[0].domain.get_space().params())
    for part in (*outer, *(Part(p.domain, ()) for p in packs)):
        everything = everything.union(isl.UnionSet.from_set(part.domain))
    node = isl.Schedule.from_domain(everything).get_root().child(0)
    node = _insert_loops(node, structure, outer, packs)
    return _insert_leaf(node, plain, call).get_schedule()


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
            node = _insert_mark(node, CURVE if structure.omp_schedule == HILBERT else PARALLEL + _clause(structure))
            if structure.grid:
                node = _insert_mark(_insert_grid(node, structure, statements, later), SERIAL)
        column = [Part(s.domain, [s.affs[position]]) for s in statements]
        column += [Part(p.domain, [identity_affs(p.domain)[position]]) for p in later]
        node = node.insert_partial_schedule(union_pw_affs(column, 1))
        if position in split:
            node = node.band_member_set_ast_loop_type(0, isl.ast_loop_type.separate)
        node = node.child(0)
        if parallel and position == parallel[-1] and not structure.grid:
            node = _insert_mark(node, SERIAL)
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
    d = statement.iterators.index(iterator)
    values = statement.domain.project_out(isl.dim_type.set, d + 1, statement.depth - d - 1)
    return bool(values.project_out(isl.dim_type.set, 0, d).is_singleton())


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
        chunk = isl.Val.int_from_si(node.get_ctx(), axis.chunk)
        column = [Part(s.domain, [s.affs[position].scale_down_val(chunk).floor()]) for s in statements]
        column += [Part(p.domain, [identity_affs(p.domain)[position].scale_down_val(chunk).floor()]) for p in packs]
        node = node.insert_partial_schedule(union_pw_affs(column, 1)).child(0)
    return node


def _insert_mark(node: isl.ScheduleNode, name: str) -> isl.ScheduleNode:
    return node.insert_mark(isl.Id(name, context=isl.DEFAULT_CONTEXT)).child(0)


def insert_copies(
    node: isl.ScheduleNode, due: Sequence[PackCall], rest: Sequence[isl.Set], *, in_parallel: bool
) -> isl.ScheduleNode:
    """Copies first, then the rest; returns the place of the rest. Shared copies are made by all threads."""
    members = isl.UnionSetList.alloc(node.get_ctx(), len(due) + 1)
    for pack in due:
        members = members.add(isl.UnionSet.from_set(pack.domain))
    together = isl.UnionSet.from_set(rest[0])
    for domain in rest[1:]:
        together = together.union(isl.UnionSet.from_set(domain))
    sequence = node.insert_sequence(members.add(together))
    height = sequence.get_tree_depth()
    for k, pack in enumerate(due):
        place = sequence.child(k).child(0)
        shared = pack.shared and in_parallel and bool(pack.panels)
        if shared:
            place = _insert_mark(place, PARALLEL)
        for aff in identity_affs(pack.domain)[pack.depth :]:
            place = place.insert_partial_schedule(union_pw_affs([Part(pack.domain, [aff])], 1)).child(0)
        if shared:
            place = _insert_mark(place, COPIED)
        sequence = place.ancestor(place.get_tree_depth() - height)
    return sequence.child(len(due)).child(0)


def _insert_leaf(node: isl.ScheduleNode, plain: Sequence[Part], call: KernelCall | None) -> isl.ScheduleNode:
    if not plain:
        return node
    together = isl.UnionSet.from_set(plain[0].domain)
    for one in plain[1:]:
        together = together.union(isl.UnionSet.from_set(one.domain))
    dims = len(plain[0].affs)
    if call is not None and not call.domain.is_empty():
        choices = isl.UnionSetList.alloc(node.get_ctx(), 2)
        choices = choices.add(isl.UnionSet.from_set(call.domain)).add(together)
        node = node.insert_sequence(choices).child(1).child(0)
    if dims:
        node = node.insert_partial_schedule(union_pw_affs(plain, dims))
    return node

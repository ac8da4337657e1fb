"""From a structure to an isl schedule tree and the statements that its AST will call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import islpy as isl

from polydl.model.schedule import map_from_affs
from polydl.model.scop import Statement
from polydl.variants.structure import Structure, loop_aff, normalised, outer_affs, rest_affs

PARALLEL = "parallel"
SERIAL = "serial"
"""Mark names: the loops between the two are to be run by all threads, collapsed."""


@dataclass(frozen=True, slots=True)
class KernelCall:
    """A generated microkernel's call as a statement of its own: one instance per block."""

    name: str
    """isl tuple name, `S0_mk`."""
    statement: Statement
    domain: isl.Set
    """{ S0_mk[t…] }: the blocks that are full boxes; the others run as plain loops."""
    low: tuple[isl.PwAff, ...]
    """{ S0_mk[t…] -> [u] } first iteration inside the block, per inside loop."""
    extents: tuple[isl.PwAff, ...]
    """{ S0_mk[t…] -> [n] } iterations inside the block, per inside loop."""
    corner: isl.PwMultiAff
    """{ S0_mk[t…] -> S0[i…] } the first instance of a block."""


@dataclass(frozen=True, slots=True)
class Part:
    """What runs at the innermost level of a nest: plain statements and a microkernel call."""

    tree: isl.Schedule
    call: KernelCall | None


def _named(time: isl.Set | isl.Map, name: str) -> isl.Set | isl.Map:
    """Give the (domain) tuple a name."""
    if isinstance(time, isl.Set):
        return time.set_tuple_name(name)
    return time.set_tuple_name(isl.dim_type.in_, name)


def kernel_call(structure: Structure, statement: Statement) -> KernelCall:
    """Split the instances into blocks that are boxes, and say where each block begins and how large it is.

    A block whose instances are not a box (at a slanted edge of the domain) is left out of `domain`.
    """
    y = normalised(structure.nest, statement)
    name = f"{statement.name}_mk"
    outer = map_from_affs(statement.domain, outer_affs(structure, statement))
    inside = map_from_affs(statement.domain, [loop_aff(loop, y[loop.iterator]) for loop in structure.inside])
    block = _named(outer.reverse().apply_range(inside), name)
    box = isl.Map.from_domain(block.domain())
    low: list[isl.PwAff] = []
    high: list[isl.PwAff] = []
    for d in range(len(structure.inside)):
        one = block.project_out(isl.dim_type.out, d + 1, len(structure.inside) - d - 1).project_out(
            isl.dim_type.out, 0, d
        )
        low.append(one.lexmin_pw_multi_aff().get_pw_aff(0))
        high.append(one.lexmax_pw_multi_aff().get_pw_aff(0))
        span = isl.Map.from_pw_aff(low[-1]).apply_range(_at_least()).intersect(
            isl.Map.from_pw_aff(high[-1]).apply_range(_at_most())
        )
        box = box.flat_range_product(span)
    full = block.domain().subtract(box.subtract(block).domain())
    first = isl.Map.from_domain(block.domain())
    for d in range(len(structure.inside)):
        first = first.flat_range_product(isl.Map.from_pw_aff(low[d]))
    corner = _named(outer.reverse(), name).intersect(first.apply_range(inside.reverse()))
    one_val = isl.Val.one(statement.domain.get_ctx())
    return KernelCall(
        name,
        statement,
        full.coalesce(),
        tuple(low),
        tuple(h.sub(l).add_constant_val(one_val) for l, h in zip(low, high, strict=True)),
        corner.intersect_domain(full).as_pw_multi_aff(),
    )


def _at_least() -> isl.Map:
    return isl.Map.lex_le(isl.Space.set_alloc(isl.DEFAULT_CONTEXT, 0, 1))


def _at_most() -> isl.Map:
    return isl.Map.lex_ge(isl.Space.set_alloc(isl.DEFAULT_CONTEXT, 0, 1))


def _union_pw_affs(statements: Sequence[tuple[isl.Set, Sequence[isl.Aff]]], dims: int) -> isl.MultiUnionPwAff:
    """The partial schedule of several statements, given per statement its domain and one aff per dimension."""
    ctx = isl.DEFAULT_CONTEXT
    columns = isl.UnionPwAffList.alloc(ctx, dims)
    for d in range(dims):
        column: isl.UnionPwAff | None = None
        for domain, affs in statements:
            piece = isl.UnionPwAff.from_pw_aff(isl.PwAff.from_aff(affs[d]).intersect_domain(domain))
            column = piece if column is None else column.union_add(piece)
        columns = columns.add(column)
    space = statements[0][0].get_space().params().add_unnamed_tuple_ui(dims)
    return isl.MultiUnionPwAff.from_union_pw_aff_list(space, columns)


def _identity_affs(domain: isl.Set) -> list[isl.Aff]:
    local_space = isl.LocalSpace.from_space(domain.get_space())
    return [
        isl.Aff.var_on_domain(local_space, isl.dim_type.set, d) for d in range(domain.dim(isl.dim_type.set))
    ]


def nest_tree(structure: Structure) -> Part:
    """The schedule tree of one nest: a band per loop, marks around the parallel ones, the block at the leaf."""
    nest = structure.nest
    depth = max(s.depth for s in nest.statements)
    call: KernelCall | None = None
    outer: list[tuple[isl.Set, Sequence[isl.Aff]]] = []
    plain: list[tuple[isl.Set, Sequence[isl.Aff]]] = []
    for statement in nest.statements:
        domain, affs = statement.domain, outer_affs(structure, statement)
        inner = rest_affs(structure, statement, depth)
        if structure.kernel is not None:
            call = kernel_call(structure, statement)
            y = normalised(nest, statement)
            inner = [loop_aff(loop, y[loop.iterator]) for loop in structure.inside]
            covered = map_from_affs(statement.domain, affs).intersect_range(call.domain.reset_tuple_id())
            domain = domain.subtract(covered.domain())
            if not call.domain.is_empty():
                outer.append((call.domain, _identity_affs(call.domain)))
        if not domain.is_empty():
            outer.append((domain, affs))
            plain.append((domain, inner))
    everything = isl.UnionSet.empty(nest.statements[0].domain.get_space().params())
    for domain, _ in outer:
        everything = everything.union(isl.UnionSet.from_set(domain))
    node = isl.Schedule.from_domain(everything).get_root().child(0)
    node = _insert_loops(node, structure, outer)
    return Part(_insert_leaf(node, plain, call).get_schedule(), call)


def _insert_loops(
    node: isl.ScheduleNode, structure: Structure, statements: Sequence[tuple[isl.Set, Sequence[isl.Aff]]]
) -> isl.ScheduleNode:
    parallel = structure.parallel_positions
    if not statements:
        return node
    for position in range(len(structure.loops)):
        if parallel and position == parallel[0]:
            node = node.insert_mark(isl.Id(PARALLEL, context=isl.DEFAULT_CONTEXT)).child(0)
        column = [(domain, [affs[position]]) for domain, affs in statements]
        node = node.insert_partial_schedule(_union_pw_affs(column, 1)).child(0)
        if parallel and position == parallel[-1]:
            node = node.insert_mark(isl.Id(SERIAL, context=isl.DEFAULT_CONTEXT)).child(0)
    return node


def _insert_leaf(
    node: isl.ScheduleNode, plain: Sequence[tuple[isl.Set, Sequence[isl.Aff]]], call: KernelCall | None
) -> isl.ScheduleNode:
    if not plain:
        return node
    filters = [isl.UnionSet.from_set(domain) for domain, _ in plain]
    together = filters[0]
    for one in filters[1:]:
        together = together.union(one)
    dims = len(plain[0][1])
    if call is not None and not call.domain.is_empty():
        choices = isl.UnionSetList.alloc(node.get_ctx(), 2)
        choices = choices.add(isl.UnionSet.from_set(call.domain)).add(together)
        node = node.insert_sequence(choices).child(1).child(0)
    if dims:
        node = node.insert_partial_schedule(_union_pw_affs(plain, dims))
    return node

"""What isl keeps in trees: unions by the names of their tuples, schedule trees, and the syntax trees made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any

from polydl.model import isl


def sets_of(union: isl.UnionSet) -> list[isl.Set]:
    """The sets of a union, by the names of their tuples: isl's own order depends on addresses in memory."""
    found = union.get_set_list()
    return sorted((found.get_at(i) for i in range(found.n_set())), key=lambda s: str(s.get_tuple_name()))


def maps_of(union: isl.UnionMap) -> list[isl.Map]:
    """The relations of a union, by the names of their tuples: isl's own order depends on addresses in memory."""
    found = union.get_map_list()
    maps = [found.get_at(i) for i in range(found.n_map())]
    return sorted(maps, key=lambda m: (isl.domain_name(m), isl.range_name(m)))


def functions_of(union: isl.UnionPwAff) -> dict[str, isl.PwAff]:
    """The functions of a union, by the names of the tuples that they start from."""
    found = union.get_pw_aff_list()
    return {isl.domain_name(one): one for one in (found.get_at(i) for i in range(found.n_pw_aff()))}


def union_set(sets: Iterable[isl.Set]) -> isl.UnionSet:
    """The union of sets of any tuples."""
    return reduce(isl.UnionSet.union, map(isl.UnionSet.from_set, sets), isl.UnionSet("{ }"))


def union_map(maps: Iterable[isl.Map]) -> isl.UnionMap:
    """The union of relations between any tuples."""
    return reduce(isl.UnionMap.union, map(isl.UnionMap.from_map, maps), isl.UnionMap("{ }"))


# Schedule trees


def tree_of(domain: isl.Set | isl.UnionSet) -> isl.ScheduleNode:
    """The place below the root of a new schedule tree."""
    return isl.Schedule.from_domain(domain).get_root().child(0)


def partial_schedule(columns: Sequence[Iterable[isl.PwAff]], parameters: isl.Space) -> isl.MultiUnionPwAff:
    """Loops for a band, outermost first: for each the functions of its statements; `parameters`: a space with them."""
    found = isl.UnionPwAffList.alloc(isl.context(), len(columns))
    for functions in columns:
        found = found.add(reduce(isl.UnionPwAff.union_add, map(isl.UnionPwAff.from_pw_aff, functions)))
    return isl.MultiUnionPwAff.from_union_pw_aff_list(parameters.params().add_unnamed_tuple_ui(len(columns)), found)


def loops_of(partial: isl.MultiUnionPwAff) -> list[dict[str, isl.PwAff]]:
    """The loops of a band, outermost first: for each the functions of its statements by name."""
    return [functions_of(partial.get_union_pw_aff(i)) for i in range(isl.range_arity(partial))]


def add_loop(node: isl.ScheduleNode, function: isl.Aff, domain: isl.Set) -> isl.ScheduleNode:
    """A loop of one statement at a place of a schedule tree; returns the place inside of it."""
    one = isl.PwAff.from_aff(function).intersect_domain(domain)
    return node.insert_partial_schedule(partial_schedule([[one]], domain.get_space())).child(0)


def add_mark(node: isl.ScheduleNode, name: str) -> isl.ScheduleNode:
    """A mark at a place of a schedule tree; returns the place inside of it."""
    return node.insert_mark(isl.identifier(name)).child(0)


def add_sequence(node: isl.ScheduleNode, parts: Sequence[isl.UnionSet]) -> isl.ScheduleNode:
    """Parts of the instances one after the other; returns the sequence, whose children are the parts."""
    found = isl.UnionSetList.alloc(isl.context(), len(parts))
    for part in parts:
        found = found.add(part)
    return node.insert_sequence(found)


def separated(band: isl.ScheduleNode) -> isl.ScheduleNode:
    """The outermost loop of a band, with parts of its own for values where other statements run."""
    return band.band_member_set_ast_loop_type(0, isl.ast_loop_type.separate)


def in_one_piece(band: isl.ScheduleNode) -> isl.ScheduleNode:
    """The outermost loop of a band, generated as one: nothing that runs in some of its iterations stands outside."""
    return band.band_member_set_ast_loop_type(0, isl.ast_loop_type.atomic)


def unrolled(band: isl.ScheduleNode) -> isl.ScheduleNode:
    """The outermost loop of a band, each iteration written out."""
    return band.band_member_set_ast_loop_type(0, isl.ast_loop_type.unroll)


def schedule_kind(node: isl.ScheduleNode) -> str:
    """`leaf`, `band`, `sequence`, `set`, `filter`, …"""
    kind: Any = node.get_type()
    return str(kind.name)


# Syntax trees


def syntax_tree(
    tree: isl.Schedule,
    known: isl.Set,
    iterators: Sequence[str],
    at_instance: Callable[[isl.AstNode, isl.AstBuild], isl.AstNode],
    together: bool = False,
) -> isl.AstNode:
    """The loops and conditions that execute a schedule, where the parameters are as `known` (a parameter set).

    `iterators` names the loops, outermost first; `at_instance` sees each place where a statement runs, and must not
    raise: isl calls it from C. `together`: what runs in the first or in the last iteration of a loop alone stays in it
    (else it may stand in front of the loop or behind).
    """
    names = isl.IdList.alloc(isl.context(), len(iterators))
    for name in iterators:
        names = names.add(isl.identifier(name))
    build = isl.AstBuild.from_context(known).set_iterators(names)
    build, _callback = build.set_at_each_domain(at_instance)
    with _settings(together):
        return build.node_from_schedule(tree)


@contextmanager
def _settings(together: bool) -> Iterator[None]:
    """Conditional expressions that are a minimum or a maximum are written as such; `together`: see `syntax_tree`."""
    ctx = isl.context()
    before = ctx.get_ast_build_detect_min_max(), ctx.get_ast_build_group_coscheduled()
    ctx.set_ast_build_detect_min_max(1)
    ctx.set_ast_build_group_coscheduled(int(together))
    try:
        yield
    finally:
        ctx.set_ast_build_detect_min_max(before[0])
        ctx.set_ast_build_group_coscheduled(before[1])


def condition(of: isl.Set) -> isl.AstExpr:
    """Whether the parameters are in a set { [parameters] }, as an expression."""
    return isl.AstBuild.from_context(isl.Set.universe(of.get_space())).expr_from_set(of.coalesce())


def parametric_value(of: isl.PwAff) -> isl.AstExpr:
    """A function of the parameters alone, as an expression."""
    build = isl.AstBuild.from_context(isl.Set.universe(of.get_domain_space().params()))
    # Of one with several pieces, isl compares the spaces.
    return build.expr_from_pw_aff(of if of.get_domain_space().is_params() else of.project_domain_on_params())


def node_kind(node: isl.AstNode) -> str:
    """`for_`, `if_`, `block`, `mark` or `user`. Type stubs call these enumerators plain ints."""
    kind: Any = node.get_type()
    return str(kind.name)


def children_of(node: isl.AstNode) -> list[isl.AstNode]:
    """The nodes of a block."""
    found = node.block_get_children()
    return [found.get_at(i) for i in range(found.n_ast_node())]


def expression_kind(expression: isl.AstExpr) -> str:
    """`op`, `id` or `int`."""
    kind: Any = expression.get_type()
    return str(kind.name)


def operation(expression: isl.AstExpr) -> str:
    """Name of an AST operation: `add`, `fdiv_q`, `and_then`, …"""
    kind: Any = expression.get_op_type()
    return str(kind.name)


def operands_of(expression: isl.AstExpr) -> list[isl.AstExpr]:
    """The operands of an operation."""
    return [expression.get_op_arg(i) for i in range(expression.get_op_n_arg())]

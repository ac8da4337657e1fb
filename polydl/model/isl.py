"""The one door to islpy's sharp edges: operation quota, dimensions by name, small constructors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import islpy as isl

from polydl.base.errors import QuotaExceeded

DEFAULT_QUOTA = 20_000_000
"""Elementary isl operations one step may take (isl_ctx_set_max_operations): of the order of some seconds."""


def context() -> isl.Context:
    """The isl context that every object of the process lives in."""
    return isl.DEFAULT_CONTEXT


@contextmanager
def quota(what: str, operations: int = DEFAULT_QUOTA) -> Iterator[None]:
    """Run isl operations under a quota (isl's max_operations), so that no input hangs the tool.

    Raises QuotaExceeded, naming `what`, when the quota is used up. Nested quotas: the innermost counts.
    """
    ctx = context()
    outer = ctx.get_max_operations()
    ctx.set_max_operations(operations)
    ctx.reset_operations()
    try:
        yield
    except isl.Error as error:
        if "maximal number of operations exceeded" in str(error):
            raise QuotaExceeded(
                f"{what} needs more than {operations} isl operations",
                hint="simplify the bounds and subscripts of the nest, or give its sizes with -D or --size",
            ) from error
        raise
    finally:
        ctx.set_max_operations(outer)
        ctx.reset_operations()


def dim_names(space: isl.Space, kind: isl.dim_type = isl.dim_type.set) -> tuple[str, ...]:
    """Names of the dimensions of one kind, in order."""
    return tuple(str(space.get_dim_name(kind, i)) for i in range(space.dim(kind)))


def dim_index(space: isl.Space, name: str, kind: isl.dim_type = isl.dim_type.set) -> int:
    """Position of the dimension called `name`. Raises KeyError when there is none."""
    position: int = space.find_dim_by_name(kind, name)
    if position < 0:
        raise KeyError(f"no dimension '{name}' in {space}")
    return position


def to_int(value: isl.Val) -> int:
    """A Python int from an integral isl value. Raises ValueError on infinities, NaN and fractions."""
    if not value.is_int():
        raise ValueError(f"not an integer: {value}")
    return int(value.to_python())


def pieces(function: isl.PwAff) -> list[tuple[isl.Set, isl.Aff]]:
    """(domain, affine expression) of each piece of a piecewise affine function."""
    return list(function.get_pieces())


def map_over_basic_sets(of: isl.Set, action: Callable[[isl.BasicSet], None]) -> None:
    """Call `action` on each basic set of a set."""
    for basic in of.get_basic_sets():
        action(basic)


def node_kind(node: isl.AstNode) -> str:
    """`for_`, `if_`, `block`, `mark` or `user`. islpy's type stubs call these enumerators plain ints."""
    kind: Any = node.get_type()
    return str(kind.name)


def expression_kind(expression: isl.AstExpr) -> str:
    """`op`, `id` or `int`."""
    kind: Any = expression.get_type()
    return str(kind.name)


def operation(expression: isl.AstExpr) -> str:
    """Name of an AST operation: `add`, `fdiv_q`, `and_then`, …"""
    kind: Any = expression.get_op_type()
    return str(kind.name)


def lex_extreme(points: isl.Set, greatest: bool = False) -> tuple[int, ...]:
    """Coordinates of the lexicographically least (greatest) point of a bounded set without parameters, not empty.

    One integer minimum a coordinate: isl's own lexmin fails on some sets with existential variables ("affine
    expression involves some of the domain dimensions").
    """
    found = []
    for position in range(points.dim(isl.dim_type.set)):
        bound = points.dim_max_val(position) if greatest else points.dim_min_val(position)
        found.append(to_int(bound))
        points = points.fix_val(isl.dim_type.set, position, bound)
    return tuple(found)

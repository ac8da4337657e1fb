"""isl's types under their own names, and how numbers and names become isl's. The one file that imports islpy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from islpy import (
    DEFAULT_CONTEXT,
    Aff,
    AffList,
    AstBuild,
    AstExpr,
    AstNode,
    BasicMap,
    BasicSet,
    Constraint,
    Context,
    Error,
    Id,
    IdList,
    Map,
    Mat,
    MultiAff,
    MultiPwAff,
    MultiUnionPwAff,
    Point,
    PwAff,
    PwAffList,
    PwMultiAff,
    PwQPolynomial,
    QPolynomial,
    Schedule,
    ScheduleConstraints,
    ScheduleNode,
    Set,
    Space,
    UnionAccessInfo,
    UnionFlow,
    UnionMap,
    UnionPwAff,
    UnionPwAffList,
    UnionSet,
    UnionSetList,
    Val,
    ast_loop_type,
    dim_type,
    fold,
)

Dim: TypeAlias = str | int
"""A dimension: its name, or the number of a coordinate that has none."""

Factors: TypeAlias = Mapping[str, int] | Mapping[int, int]
"""What each dimension is multiplied by; 0 where nothing is said."""

PARAM, SET, IN, OUT, DIV = dim_type.param, dim_type.set, dim_type.in_, dim_type.out, dim_type.div


def context() -> Context:
    """The isl context that every object of the process lives in."""
    return DEFAULT_CONTEXT


def value(number: int) -> Val:
    """An integer of any size for isl. Its methods take Python's too, and are three times as slow then."""
    return Val.int_from_si(DEFAULT_CONTEXT, number) if abs(number) < 1 << 62 else Val(str(number))


def to_int(value: Val) -> int:
    """A Python int from an integral isl value. Raises ValueError on infinities, NaN and fractions; isl's Error where
    there is no value: past a quota isl loses the error on some paths, and gives a null pointer."""
    text = value.to_str()
    if text is None:
        raise Error("no value: maximal number of operations exceeded")
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"not an integer: {text}") from None


def identifier(name: str) -> Id:
    """The identifier that isl gives to a name. `Id(name)` would carry a Python object and differ from it."""
    return Space.params_alloc(DEFAULT_CONTEXT, 1).set_dim_name(PARAM, 0, name).get_dim_id(PARAM, 0)


def unnamed_space(size: int) -> Space:
    """The space { [x0, …] } of tuples without names and parameters."""
    return Space.set_alloc(DEFAULT_CONTEXT, 0, size)

"""Instances and pairs of a proof for people, with the values of parameters where there are any."""

from __future__ import annotations

from collections.abc import Mapping

from polydl.model import isl


def instance(name: str, points: isl.Set) -> str:
    """`S0[3, 4]`, or `S0[3, 4] where n is 7`: the first one of a set that is not empty; some one, with parameters."""
    at, values = isl.first_point(points)
    return f"{name}{list(at)}{_where(values)}"


def pair(relation: isl.Map) -> tuple[tuple[int, ...], tuple[int, ...], str]:
    """Source and target of the first pair of a relation that is not empty, and ` where n is 7`; of some pair, with
    parameters."""
    at, values = isl.first_point(relation.wrap().flatten())
    inputs = isl.domain_arity(relation)
    return at[:inputs], at[inputs:], _where(values)


def _where(values: Mapping[str, int]) -> str:
    return f" where {', '.join(f'{name} is {value}' for name, value in values.items())}" if values else ""

"""Statements in other loops."""

from __future__ import annotations

from dataclasses import replace

from polydl.base.records import dataclass
from polydl.model import isl
from polydl.model.expr import Expr, on_affine_values
from polydl.model.scop import Assignment, BlackBox, Statement


@dataclass(frozen=True, slots=True)
class Moved:
    """A statement in other loops."""

    statement: Statement
    """As it is now."""
    place: isl.Map
    """{ S[i…] -> S[h…] } from an instance as it was to the same instance as it is now; one to one."""


def moved(
    statement: Statement,
    place: isl.Map,
    iterators: tuple[str, ...],
    position: tuple[int, ...],
    descending: frozenset[str],
) -> Moved:
    """A statement in the loops `iterators`; `place` says where each of its instances goes."""
    place = isl.range_named(place, statement.name, iterators).coalesce()
    back = place.reverse()
    accesses = tuple(replace(a, relation=back.apply_range(a.relation).coalesce()) for a in statement.accesses)
    at, body = back.as_pw_multi_aff(), statement.body
    if isinstance(body, Assignment):
        body = replace(body, value=in_new_loops(body.value, at))
    elif isinstance(body, BlackBox):
        known = ((text, None if one is None else one.pullback_pw_multi_aff(at)) for text, one in body.locals)
        entries = body.entries and replace(body.entries, row=body.entries.row.pullback_pw_multi_aff(at))
        body = replace(body, locals=tuple(known), entries=entries)
    now = replace(
        statement,
        iterators=iterators,
        domain=place.range().coalesce(),
        position=position,
        descending=descending,
        accesses=accesses,
        body=body,
    )
    return Moved(now, place)


def in_new_loops(value: Expr, back: isl.PwMultiAff) -> Expr:
    """An expression of a statement whose iterations `back` leads to, of those that it starts from."""
    return on_affine_values(value, lambda one: one.pullback_pw_multi_aff(back).coalesce())

"""The values that integers may have of which subscripts are made: for the data that programs are measured with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from polydl.base.records import dataclass
from polydl.frontend.lower.raw import Given, RawAccess, Walked
from polydl.frontend.meaning.affine_terms import symbol_aff
from polydl.frontend.meaning.data_subscripts import Form
from polydl.model import isl
from polydl.model.scop import Array, IndexValues

_VALUE = "__polydl_value"
_MOST_STEPS = 8
"""Integers that are given one from the other, followed at most."""


@dataclass(frozen=True, slots=True)
class _Use:
    """A subscript in terms of what is known of it so far."""

    form: Form
    where: isl.Set
    past: int
    ordered: frozenset[str]


def index_values(
    walked: Walked,
    accesses: Sequence[tuple[RawAccess, tuple[tuple[int, Form], ...]]],
    parameters: Sequence[str],
) -> tuple[IndexValues, ...]:
    """What arrays of integers hold, as far as subscripts say so: of `accesses` with the forms of those of their
    subscripts that data choose, by dimension."""
    found: dict[str, IndexValues] = {}
    for access, forms in accesses:
        for dimension, form in forms:
            for use in _followed(_Use(form, access.where, 0, frozenset()), walked.given, _MOST_STEPS):
                factors = tuple(sorted(use.form.factors.items()))
                arrays = [name for name, _ in factors if _is_index(walked, name)]
                if not arrays:
                    continue
                values = taken(use.form.rest, use.where, parameters)
                one = IndexValues(
                    access.symbol.name, dimension, factors, values, use.past, use.ordered & frozenset(arrays)
                )
                found.setdefault(str(one), one)
    return tuple(found.values())


def taken(value: isl.PwAff, where: isl.Set, parameters: Sequence[str]) -> isl.Set:
    """{ [v] : a function has this value for some iteration }"""
    held = where.intersect(symbol_aff(_VALUE).eq_set(value))
    held = isl.some_values(held, [name for name in isl.parameters(held) if name not in (*parameters, _VALUE)])
    return isl.parametric(isl.as_dimensions(held, [_VALUE]), parameters)


def assumed(indices: Sequence[IndexValues], arrays: Mapping[str, Array]) -> tuple[str, ...]:
    """What is taken for granted of them, for people."""
    inside: dict[str, dict[str, None]] = {}
    for one in indices:
        inside.setdefault(one.array, {}).update(dict.fromkeys(one.holders))
    found = []
    for name, holders in inside.items():
        several = " and ".join(f"'{holder}'" for holder in holders)
        found.append(f"elements of '{name}' that {several} choose{'s' * (len(holders) == 1)} are inside of it")
        if arrays[name].extents[0] is None:
            found.append(f"'{name}', whose size is not known, is not much larger than the other arrays")
    return tuple(found)


def _is_index(walked: Walked, name: str) -> bool:
    symbol = walked.symbols.get(name)
    return symbol is not None and bool(symbol.levels) and symbol.ctype.is_int


def _followed(use: _Use, given: Sequence[Given], steps: int) -> Iterator[_Use]:
    """The use in terms of arrays: scalars and loop variables stand for each value that they are given."""
    given = [one for one in given if one.name not in one.form.factors]
    held = next((name for name in use.form.factors if any(one.name == name for one in given)), None)
    if held is None or steps == 0:
        yield use
        return
    factors = {name: factor for name, factor in use.form.factors.items() if name != held}
    own = use.form.factors[held]
    found: dict[str, list[_Use]] = {}
    for one in given:
        if one.name == held:
            form = Form(factors, use.form.rest).plus(one.form, own)
            past = max(use.past, one.past) if own > 0 else use.past
            value = _Use(form, use.where.intersect(one.where), past, use.ordered)
            found.setdefault(one.end, []).extend(_followed(value, given, steps - 1))
    begin, end = (frozenset(n for v in found.get(which, ()) for n in v.form.factors) for which in ("begin", "end"))
    for value in (v for several in found.values() for v in several):
        yield replace(value, ordered=value.ordered | (begin & end - frozenset(factors)))

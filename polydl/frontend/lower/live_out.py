"""The arrays and scalars whose values behind a region may be read, and those that stay the same from run to run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from polydl.base.errors import InputError, QuotaExceeded
from polydl.frontend.lower.regions import Found
from polydl.frontend.meaning.liveness import has_address_taken, jumps, mentioned_apart
from polydl.frontend.meaning.symbols import mentions
from polydl.frontend.text.parse import Unit
from polydl.frontend.text.pragmas import names_in
from polydl.model import isl
from polydl.model.dataflow import last_writes
from polydl.model.isl import quota
from polydl.model.scop import Array, Statement, Storage


def _may_be_read(found: Found, array: Array, read_first: Callable[[Array], bool]) -> bool:
    """Whether what the region leaves in an array or scalar may be read behind it, as far as the function says: by code
    behind it, or by another run of it. `read_first`: whether a run may read an element before it has written it."""
    name = array.spelled
    if array.storage is Storage.REGION:
        return False
    symbol = found.scope.find(name)
    if symbol is not None and symbol.member:
        return True  # what a structure points to, or holds, others may know
    own = array.storage is Storage.LOCAL or (array.storage is Storage.PARAMETER and array.is_scalar)
    if not own or symbol is None or "extern" in symbol.decl.storage:
        return True
    if symbol.decays:
        return True  # what it points to has other names
    static = "static" in symbol.decl.storage
    if array.is_scalar and not static:
        return has_address_taken(found.function.body, name) or found.escapes(name)
    # A pointer into it may go on, once it is named anywhere outside of the region.
    body = found.function.body
    if mentioned_apart(body, found.items, name) or (array.is_scalar and has_address_taken(body, name)):
        return True
    again = static or jumps(body) or any(name in mentions(node) for node in found.after)
    return again and read_first(array)


def live_out(
    unit: Unit, found: Found, used: Mapping[str, Array], statements: Sequence[Statement], context: isl.Set
) -> tuple[frozenset[str], list[InputError], list[str]]:
    """Arrays that are read after the region, by default or by pragma; what is wrong about the pragmas; and what is
    taken to be read as it could not be found out, for people. `context`: { [] : what is known of parameters }."""
    unknown: list[str] = []

    def read_first(array: Array) -> bool:
        try:
            with quota(f"whether '{array.spelled}' carries values from one run to the next"):
                return not last_writes(statements, array.name, context).before.is_empty()
        except QuotaExceeded as error:
            unknown.append(f"the next run reads what this one leaves in '{array.spelled}': {error.reason}")
            return True

    live = {name for name, array in used.items() if _may_be_read(found, array, read_first)}
    kept, more = _named(unit, found, used, "live_out")
    dead, errors = _named(unit, found, used, "dead")
    errors = [*more, *errors]
    if any(pragma.kind == "live_out" for pragma in found.facts):
        live = {name for name in live if used[name].spelled in kept}
    return frozenset(name for name in live if used[name].spelled not in dead), errors, unknown


def constants(
    unit: Unit, found: Found, used: Mapping[str, Array], statements: Sequence[Statement]
) -> tuple[frozenset[str], list[InputError]]:
    """Arrays that the user says stay the same from run to run, and what is wrong about that."""
    names, errors = _named(unit, found, used, "constant")
    written = {used[a.array].spelled for s in statements for a in s.accesses if a.write and a.array in used}
    for pragma in (one for one in found.facts if one.kind == "constant"):
        errors += [
            InputError(
                f"'{token.text}' is written here, so that it does not stay the same",
                unit.source.span(token),
                "leave it out of constant(…)",
                topic="pragmas",
            )
            for token in names_in(unit.source, pragma)
            if token.text in written
        ]
    return frozenset(name for name, array in used.items() if array.spelled in names and not array.is_scalar), errors


def _named(unit: Unit, found: Found, used: Mapping[str, Array], kind: str) -> tuple[set[str], list[InputError]]:
    """What the pragmas of a kind name, and errors for what is no array of the function."""
    shown = sorted({array.spelled for array in used.values()})
    names: set[str] = set()
    errors: list[InputError] = []
    for pragma in (one for one in found.facts if one.kind == kind):
        for token in names_in(unit.source, pragma):
            if token.kind == "name" and found.scope.find(token.text) is not None:
                names.add(token.text)
                continue
            errors.append(
                InputError(
                    f"'{token.text}' is not an array of this function",
                    unit.source.span(token),
                    f"arrays of the scop: {', '.join(shown) or 'none'}",
                    topic="pragmas",
                )
            )
    return names, errors

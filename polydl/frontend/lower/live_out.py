"""The arrays and scalars whose values behind a region may be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

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


@dataclass(frozen=True, slots=True)
class _Runs:
    """What one run of a region does to an array, and what of that could not be found out."""

    statements: Sequence[Statement]
    context: isl.Set
    """{ [] : what is known about the parameters }"""
    unknown: list[str] = field(default_factory=list)
    """For people."""

    def read_first(self, array: Array) -> bool:
        """Whether a run may read an element before it has written it, for some values of the parameters."""
        try:
            with quota(f"whether '{array.spelled}' carries values from one run to the next"):
                return not last_writes(self.statements, array.name, self.context).before.is_empty()
        except QuotaExceeded as error:
            self.unknown.append(f"the next run reads what this one leaves in '{array.spelled}': {error.reason}")
            return True


def _may_be_read(found: Found, array: Array, runs: _Runs) -> bool:
    """Whether what the region leaves in an array or scalar may be read behind it, as far as the function says: by code
    behind it, or by another run of it."""
    name = array.spelled
    if array.storage is Storage.REGION:
        return False
    symbol = found.scope.find(name)
    if symbol is not None and symbol.member:
        return True  # what a structure points to, or holds, others may know
    own = array.storage is Storage.LOCAL or (array.storage is Storage.PARAMETER and array.is_scalar)
    if not own or symbol is None or "extern" in symbol.decl.storage:
        return True
    static = "static" in symbol.decl.storage
    if array.is_scalar and not static:
        return has_address_taken(found.function.body, name) or found.escapes(name)
    # A pointer into it may go on, once it is named anywhere outside of the region.
    body = found.function.body
    if mentioned_apart(body, found.items, name) or (array.is_scalar and has_address_taken(body, name)):
        return True
    again = static or jumps(body) or any(name in mentions(node) for node in found.after)
    return again and runs.read_first(array)


def live_out(
    unit: Unit, found: Found, used: Mapping[str, Array], statements: Sequence[Statement], context: isl.Set
) -> tuple[frozenset[str], list[InputError], list[str]]:
    """Arrays that are read after the region, by default or by pragma; what is wrong about the pragmas; and what is
    taken to be read as it could not be found out, for people. `context`: { [] : what is known of parameters }."""
    runs = _Runs(statements, context)
    live = {name for name, array in used.items() if _may_be_read(found, array, runs)}
    errors: list[InputError] = []
    shown = sorted({array.spelled for array in used.values()})
    only: set[str] | None = None
    dead: set[str] = set()
    for pragma in found.facts:
        if pragma.kind not in ("live_out", "dead"):
            continue
        names: list[str] = []
        source = unit.source
        for token in names_in(source, pragma):
            known = found.scope.find(token.text)
            if token.kind != "name" or known is None:
                errors.append(
                    InputError(
                        f"'{token.text}' is not an array of this function",
                        source.span(token),
                        f"arrays of the scop: {', '.join(shown) or 'none'}",
                        topic="pragmas",
                    )
                )
            else:
                names.append(token.text)
        if pragma.kind == "live_out":
            only = (only or set()) | set(names)
        else:
            dead |= set(names)
    if only is not None:
        live = {name for name in live if used[name].spelled in only}
    return frozenset(name for name in live if used[name].spelled not in dead), errors, runs.unknown

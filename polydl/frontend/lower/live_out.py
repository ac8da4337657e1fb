"""The arrays and scalars whose values behind a region may be read."""

from __future__ import annotations

from collections.abc import Mapping

from polydl.base.errors import InputError
from polydl.frontend.lower.regions import Found
from polydl.frontend.meaning.liveness import has_address_taken, jumps, mentioned_apart
from polydl.frontend.meaning.symbols import mentions
from polydl.frontend.text.parse import Unit
from polydl.frontend.text.pragmas import names_in
from polydl.model.scop import Array, Storage


def _may_be_read(found: Found, name: str, array: Array) -> bool:
    """Whether what the region leaves in an array or scalar may be read behind it, as far as the function says."""
    if array.storage is Storage.REGION:
        return False
    symbol = found.scope.find(name)
    if symbol is not None and symbol.member:
        return True  # what a structure points to, or holds, others may know
    own = array.storage is Storage.LOCAL or (array.storage is Storage.PARAMETER and array.is_scalar)
    if not own or symbol is None or {"static", "extern"} & set(symbol.decl.storage):
        return True
    if array.is_scalar:
        return has_address_taken(found.function.body, name) or found.escapes(name)
    # The region may run again; and a pointer into it may go on, once it is named anywhere outside of the region.
    again = jumps(found.function.body) or any(name in mentions(node) for node in found.after)
    return again or mentioned_apart(found.function.body, found.items, name)


def live_out(unit: Unit, found: Found, used: Mapping[str, Array]) -> tuple[frozenset[str], list[InputError]]:
    """Arrays that are read after the region, by default or by pragma."""
    live = {name for name, array in used.items() if _may_be_read(found, array.spelled, array)}
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
    return frozenset(name for name in live if used[name].spelled not in dead), errors

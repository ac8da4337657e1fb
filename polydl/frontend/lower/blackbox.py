"""Code whose control flow depends on data becomes one statement, which is kept as it is written.

For `if (A[i] > m) m = A[i];`, `switch` on data and loops with `break` it is not known in advance which of their parts
run, but which elements they may touch. So is a loop whose bounds are read from memory, as that over a row of a sparse
matrix. What is written inside has affine subscripts as everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.frontend.core.loop_forms import counts, loop_of
from polydl.frontend.lower import software_prefetch
from polydl.frontend.lower.member_nodes import written
from polydl.frontend.lower.raw import RawBlackBox, RawEntries, RawStatement
from polydl.frontend.lower.state import State
from polydl.frontend.lower.sums_of_read_bounds import in_lanes
from polydl.frontend.meaning.affine_terms import symbol_aff
from polydl.frontend.meaning.liveness import Effect, assigned_names, changed_names, effect
from polydl.frontend.meaning.lookup import NeedsData
from polydl.frontend.meaning.symbols import Symbol, declarations, mentions, nodes
from polydl.model import isl
from polydl.model.scop import Storage

_OWN = (Storage.LOCAL, Storage.REGION)


def hidden_data(node: Node, state: State) -> None:
    """Raise NeedsData for an integer that the code changes: its value behind the code depends on data."""
    own = counters(node) | {decl.name for decl in declarations(node)}
    for name in sorted(changed_names(node) - own):
        found = state.scope.find(name)
        if found is not None and found.is_integer and name not in state.settings.data:
            raise NeedsData(name)


def without_own(inner: Sequence[RawStatement], node: Node, state: State) -> tuple[RawStatement, ...]:
    """The statements of the code at `node` without accesses to what is its own; the others may happen."""
    own = {id(decl) for decl in declarations(node)} | {id(symbol.node) for symbol in private(node, state)}
    return tuple(
        replace(s, accesses=tuple(replace(a, exact=False) for a in s.accesses if id(a.symbol.node) not in own))
        for s in inner
    )


def private(node: Node, state: State) -> list[Symbol]:
    """Scalars of the function that nothing but the code at `node` mentions in the region, nor needs behind it, and that
    it never reads before it has given them a value: it may as well declare them itself."""
    found = []
    for name in sorted(assigned_names(node) - {decl.name for decl in declarations(node)} - state.settings.escaping):
        symbol = state.scope.find(name)
        if (
            symbol is None
            or not symbol.is_scalar
            or symbol.pinned
            or symbol.storage in (Storage.GLOBAL, Storage.PARAMETER)
        ):
            continue
        if symbol.is_integer and name not in state.settings.data:
            continue  # a loop variable, or one whose values are known
        region = state.settings.region
        assert region is not None, "it is walked"
        inside = {id(at) for at in nodes(node) if isinstance(at, c_ast.ID)}
        named = (at for at in nodes(region) if isinstance(at, c_ast.ID) and at.name == name)
        if all(id(at) in inside for at in named) and effect([node], name) is not Effect.READS:
            found.append(symbol)
    return found


def body(
    node: Node, whole: Node, inner: tuple[RawStatement, ...], entries: RawEntries | None, state: State
) -> RawBlackBox:
    """The code at `node` as the body of one statement; `whole`: with the pointers that it uses, if any; `entries`: what
    it runs through, where it is a loop over a segment. Raises InputError."""
    known = _locals(state, whole, counters(node))
    if whole is not node:
        return RawBlackBox(_text(whole), known, inner, entries=entries)
    lanes = in_lanes(node, state.scope.find)
    fetching = software_prefetch.fetching(node, entries.bounds if entries is not None else "", state.scope.find)
    ahead = None if fetching is None else in_lanes(fetching.code, state.scope.find) or fetching.code
    fetched = () if fetching is None else fetching.arrays
    return RawBlackBox(_text(node), known, inner, _text(lanes), entries=entries, ahead=_text(ahead), fetched=fetched)


def _text(code: Node | None) -> str:
    """The lines of C that say something in the output."""
    text = "" if code is None else written(code)
    return "\n".join(line for line in text.splitlines() if line.strip() and not line.startswith("#pragma polydl "))


def _locals(state: State, node: Node, changed: frozenset[str]) -> tuple[tuple[str, isl.PwAff | None], ...]:
    """What the text needs declared around it: the loop variables and affine temporaries that it reads, with their
    values, and the loop variables that it sets itself."""
    names = set(mentions(node))
    own = {decl.name for decl in declarations(node)}
    result: list[tuple[str, isl.PwAff | None]] = [
        (f"{symbol.ctype.c} {symbol.name}", None) for symbol in private(node, state)
    ]
    for loop, ctype in state.loops:
        if loop.name in names:
            result.append((f"const {ctype.c} {loop.name}", symbol_aff(loop.name)))
    looping = {loop.name for loop, _ in state.loops}
    for name in sorted(names - own - looping):
        temporary = state.walked.temporaries.get(name)
        if temporary is None and state.environment.get(name) is not None:
            temporary = state.scope.find(name)  # one that the code is the first to read, and that is stepped behind it
        if temporary is None or name in state.settings.data:
            continue
        if name in changed:
            result.append((f"{temporary.ctype.c} {name}", None))
            continue
        known = state.environment.get(name)
        if state.address_of(name) is not None:
            raise NeedsData(name)
        if known is None:
            continue  # no temporary here: another object of this name
        if known[0].pw is None:
            raise state.places.error(
                f"the value of '{name}' is not affine where data decide what runs",
                node,
                f"give sizes with -D or --size, or write what '{name}' counts in terms of the loops' variables",
                topic="not-affine",
            )
        if name in isl.involved_parameters(known[0].pw):
            raise NeedsData(name)  # a parameter that the region changes: its first value has the same name
        if known[0].wrapped and not state.evaluator.is_counted(known[0], state.domain):
            raise NeedsData(name)
        result.append((f"const {temporary.ctype.c} {name}", known[0].pw))
    return tuple(result)


def counters(node: Node) -> frozenset[str]:
    """Variables of the loops in a subtree that are declared outside of it, and that it gives a value first."""
    found: set[str] = set()
    for inner in nodes(node):
        if isinstance(inner, c_ast.For) and isinstance(inner.init, c_ast.Assignment | c_ast.ExprList):
            found |= assigned_names(inner.init)
        elif isinstance(inner, c_ast.While | c_ast.DoWhile) and counts(inner):
            found |= {name for name in loop_of(inner).exit_variables if effect([node], name) is not Effect.READS}
    return frozenset(found)

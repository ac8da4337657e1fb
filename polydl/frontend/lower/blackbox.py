"""Code that data steer, kept as it is written: one statement that may touch what stands in it.

`if (A[i] > m) m = A[i];`, `switch` on data, loops with `break`: which of their parts run is not known in advance, but
what they may touch is. Subscripts and loop bounds inside have to be affine as everywhere.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pycparser import c_ast, c_generator

from polydl.frontend.lower.raw import RawAccess, RawBlackBox, RawStatement
from polydl.frontend.meaning.affine import symbol_aff
from polydl.frontend.meaning.liveness import assigned_names, changed_names
from polydl.frontend.meaning.lookup import NeedsData
from polydl.frontend.meaning.symbols import mentions

if TYPE_CHECKING:
    from polydl.frontend.lower.walk import Walker


def keep(walker: Walker, node: Any) -> None:
    """Make a statement of the code at `node`. Raises InputError (also collected by the walker) and NeedsData."""
    counters = _counters(node)
    declared = _declared(node)
    for name in sorted(changed_names(node) - counters - {decl.name for decl in declared}):
        found = walker.scope.find(name)
        if found is not None and found.is_integer and name not in walker.settings.data:
            raise NeedsData(name)
    before = dict(walker.environment)
    errors = len(walker.errors)
    inner = _walked(walker, node)
    walker.environment = {name: None if name in counters else known for name, known in before.items()}
    if len(walker.errors) > errors:
        return
    own = {id(decl) for decl in declared}
    inner = [
        replace(s, accesses=tuple(replace(a, exact=False) for a in s.accesses if id(a.symbol.node) not in own))
        for s in inner
    ]
    touched: list[RawAccess] = [a for s in inner for a in s.accesses]
    accesses = (*(a for a in touched if not a.write), *(a for a in touched if a.write))
    if not any(a.write for a in accesses):
        return
    lines = str(c_generator.CGenerator().visit(node)).splitlines()
    text = "\n".join(line for line in lines if line.strip() and not line.startswith("#pragma polydl "))
    walker.emit(accesses, RawBlackBox(text, _locals(walker, node, counters), tuple(inner)), node)


def _walked(walker: Walker, node: Any) -> list[RawStatement]:
    """The statements inside, to know what they access."""
    kept, walker.walked.statements = walker.walked.statements, []
    position = walker.counters[-1]
    walker.in_black_box = True
    try:
        walker.walk(node)
    finally:
        inner, walker.walked.statements = walker.walked.statements, kept
        walker.in_black_box = False
        walker.counters[-1] = position
    return inner


def condition(walker: Walker, node: Any) -> None:
    """Inside a black box: note what a condition reads."""
    builder = walker.values()
    builder.expression(node, walker.domain)
    if builder.accesses:
        walker.emit(tuple(builder.accesses), RawBlackBox("", (), ()), node)


def _locals(walker: Walker, node: Any, counters: frozenset[str]) -> tuple[tuple[str, Any], ...]:
    """What the text needs declared around it: the loop variables and affine temporaries that it reads, with their
    values, and the loop variables that it sets itself."""
    names = set(mentions(node))
    own = {decl.name for decl in _declared(node)}
    result: list[tuple[str, Any]] = []
    for loop, ctype in walker.loops:
        if loop.name in names:
            result.append((f"const {ctype.text} {loop.name}", symbol_aff(loop.name)))
    looping = {loop.name for loop, _ in walker.loops}
    for name in sorted(names - own - looping):
        temporary = walker.walked.temporaries.get(name)
        if temporary is None or name in walker.settings.data:
            continue
        if name in counters:
            result.append((f"{temporary.ctype.text} {name}", None))
            continue
        known = walker.environment.get(name)
        if known is None:
            continue  # no temporary here: another object of this name
        if known[0].pw is None:
            raise walker.places.error(
                f"the value of '{name}' is not affine where data decide what runs",
                node,
                "give sizes with -D or --size",
                topic="not-affine",
            )
        result.append((f"const {temporary.ctype.text} {name}", known[0].pw))
    return tuple(result)


def _counters(node: Any) -> frozenset[str]:
    """Variables of the loops in a subtree that are declared outside of it."""
    found: set[str] = set()
    if isinstance(node, c_ast.For) and isinstance(node.init, c_ast.Assignment):
        found |= assigned_names(node.init)
    for _, child in node.children():
        found |= _counters(child)
    return frozenset(found)


def _declared(node: Any) -> list[Any]:
    """Declarations in a subtree."""
    found = [node] if isinstance(node, c_ast.Decl) else []
    for _, child in node.children():
        found += _declared(child)
    return found

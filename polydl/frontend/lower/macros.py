"""The macros that a region depends on: guards of the output, which is right only where they mean the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from pycparser.c_ast import Node

from polydl.frontend.lower.regions import Found
from polydl.frontend.lower.walk import Walker
from polydl.frontend.meaning.affine import Evaluator
from polydl.frontend.meaning.guards import condition_names_around, end_of_block, macro_guards, names_between
from polydl.frontend.meaning.symbols import type_names
from polydl.frontend.text.expansions import condition_names, expansions, is_plain
from polydl.frontend.text.parse import Unit
from polydl.model.scop import Array, Guard


def _conditions(unit: Unit, found: Found, names: Iterable[str]) -> set[str]:
    """Macros that decide which declaration of the names (types, objects, functions) is compiled."""
    waiting: list[Node | None] = [found.function.decl]
    for name in names:
        symbol = found.scope.find(name)
        waiting.append(found.scope.find_typedef(name) if symbol is None else symbol.node)
    declared: list[Node] = []
    while waiting:
        node = waiting.pop()
        if node is not None and node not in declared:
            declared.append(node)
            waiting += [found.scope.find_typedef(word) for word in type_names(node)]
    tokens = [unit.places.token_of(node) for node in declared]
    return {n for token in tokens if token is not None for n in condition_names_around(unit.source, token.offset)}


def guards_of(
    unit: Unit, found: Found, walker: Walker, used: Mapping[str, Array]
) -> tuple[list[Guard], tuple[tuple[str, str], ...], dict[str, bool]]:
    """Macros that the region, the function's head, the declarations of arrays or a pragma mention: integers as
    guards, others with their expansions; and those that decide which declarations hold, with whether they are
    defined."""
    source = unit.source
    names = names_between(source, found.start, found.end)
    head = unit.places.token_of(found.function.decl)
    body = unit.places.token_of(found.function.body)
    if head is not None and body is not None:
        names |= names_between(source, head.offset, body.offset)
    nodes = [walker.walked.symbols[name].node for name in used]
    nodes += [symbol.node for symbol in walker.walked.temporaries.values()]
    for node in nodes:
        token = unit.places.token_of(node)
        if token is not None:
            names |= names_between(source, source.line_start(token.line), source.text.find(";", token.offset))
    for pragma in found.facts:
        names |= names_between(source, pragma.start, pragma.end)
    for symbol, _ in walker.walked.constants.values():
        token = unit.places.token_of(symbol.node)
        if token is not None:
            # from the end of the declaration before, so that all enumerators of an enum count
            names |= names_between(
                source, source.text.rfind(";", 0, token.offset) + 1, source.text.find(";", token.offset)
            )
    texts_of_called = []
    for definition in walker.walked.called.values():
        token = unit.places.token_of(definition.decl)
        if token is not None:
            start, end = source.line_start(token.line), end_of_block(source, token.offset)
            names |= names_between(source, start, end)
            texts_of_called.append(source.text[start:end])
    marker = f"#pragma polydl {next((p.index for p in walker.settings.pragmas.values() if p.span == found.span), -1)}\n"
    offset = unit.preprocessed.text.find(marker)
    at = offset if offset >= 0 else len(unit.preprocessed.text)
    around = _conditions(unit, found, names)
    guards = macro_guards(names | around, unit.preprocessed, at, Evaluator(walker), walker.scope)
    integers = {guard.name for guard in guards}
    cc, flags, folder = unit.preprocessed.command
    tested = condition_names("\n".join([source.text[found.start : found.end], *texts_of_called]))
    texts = expansions(names, tested | integers | around, source.text, unit.preprocessed, at, flags, folder, cc)
    # a macro without a definition expands to itself
    defined = {name: texts.get(name) != f'"{name}"' for name in sorted(around)}
    shown = names | tested
    return (
        [replace(guard, plain=is_plain(texts.get(guard.name, '""'))) for guard in guards],
        tuple((use, text) for use, text in texts.items() if use not in integers and use.partition("(")[0] in shown),
        defined,
    )

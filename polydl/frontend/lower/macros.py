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
from polydl.frontend.text.scan import Token
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
    source, text, walked = unit.source, unit.source.text, walker.walked

    def tokens(declared: Iterable[Node]) -> list[Token]:
        return [token for node in declared if (token := unit.places.token_of(node)) is not None]

    region = (found.start, found.end)
    objects = [walked.symbols[name].node for name in used] + [one.node for one in walked.temporaries.values()]
    spans = [region, *((pragma.start, pragma.end) for pragma in found.facts)]
    spans += [(source.line_start(at.line), text.find(";", at.offset)) for at in tokens(objects)]
    # from the end of the declaration before, so that all enumerators of an enum count
    constants = tokens(symbol.node for symbol, _ in walked.constants.values())
    spans += [(text.rfind(";", 0, at.offset) + 1, text.find(";", at.offset)) for at in constants]
    definitions = tokens(one.decl for one in walked.called.values())
    called = [(source.line_start(at.line), end_of_block(source, at.offset)) for at in definitions]
    head = tokens([found.function.decl, found.function.body])
    if len(head) == 2:
        spans.append((head[0].offset, head[1].offset))
    names = {name for span in (*spans, *called) for name in names_between(source, *span)}
    marker = f"#pragma polydl {next((p.index for p in walker.settings.pragmas.values() if p.span == found.span), -1)}\n"
    offset = unit.preprocessed.text.find(marker)
    at = offset if offset >= 0 else len(unit.preprocessed.text)
    around = _conditions(unit, found, names)
    guards = macro_guards(names | around, unit.preprocessed, at, Evaluator(walker), walker.scope)
    integers = {guard.name for guard in guards}
    cc, flags, folder = unit.preprocessed.command
    tested = condition_names("\n".join(text[slice(*span)] for span in (region, *called)))
    texts = expansions(names, tested | integers | around, text, unit.preprocessed, at, flags, folder, cc)
    # a macro without a definition expands to itself
    defined = {name: texts.get(name) != f'"{name}"' for name in sorted(around)}
    shown = names | tested
    return (
        [replace(guard, plain=is_plain(texts.get(guard.name, '""'))) for guard in guards],
        tuple((use, meant) for use, meant in texts.items() if use not in integers and use.partition("(")[0] in shown),
        defined,
    )

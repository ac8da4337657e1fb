"""Reads what pragmas promise about the loops behind them: that iterations don't depend on each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from polydl.base.errors import Span
from polydl.frontend.text.scan import Directive, SourceText, Token, matching, statement_end
from polydl.model.scop import Array, Promise, Statement

_INDEPENDENT = ("for", "simd", "loop", "taskloop", "distribute")
"""Directives of OpenMP whose loop has independent iterations (OpenMP 5.2, chapters 10 and 11)."""
_ORDERED = ("ordered", "safelen", "depend", "doacross")
"""Clauses that take a part of the promise back."""
_OWN = ("private", "firstprivate", "lastprivate", "linear", "reduction", "in_reduction")
"""Clauses that give each iteration, or thread, an object of its own."""


def promises(
    source: SourceText, start: int, end: int, statements: Sequence[Statement], arrays: Mapping[str, Array]
) -> tuple[Promise, ...]:
    """Those of the region [start, end) of a source. A loop whose `for` is hidden in a macro is left out."""
    found = []
    for directive in source.directives:
        clauses = _clauses(directive.words()) if start <= directive.start < end else None
        if clauses is None:
            continue
        loop = _loop(source, directive)
        if loop is None:
            continue
        variable, first, last = loop
        inside = [s for s in statements if _within(source, s.span, first, last)]
        if not inside or variable not in inside[0].iterators:
            continue
        own = {name for clause in _OWN for name in clauses.get(clause, ())}
        declared = {name for name, a in arrays.items() if a.span is not None and _within(source, a.span, first, last)}
        found.append(
            Promise(
                " ".join(source.text[directive.start : directive.end].split()),
                source.line_span(directive.tokens[0].line),
                inside[0].iterators.index(variable),
                next((int(word) for word in clauses.get("collapse", ()) if word.isdigit()), 1),
                frozenset(s.name for s in inside),
                frozenset(own | declared),
            )
        )
    return tuple(found)


def _clauses(words: Sequence[str]) -> Mapping[str, Sequence[str]] | None:
    """The words in brackets behind each clause of a pragma that promises independence; None for any other."""
    if words[:2] == ("pragma", "ivdep") or words[:3] in (("pragma", "GCC", "ivdep"), ("pragma", "clang", "ivdep")):
        return {}
    if words[:2] != ("pragma", "omp"):
        return None
    found = dict(_in_brackets(words[2:]))
    independent = any(word in found for word in _INDEPENDENT) and not any(word in found for word in _ORDERED)
    return found if independent and "declare" not in found else None


def _in_brackets(words: Sequence[str]) -> Iterator[tuple[str, Sequence[str]]]:
    """Each word outside of brackets, with the words in those behind it."""
    at = 0
    while at < len(words):
        last = at
        if words[at + 1 : at + 2] == ("(",):
            depth = 0
            for last in range(at + 1, len(words)):
                depth += (words[last] == "(") - (words[last] == ")")
                if depth == 0:
                    break
        yield words[at], words[at + 2 : last]
        at = last + 1


def _loop(source: SourceText, directive: Directive) -> tuple[str, Token, Token] | None:
    """The variable of the `for` loop behind a directive, and its first and last token."""
    tokens = source.tokens
    at = source.index_at(directive.end)
    if at >= len(tokens) or tokens[at].text != "for":
        return None
    try:
        header = tokens[at : matching(tokens, at + 1)]
        last = tokens[statement_end(tokens, at) - 1]
    except ValueError:
        return None
    assigned = (a.text for a, b in pairwise(header) if b.text == "=")
    variable = next(assigned, None)
    return None if variable is None else (variable, tokens[at], last)


def _within(source: SourceText, span: Span, first: Token, last: Token) -> bool:
    place = (span.line, span.column)
    return span.file == source.path and (first.line, first.column) <= place <= (last.line, last.column)

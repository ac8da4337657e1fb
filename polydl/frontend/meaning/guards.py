"""Macros that a region's meaning depends on, as guards of the translated code."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pycparser import c_parser
from pycparser.c_ast import Decl
from pycparser.c_parser import ParseError

from polydl.frontend.meaning.affine import Evaluator, NotAffine
from polydl.frontend.meaning.symbols import Scope
from polydl.frontend.text.preprocess import Macro, Preprocessed
from polydl.frontend.text.scan import TOKEN, SourceText
from polydl.model.scop import Guard
from polydl.model.types import SPECIFIERS

_NAME = re.compile(r"[^\W\d]\w*")
_OPERATORS = frozenset({"defined", "__has_include", "__has_attribute", "__has_builtin", "__has_c_attribute"})
_MAX_LENGTH = 4000
"""Characters of an expanded macro that is still looked at."""


def macro_guards(
    names: Iterable[str], preprocessed: Preprocessed, offset: int, evaluator: Evaluator, scope: Scope
) -> list[Guard]:
    """Guards for the integer macros among `names` and those that their definitions mention, in order of name."""
    seen: set[str] = set()
    waiting = list(names)
    guards: dict[str, Guard] = {}
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        macro = preprocessed.macro(name, offset)
        if macro is None:
            continue
        waiting += _NAME.findall(macro.body)
        value = _value(macro, preprocessed, offset, evaluator, scope)
        if value is not None:
            guards[name] = Guard(name, value, True)
    return [guards[name] for name in sorted(guards)]


def _value(macro: Macro, preprocessed: Preprocessed, offset: int, evaluator: Evaluator, scope: Scope) -> int | None:
    """The integer that an object-like macro expands to; None when it is none."""
    if macro.parameters is not None or not macro.body.strip():
        return None
    text = _expand(macro.body, preprocessed, offset, frozenset({macro.name}))
    if text is None or any(scope.find(name) is None and scope.find_typedef(name) is None for name in _names(text)):
        return None
    try:
        tree = c_parser.CParser().parse(f"int value = ({text});", "macro")
        (declared,) = tree.ext[:1]
        init = declared.init if isinstance(declared, Decl) else None
        return None if init is None else evaluator.number(init)
    except (ParseError, NotAffine, RecursionError):
        return None


def _names(text: str) -> list[str]:
    words = SPECIFIERS | {"sizeof"}
    return [m.group() for m in TOKEN.finditer(text) if m.lastgroup == "name" and m.group() not in words]


def _expand(text: str, preprocessed: Preprocessed, offset: int, active: frozenset[str]) -> str | None:
    """Object-like macros of a text expanded; None when it calls a function-like macro or grows too long."""
    parts: list[str] = []
    length = 0
    for match in TOKEN.finditer(text):
        piece = match.group()
        macro = preprocessed.macro(piece, offset) if match.lastgroup == "name" and piece not in active else None
        if macro is not None:
            if macro.parameters is not None:
                return None
            expanded = _expand(macro.body, preprocessed, offset, active | {piece})
            if expanded is None:
                return None
            piece = expanded
        parts.append(piece)
        length += len(piece)
        if length > _MAX_LENGTH:
            return None
    return "".join(parts)


def condition_names_around(source: SourceText, offset: int) -> set[str]:
    """Identifiers that the conditions decide on which decide whether the text at an offset is compiled, those of the
    branches before it included: `DOUBLE` for what stands behind the `#else` of `#ifdef DOUBLE`."""
    around = [group for group in source.groups() if group.start <= offset < group.end]
    directives = [directive for group in around for directive in group.directives if directive.start <= offset]
    return {t.text for one in directives for t in one.tokens[2:] if t.kind == "name"} - _OPERATORS


def end_of_block(source: SourceText, start: int) -> int:
    """One past the brace that closes the first one behind an offset; the end of the text where none does."""
    depth = 0
    for match in TOKEN.finditer(source.text, start):
        depth += {"{": 1, "}": -1}.get(match.group(), 0)
        if depth == 0 and match.group() == "}":
            return match.end()
    return len(source.text)


def names_between(source: SourceText, start: int, end: int) -> set[str]:
    """Identifiers of the original text between two offsets, pragmas included."""
    return {m.group() for m in TOKEN.finditer(source.text, start, end) if m.lastgroup == "name"}

"""`#pragma scop`, `#pragma endscop` and `#pragma polydl …` in the original text.

Grammar: DESIGN.md, 'The pragma grammar'. The C text inside a pragma is not understood here: macros in it are
expanded by the preprocessor first (see preprocess.py), since a compiler leaves pragmas unexpanded.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from polydl.base.errors import InputError, Span
from polydl.frontend.text.scan import Directive, SourceText, Token, matching

WORDS = ("microkernel", "assume", "live_out", "dead", "constant", "pure")
FORMS = ("call", "loops")


@dataclass(frozen=True, slots=True)
class Pragma:
    """One pragma that polydl reads."""

    kind: str
    """scop, endscop, call, loops, assume, live_out, dead, constant, pure."""
    index: int
    """Its number in the file: the name of its marker in the preprocessed text."""
    span: Span
    start: int
    """Offset of the first character of its line."""
    end: int
    """Offset one past its newline."""
    body: tuple[int, int] = (0, 0)
    """Offsets of the text between the parentheses; equal when there is none."""
    line: int = 1
    """Physical line of the pragma's `#`."""


def find_pragmas(source: SourceText) -> tuple[list[Pragma], list[InputError]]:
    """Every pragma of the file that is meant for polydl, in order, and what is wrong with them."""
    pragmas: list[Pragma] = []
    errors: list[InputError] = []
    for directive in source.directives:
        words = directive.words()
        if words[:1] != ("pragma",) or len(words) < 2 or words[1] not in ("scop", "endscop", "polydl"):
            continue
        try:
            pragmas.append(_pragma(source, directive, len(pragmas)))
        except InputError as error:
            errors.append(error)
    return pragmas, errors


def names_in(source: SourceText, pragma: Pragma) -> list[Token]:
    """What stands between the parentheses of a pragma, without commas."""
    first, last = pragma.body
    return [t for t in source.logical_tokens(pragma.line) if first <= t.offset < last and t.text != ","]


def _pragma(source: SourceText, directive: Directive, index: int) -> Pragma:
    tokens = list(directive.tokens)
    line = tokens[0].line
    whole = source.line_span(line)
    if tokens[2].text in ("scop", "endscop"):
        if len(tokens) > 3:
            raise InputError(
                f"unexpected text after '#pragma {tokens[2].text}'",
                source.span(tokens[3]),
                f"write '#pragma {tokens[2].text}' alone on its line",
                topic="pragmas",
            )
        return Pragma(tokens[2].text, index, whole, directive.start, directive.end, line=line)
    if len(tokens) < 4:
        raise InputError(
            "'#pragma polydl' says nothing", source.span(tokens[2]), f"known words: {', '.join(WORDS)}", topic="pragmas"
        )
    at = 3
    word = tokens[at].text
    if word not in WORDS:
        raise InputError(
            f"unknown word '{word}' after '#pragma polydl'",
            source.span(tokens[at]),
            _nearest(word, WORDS),
            topic="pragmas",
        )
    if word == "microkernel":
        at += 1
        if len(tokens) <= at:
            raise InputError(
                "'#pragma polydl microkernel' needs call(...) or loops(...)",
                source.span(tokens[3]),
                "call(f(&A[i][0], ...)) before loops that stand, loops(for (...) ...) before a call that stands",
                topic="pragmas",
            )
        word = tokens[at].text
        if word not in FORMS:
            raise InputError(
                f"unknown word '{word}' after '#pragma polydl microkernel'",
                source.span(tokens[at]),
                _nearest(word, FORMS),
                topic="pragmas",
            )
    if len(tokens) <= at + 1 or tokens[at + 1].text != "(":
        raise InputError(
            f"'{word}' needs an argument in parentheses", source.span(tokens[at]), f"write {word}(...)", topic="pragmas"
        )
    try:
        close = matching(tokens, at + 1)
    except ValueError as error:
        raise InputError(
            f"the parenthesis after '{word}' is never closed",
            source.span(tokens[at + 1]),
            "continue a long pragma with a backslash at the end of each line but the last",
            topic="pragmas",
        ) from error
    if close + 1 < len(tokens):
        raise InputError(
            f"unexpected text after '{word}(...)'",
            source.span(tokens[close + 1]),
            "one pragma says one thing",
            topic="pragmas",
        )
    if close == at + 2:
        raise InputError(f"'{word}()' is empty", source.span(tokens[at]), f"write {word}(...)", topic="pragmas")
    body = (tokens[at + 1].offset + 1, tokens[close].offset)
    return Pragma(word, index, whole, directive.start, directive.end, body, line)


def _nearest(word: str, known: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.4)
    listing = f"known words: {', '.join(known)}"
    return f"did you mean '{close[0]}'? ({listing})" if close else listing

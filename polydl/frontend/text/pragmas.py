"""`#pragma scop`, `#pragma endscop` and `#pragma polydl …` in the original text.

Grammar: DESIGN.md, 'The pragma grammar'. The C text inside a pragma is not understood here: macros in it are
expanded by the preprocessor first (see preprocess.py), since a compiler leaves pragmas unexpanded.
"""

from __future__ import annotations

import difflib

from polydl.base.errors import InputError, Span
from polydl.base.records import dataclass
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

    def refused(why: str, token: Token, hint: str) -> InputError:
        return InputError(why, source.span(token), hint, topic="pragmas")

    if tokens[2].text in ("scop", "endscop"):
        if len(tokens) > 3:
            word = f"'#pragma {tokens[2].text}'"
            raise refused(f"unexpected text after {word}", tokens[3], f"write {word} alone on its line")
        return Pragma(tokens[2].text, index, whole, directive.start, directive.end, line=line)
    if len(tokens) < 4:
        raise refused("'#pragma polydl' says nothing", tokens[2], f"known words: {', '.join(WORDS)}")
    at = 3
    word = tokens[at].text
    if word not in WORDS:
        raise refused(f"unknown word '{word}' after '#pragma polydl'", tokens[at], _nearest(word, WORDS))
    if word == "microkernel":
        at += 1
        if len(tokens) <= at:
            hint = "call(f(&A[i][0], ...)) before loops that stand, loops(for (...) ...) before a call that stands"
            raise refused("'#pragma polydl microkernel' needs call(...) or loops(...)", tokens[3], hint)
        word = tokens[at].text
        if word not in FORMS:
            raise refused(
                f"unknown word '{word}' after '#pragma polydl microkernel'", tokens[at], _nearest(word, FORMS)
            )
    if len(tokens) <= at + 1 or tokens[at + 1].text != "(":
        raise refused(f"'{word}' needs an argument in parentheses", tokens[at], f"write {word}(...)")
    try:
        close = matching(tokens, at + 1)
    except ValueError as error:
        hint = "continue a long pragma with a backslash at the end of each line but the last"
        raise refused(f"the parenthesis after '{word}' is never closed", tokens[at + 1], hint) from error
    if close + 1 < len(tokens):
        raise refused(f"unexpected text after '{word}(...)'", tokens[close + 1], "one pragma says one thing")
    if close == at + 2:
        raise refused(f"'{word}()' is empty", tokens[at], f"write {word}(...)")
    body = (tokens[at + 1].offset + 1, tokens[close].offset)
    return Pragma(word, index, whole, directive.start, directive.end, body, line)


def _nearest(word: str, known: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.4)
    listing = f"known words: {', '.join(known)}"
    return f"did you mean '{close[0]}'? ({listing})" if close else listing

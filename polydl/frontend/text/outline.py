"""What goes with the code of a region when it is replaced: whole `#if` groups, and the pragmas of its first loop.

A `#if` that opens inside of a loop may close behind it; a pragma before a loop (`omp parallel for`, `GCC ivdep`) means
that loop, and stands for nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise

from polydl.base.errors import InputError
from polydl.frontend.text.scan import Directive, Group, SourceText, Token, statement_end

LOOP_PRAGMAS = ("omp", "acc", "ivdep", "simd", "vector", "novector", "unroll", "nounroll", "loop_count")
"""First words of pragmas that mean the loop behind them; and, after `GCC` or `clang`, those of `_OF_COMPILERS`."""
_OF_COMPILERS = ("ivdep", "unroll", "novector", "loop")

_WORKSHARING = ("for", "loop", "distribute", "sections", "section", "taskloop", "single", "workshare", "scope")
"""Directives of OpenMP that share work out among threads which are there already."""
_ONCE = ("master", "masked", "critical", "ordered", "task", "atomic")
"""Directives that say which thread runs what follows, or when."""
_MAKES_THREADS = ("parallel", "teams", "target")


def balanced(source: SourceText, start: int, end: int) -> tuple[int, int]:
    """The least range around [start, end) that has all or none of the directives of every `#if` group."""
    text = source.text
    groups = list(source.groups())
    while True:
        for group in groups:
            inside = any(start <= directive.start < end for directive in group.directives)
            if inside and (group.start < start or _last_line_end(text, group) > end):
                start, end = min(start, group.start), max(end, _last_line_end(text, group))
                break
        else:
            return start, end


def compiled(source: SourceText, lines: Collection[int]) -> list[Token]:
    """The tokens of a file but for those in branches of an `#if` of which the preprocessor left nothing. `lines`: those
    of which something was left."""
    left_out: list[tuple[int, int]] = []
    for group in source.groups():
        for start, end in pairwise(directive.start for directive in group.directives):
            tokens = _tokens(source, start, end)
            if tokens and not any(token.line in lines or token.logical in lines for token in tokens):
                left_out.append((start, end))
    return [token for token in source.tokens if not any(start <= token.offset < end for start, end in left_out)]


def _last_line_end(text: str, group: Group) -> int:
    """Offset of the newline of a group's `#endif`."""
    return group.end - len("\n") if text[group.end - 1 : group.end] == "\n" else group.end


def pragmas_before(source: SourceText, start: int) -> list[Directive]:
    """The loop pragmas between the last token before `start` and `start`, first one first."""
    found: list[Directive] = []
    for directive in reversed([d for d in source.directives if d.end <= start]):
        if _tokens(source, directive.end, start):
            break
        words = directive.words()
        if words[:2] == ("pragma", "scop"):
            continue
        if not is_loop_pragma(directive):
            break
        found.insert(0, directive)
    return found


def declaration_start(source: SourceText, token: Token) -> int:
    """Where text can be put in front of an external declaration that begins with a token, or with attributes before it.

    That is the start of its line, or of a `#pragma omp declare …` before it; on a line that it shares with the end of
    another declaration, the offset of its first token.
    """
    at = source.index_at(token.offset)
    while at > 0 and source.tokens[at - 1].text not in ("}", ";"):
        gap = (source.tokens[at - 1].offset, source.tokens[at].offset)
        if any(gap[0] < directive.start < gap[1] for directive in source.directives):
            break
        at -= 1
    first = source.tokens[at]
    if at > 0 and source.tokens[at - 1].line == first.line:
        return first.offset
    start = source.line_start(first.line)
    before = pragmas_before(source, start)
    return before[0].start if before else start


def is_loop_pragma(directive: Directive) -> bool:
    """Whether a directive is a pragma that means the loop behind it."""
    words = directive.words()
    if words[:1] != ("pragma",) or len(words) < 2:
        return False
    compilers = words[1] in ("GCC", "clang") and words[2:3] and words[2] in _OF_COMPILERS
    return words[1] in LOOP_PRAGMAS or bool(compilers)


def check_threads(source: SourceText, start: int, end: int) -> None:
    """Refuse a region whose pragmas speak of threads that are there already: its loops would lose that meaning.

    `omp for` outside of an `omp parallel` of the region means the threads of a caller, each of which would run all of
    the code in its place; `omp single` before a loop keeps all but one from it. Raises InputError.
    """
    teams: list[tuple[int, int]] = []
    first = next((token.offset for token in _tokens(source, start, end)), end)
    for directive in source.directives:
        if not start <= directive.start < end or directive.words()[:2] != ("pragma", "omp"):
            continue
        words = directive.words()[2:]
        if any(word in words[:_DIRECTIVE_WORDS] for word in _MAKES_THREADS):
            teams.append((directive.end, _statement_end(source, directive.end, end)))
        elif words and _binds_to_threads(words, outermost=directive.start < first):
            if not any(inner <= directive.start < outer for inner, outer in teams):
                raise InputError(
                    f"'#pragma omp {words[0]}' speaks of threads that are there already, and the code that replaces "
                    "its loop starts its own",
                    source.line_span(directive.tokens[0].line),
                    "write '#pragma omp parallel for', or leave the pragma out: polydl finds parallel loops itself",
                    topic="pragmas",
                )


_DIRECTIVE_WORDS = 6
"""Words of a combined directive, as `target teams distribute parallel for simd`; clauses come behind."""


def _binds_to_threads(words: Sequence[str], *, outermost: bool) -> bool:
    return words[0] in _WORKSHARING or (outermost and words[0] in _ONCE)


def _statement_end(source: SourceText, start: int, end: int) -> int:
    """Offset at which the statement behind a directive ends; `end` where it does not end before."""
    tokens = _tokens(source, start, end)
    try:
        return tokens[statement_end(tokens, 0) - 1].offset
    except ValueError:
        return end


def _tokens(source: SourceText, start: int, end: int) -> list[Token]:
    """The code tokens in [start, end)."""
    return source.tokens[source.index_at(start) : source.index_at(end)]

"""Preprocessed text cut into external declarations, so that only what a scop needs has to be C that pycparser reads.

Function bodies without a scop may hold anything (statement expressions, inline assembly, C++-isms in macros): they
are blanked. GNU spellings elsewhere are replaced by standard ones of the same length, so that columns stay.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from polydl.frontend.text.linkage import as_c
from polydl.frontend.text.preprocess import LINE_MARKER
from polydl.model.types import BF16, F16

_SPELLINGS = {
    "__restrict": "restrict",
    "__restrict__": "restrict",
    "__const": "const",
    "__const__": "const",
    "__inline": "inline",
    "__inline__": "inline",
    "__volatile": "volatile",
    "__volatile__": "volatile",
    "__signed__": "signed",
    "__signed": "signed",
    "__extension__": "",
    "__thread": "_Thread_local",
    "__complex__": "_Complex",
    "__alignof__": "_Alignof",
}
_WITH_PARENTHESES = frozenset({"__attribute__", "__attribute", "__declspec"})
_ASM = frozenset({"asm", "__asm", "__asm__"})
_TYPEOF = frozenset({"typeof", "__typeof", "__typeof__"})
_OPAQUE = [
    F16.c,
    BF16.c,
    "_Float32",
    "_Float64",
    "_Float128",
    "_Float32x",
    "_Float64x",
    "__float128",
    "__int128",
    "__int128_t",
    "__uint128_t",
    "__builtin_va_list",
    "__m64",
    "__m128",
    "__m128d",
    "__m128i",
    "__m256",
    "__m256d",
    "__m256i",
    "__m512",
    "__m512d",
    "__m512i",
]
"""Types that compilers know without a declaration and pycparser does not: opaque here, so that using one that is no
element type in a scop is an error."""

_LEX = re.compile(
    r"""(?P<directive>^[ \t]*\#[^\n]*)
      | (?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
      | (?P<name>[^\W\d]\w*)
      | (?P<open>[({\[])
      | (?P<close>[)}\]])
      | (?P<semicolon>;)
      | (?P<run>(?:[-+]?\.?\d(?:[eEpP][+-]|[\w.])*+[ \t]*+,\s*+){64,}+)
      | (?P<number>\.?\d(?:[eEpP][+-]|[\w.])*)
      | (?P<other>[^\s\w])""",
    re.VERBOSE | re.MULTILINE,
)


_OLD_STYLE = re.compile(r"(?:[^;{}=]++;\s*+)++\{")
"""The types of parameters behind their names, and a body: `int n; float *x; {` of `f(n, x) int n; float *x; { … }`."""
_BRACE = re.compile(r"\s*\{")


@dataclass(frozen=True, slots=True)
class Chunk:
    """One external declaration of the preprocessed text."""

    start: int
    end: int
    body: tuple[int, int] | None
    """Offsets of a function's body, `{` to one past `}`; None when it is no function definition."""
    file: str
    """The file it comes from, as the line markers say."""
    line: int
    """Line in that file of its first token."""
    column: int
    """Column of its first token in the preprocessed line, 1-based."""
    name: str
    """Function name for a definition or a prototype, else empty."""
    const: bool
    """Declared `__attribute__((const))`: its result depends on its arguments alone."""
    initialisers: tuple[tuple[int, int], ...] = ()
    """Offsets of the initialisers of arrays, `=` to one past `}`: no scop needs them, and they may be long."""


def clean(text: str) -> tuple[str, frozenset[int]]:
    """The text with GNU spellings and C++'s linkage replaced or blanked, length and lines unchanged.

    Also the offsets at which an `__attribute__((const))` stood.
    """
    text = as_c(text)
    consts: set[int] = set()
    parts: list[str] = []
    position = 0
    for match in re.finditer(r"\b(?:__\w+|asm|typeof)\b", text):
        word, start = match.group(), match.start()
        if start < position:
            continue
        if word in _SPELLINGS:
            parts.append(text[position:start] + _SPELLINGS[word].ljust(len(word)))
            position = match.end()
        elif word in _WITH_PARENTHESES or word in _ASM or word in _TYPEOF:
            end = _parenthesised(text, match.end(), word in _ASM)
            if end is None:
                continue
            inside = text[start:end]
            if word in _WITH_PARENTHESES and re.search(r"[(,]\s*(?:__)?const(?:__)?\s*[,)]", inside):
                consts.add(start)
            # what typeof names is unknown here: an opaque type, so that using it in a scop is an error
            shown = "__m64" if word in _TYPEOF else ""
            parts.append(text[position:start] + shown + re.sub(r"[^\n]", " ", inside[len(shown) :]))
            position = end
    parts.append(text[position:])
    return "".join(parts), frozenset(consts)


def _parenthesised(text: str, position: int, qualifiers: bool) -> int | None:
    """Offset one past the balanced parentheses that follow; None when none follow."""
    if qualifiers:
        position += len(re.match(r"(?:\s*(?:volatile|__volatile__|goto|inline))*", text[position:]).group())  # type: ignore[union-attr]
    depth = 0
    for match in _LEX.finditer(text, position):
        token = match.group()
        if token == "(":
            depth += 1
        elif token == ")":
            depth -= 1
            if depth == 0:
                return match.end()
        elif depth == 0:
            return None
    return None


def split(text: str, consts: frozenset[int]) -> list[Chunk]:
    """The external declarations of cleaned text, in order."""
    chunks: list[Chunk] = []
    file, line_base, offset_base = "", 1, 0
    depth = 0
    start: int | None = None
    start_place = ("", 1, 1)
    assigned = False
    previous = ""
    name = candidate = ""
    body_start: int | None = None
    table: int | None = None
    tables: list[tuple[int, int]] = []
    for match in _LEX.finditer(text):
        kind, token = match.lastgroup, match.group()
        if kind == "directive":
            marker = LINE_MARKER.match(token.lstrip())
            if marker:
                file, line_base, offset_base = unescape(marker.group(2)), int(marker.group(1)), match.end() + 1
            continue
        if start is None:
            start = match.start()
            column = start - text.rfind("\n", 0, start)
            start_place = (file, line_base + text.count("\n", offset_base, start), column)
            assigned, name, candidate, body_start, previous = False, "", "", None, ""
            table, tables = None, []
        ends = False
        if kind == "open":
            if depth == 0 and token == "{" and not assigned and previous == ")":
                body_start = match.start()
            if depth == 0 and token == "(" and not name:
                name = candidate
            depth += 1
        elif kind == "close":
            depth = max(0, depth - 1)
            ends = depth == 0 and token == "}" and body_start is not None
            if depth == 0 and token == "}" and table is not None:
                tables.append((table, match.end()))
                table = None
        elif kind == "semicolon":
            ends = depth == 0 and body_start is None
        elif kind == "name" and depth == 0:
            candidate = token
            body_start = _old_body(text, match.start()) if previous == ")" and not assigned else body_start
        elif token == "=" and depth == 0:
            assigned = True
            table = match.start() if previous == "]" and _BRACE.match(text, match.end()) else None
        previous = token
        if ends:
            body = (body_start, match.end()) if body_start is not None else None
            const = any((chunks[-1].end if chunks else 0) <= at < match.end() for at in consts)
            chunks.append(Chunk(start, match.end(), body, *start_place, name, const, tuple(tables)))
            start = None
    if start is not None:
        chunks.append(Chunk(start, len(text), None, *start_place, name, False))
    return chunks


def _old_body(text: str, position: int) -> int | None:
    """Where the body of a function starts whose parameters' types stand at a position; None where none do."""
    types = _OLD_STYLE.match(text, position)
    return None if types is None else types.end() - 1


def unescape(name: str) -> str:
    """A file name from a line marker."""
    return re.sub(r"\\(.)", r"\1", name)


def blank(text: str, keep_semicolon: bool) -> str:
    """Spaces in place of text, newlines and line markers kept; a `;` in front for a body that becomes a prototype."""
    lines = [
        line if line.lstrip().startswith("#") and LINE_MARKER.match(line.lstrip()) else " " * len(line)
        for line in text.split("\n")
    ]
    blanked = "\n".join(lines)
    return ";" + blanked[1:] if keep_semicolon and not lines[0].lstrip().startswith("#") else blanked


def prelude(text: str) -> str:
    """Declarations of the compiler's own types that the text mentions, on one line."""
    words = set(re.findall(r"\b_\w+", text))
    return " ".join(f"typedef struct __polydl_opaque {name};" for name in _OPAQUE if name in words)

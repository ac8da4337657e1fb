"""Preprocessed text cut into external declarations, so that only what a scop needs has to be C that pycparser reads.

Function bodies without a scop may hold anything (statement expressions, inline assembly, C++-isms in macros): they
are blanked. GNU spellings elsewhere are replaced by standard ones of the same length, so that columns stay.
"""

from __future__ import annotations

import re

from polydl.base.records import dataclass
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
    "__typeof": "typeof",
    "__typeof__": "typeof",
}
_WITH_PARENTHESES = frozenset({"__attribute__", "__attribute", "__declspec"})
_ASM = frozenset({"asm", "__asm", "__asm__"})
DEDUCED = "__auto_type"
"""GNU C's type of what a variable is initialised with."""
FAKE_TYPES = "_fake_typedefs.h"
"""The end of the name of the file in which pycparser's fake headers declare types, all of them as int."""
_OPAQUE = [
    F16.c,
    BF16.c,
    "_Float32",
    "_Float64",
    "_Float128",
    "_Float32x",
    "_Float64x",
    "__float128",
    "__int128_t",
    "__uint128_t",
    "__builtin_va_list",
    DEDUCED,
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

OPAQUE = ("struct __polydl_opaque", "__m64")
"""What such types are declared as, and the one that stands for any type of vectors."""

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
_OF_VECTORS = r"__attribute(?:__)?\s*\(\(\s*(?:__)?vector_size(?:__)?\s*\([^()]*\)\s*\)\)"
_TYPE = r"(?:(?:unsigned|signed|long|short)\s+)*(?!(?:typedef|static|extern|const|volatile|register)\b)[^\W\d]\w*"
_VECTOR = re.compile(rf"\b{_TYPE}(\s+[^\W\d]\w*)?\s*{_OF_VECTORS}|{_OF_VECTORS}\s*{_TYPE}")
"""`double v4 __attribute__((vector_size(32)))`, `double __attribute__(…) v4` and `__attribute__(…) double v4`."""
_STATEMENTS = re.compile(r"\(\s*\{")
"""A statement expression of GNU C starts."""
_WORD = re.compile(r"(\.|->)?\s*\b([^\W\d]\w*)\b")
_CHANGED = re.compile(r"\s*(?:(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--)")
_KEYWORDS = frozenset(re.findall(r"\w+", """
    auto break case char const continue default do double else enum extern float for goto if inline int long register
    restrict return short signed sizeof static struct switch typedef union unsigned void volatile while
"""))  # fmt: skip
STAND_INS = ("_s", "_g", "_u", "__s", "__g", "__u")
"""Names of functions that stand in place of what is GNU C alone, where the file has not the name."""


def stand_in(text: str) -> str | None:
    """The function that stands for what is GNU C alone in a text: it is given the variables that may be read, and the
    addresses of those that may be changed. None: there is no free name."""
    return next((name for name in STAND_INS if re.search(rf"\b{name}\b", text) is None), None)


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
    implicit: bool = False
    """A function without a type, which returns an int: C of 1989."""
    old_types: int | None = None
    """Where the types of parameters start that stand behind the parentheses; None: inside of them."""
    initialisers: tuple[tuple[int, int], ...] = ()
    """Offsets of the initialisers of arrays, `=` to one past `}`: no scop needs them, and they may be long."""


def clean(text: str) -> tuple[str, frozenset[int]]:
    """The text with GNU spellings and C++'s linkage replaced or blanked, length and lines unchanged.

    Also the offsets at which an `__attribute__((const))` stood.
    """
    text = _VECTOR.sub(_opaque_type, _without_statements(as_c(text)))
    consts: set[int] = set()
    name = stand_in(text) if _ASM_WORD.search(text) else None
    parts: list[str] = []
    position = 0
    for match in re.finditer(r"\b(?:__\w+|asm)\b", text):
        word, start = match.group(), match.start()
        if start < position:
            continue
        if word in _SPELLINGS:
            parts.append(text[position:start] + _SPELLINGS[word].ljust(len(word)))
            position = match.end()
        elif word in _WITH_PARENTHESES or word in _ASM:
            end = _parenthesised(text, match.end(), word in _ASM)
            if end is None:
                continue
            inside = text[start:end]
            if word in _WITH_PARENTHESES and re.search(r"[(,]\s*(?:__)?const(?:__)?\s*[,)]", inside):
                consts.add(start)
            shown = ""
            if word in _ASM and ":" in _STRING.sub("", inside):
                shown = _standing_in(name, inside, assembly=True)
            parts.append(text[position:start] + _padded(shown, inside))
            position = end
    parts.append(text[position:])
    return "".join(parts), frozenset(consts)


_STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
_ASM_WORD = re.compile(r"\basm\b|\b__asm")


def _padded(shown: str, replaced: str) -> str:
    """Text in place of one that is at least as long, with its newlines."""
    newlines = replaced.count("\n")
    if newlines == 0:
        return shown.ljust(len(replaced))
    rest = re.sub(r"[^\n]", " ", replaced)
    first = rest.find("\n")
    if first >= len(shown):
        return shown + rest[len(shown) :]
    return shown + " " * (len(replaced) - len(shown) - newlines) + "\n" * newlines


def _opaque_type(match: re.Match[str]) -> str:
    """A type of vectors, and the name that it may stand around, with an opaque type in its place."""
    return _padded(f"__m64{match.group(1) or ''} ", match.group())


def _without_statements(text: str) -> str:
    """The text with a call in place of each statement expression `({ … })`, which is given what it mentions."""
    if _STATEMENTS.search(text) is None or (name := stand_in(text)) is None:
        return text
    parts: list[str] = []
    position = 0
    for match in _STATEMENTS.finditer(text):
        start = match.start()
        end = _parenthesised(text, start, False) if start >= position else None
        if end is None:
            continue
        inside = text[start:end]
        shown = _standing_in(name, inside)
        if not shown:
            continue
        parts.append(text[position:start] + _padded(shown, inside))
        position = end
    return "".join([*parts, text[position:]])


def _standing_in(name: str | None, written: str, *, assembly: bool = False) -> str:
    """A call that is given the variables that some code mentions, those that it may change by their addresses: of
    assembly all. Empty where it takes more room, or assembly has no operands."""
    code = _STRING.sub(lambda match: " " * len(match.group()), written)
    if assembly:
        code = re.sub(r"\[\s*\w+\s*\]", " ", code[code.index("(") :])
    if name is None or re.search(r"^\s*#", written, re.MULTILINE):
        return ""
    changed: dict[str, bool] = {}
    for match in _WORD.finditer(code):
        member, word = match.groups()
        if member or word in _KEYWORDS or word.startswith("__"):
            continue
        before = code[: match.start(2)].rstrip()
        changes = _CHANGED.match(code, match.end()) is not None or before.endswith(("++", "--", "&"))
        changed[word] = changed.get(word, False) or changes or assembly
    shown = f"{name}({','.join(f'&{word}' if changes else word for word, changes in changed.items())})"
    fits = len(shown) <= len(written) - written.count("\n")
    return shown if fits and (changed or not assembly) else ""


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
    name_at = candidate_at = 0
    body_start: int | None = None
    old_types: int | None = None
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
            table, tables, old_types = None, [], None
        ends = False
        if kind == "open":
            if depth == 0 and token == "{" and not assigned and previous == ")":
                body_start = match.start()
            if depth == 0 and token == "(" and not name:
                name, name_at = candidate, candidate_at
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
            candidate, candidate_at = token, match.start()
            old = _old_body(text, match.start()) if previous == ")" and not assigned else None
            body_start, old_types = old or (body_start, old_types)
        elif token == "=" and depth == 0:
            assigned = True
            table = match.start() if previous == "]" and _BRACE.match(text, match.end()) else None
        previous = token
        if ends:
            body = (body_start, match.end()) if body_start is not None else None
            const = any((chunks[-1].end if chunks else 0) <= at < match.end() for at in consts)
            implicit = body is not None and bool(name) and name_at == start
            chunks.append(
                Chunk(start, match.end(), body, *start_place, name, const, implicit, old_types, tuple(tables))
            )
            start = None
    if start is not None:
        chunks.append(Chunk(start, len(text), None, *start_place, name, False))
    return chunks


def _old_body(text: str, position: int) -> tuple[int, int] | None:
    """Where the body of a function starts whose parameters' types stand at a position, and this; None where none do."""
    types = _OLD_STYLE.match(text, position)
    return None if types is None else (types.end() - 1, position)


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
    return " ".join(f"typedef {OPAQUE[0]} {name};" for name in _OPAQUE if name in words)

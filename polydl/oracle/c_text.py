"""From the text that `cc -E` prints to pycparser's tree.

pycparser knows standard C. What gcc and the headers of the system add is taken out, or spelled otherwise in the same
columns; of headers only those declarations stay that the file needs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pycparser import c_ast, c_parser

from polydl.base.errors import Span
from polydl.oracle.c_verdicts import Unsupported

_SPELLINGS = {
    "__restrict": "restrict",
    "__restrict__": "restrict",
    "__inline": "inline",
    "__inline__": "inline",
    "__const": "const",
    "__const__": "const",
    "__volatile__": "volatile",
    "__volatile": "volatile",
    "__signed__": "signed",
    "__signed": "signed",
    "__extension__": "",
    "__typeof__": "typeof",
    "__typeof": "typeof",
    "__auto_type": "auto",
    "__alignof__": "_Alignof",
    "__alignof": "_Alignof",
    "__builtin_offsetof": "offsetof",
    "__builtin_va_list": "polydl_va_list",
    "__int128_t": "__int128",
    "_Noreturn": "",
    "_Thread_local": "",
    "__thread": "",
}
_BEFORE = "typedef char *polydl_va_list; typedef unsigned __int128 __uint128_t;"
_WORD = re.compile(r"[A-Za-z_$][\w$]*")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_MARKER = re.compile(r'#\s*(?:line\s+)?(\d+)\s+"((?:[^"\\]|\\.)*)"([ \d]*)')
_OWN_TYPES = ("_Float16", "__bf16", "_Float32", "_Float64", "_Float32x")


@dataclass(slots=True)
class _Piece:
    """A declaration or definition at the outermost level."""

    text: str
    file: str
    line: int
    column: int
    system: bool

    @property
    def body(self) -> bool:
        return self.text.rstrip().endswith("}")

    def names(self) -> set[str]:
        """What the piece may declare."""
        text = self.text
        if "{" in text and not re.match(r"\s*(?:typedef|struct|union|enum)\b", text):
            text = text[: text.index("{")]
        if not re.match(r"\s*(?:typedef|struct|union|enum)\b", text) and "(" in text:
            found = re.search(r"([A-Za-z_$][\w$]*)\s*\(", text)
            return {found[1]} if found else set()
        return set(_WORD.findall(text))

    def words(self) -> set[str]:
        return set(_WORD.findall(self.text))


def _pieces(text: str) -> list[_Piece]:
    """The text in pieces, each with its place."""
    found: list[_Piece] = []
    file, line, system = "<text>", 1, False
    depth, start, place = 0, None, ("<text>", 1, 1, False)
    body = False
    position = 0
    column_start = 0
    lines = text.split("\n")
    for raw in lines:
        if raw.startswith("#") and (marker := _MARKER.match(raw)):
            number, name, flags = int(marker[1]), marker[2], marker[3].split()
            file, line, system = name, number, "3" in flags
            position += len(raw) + 1
            continue
        if raw.lstrip().startswith("#"):
            line += 1
            position += len(raw) + 1
            continue
        column_start = position
        for token in re.finditer(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|[{}();]|[^\s{}();"\']+', raw):
            word = token[0]
            if start is None:
                if word == ";":
                    continue
                start, body = column_start + token.start(), False
                place = (file, line, token.start() + 1, system)
            if word in "{(":
                if word == "{" and depth == 0:
                    before = text[start : column_start + token.start()].rstrip()
                    body = before.endswith(")") and "=" not in _STRING.sub("", before)
                depth += 1
            elif word in "})":
                depth -= 1
            ended = (word == ";" and depth == 0) or (word == "}" and depth == 0 and body)
            if ended:
                end = column_start + token.end()
                found.append(_Piece(text[start:end], *place))
                start = None
        line += 1
        position += len(raw) + 1
    if start is not None:
        found.append(_Piece(text[start:], *place))
    return found


def _needed(pieces: list[_Piece]) -> list[_Piece]:
    """The pieces of the file itself, and those of headers whose names they need."""
    by_name: dict[str, list[int]] = {}
    for number, piece in enumerate(pieces):
        if piece.system:
            for name in piece.names():
                by_name.setdefault(name, []).append(number)
    kept = {number for number, piece in enumerate(pieces) if not piece.system}
    waiting = list(kept)
    seen: set[str] = set()
    while waiting:
        for word in pieces[waiting.pop()].words() - seen:
            seen.add(word)
            for number in by_name.get(word, ()):
                if number not in kept:
                    kept.add(number)
                    waiting.append(number)
    return [pieces[number] for number in sorted(kept)]


def _closing(text: str, opening: int) -> int:
    """The place behind the parenthesis that closes the one at `opening`."""
    depth = 0
    for found in re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|[()]').finditer(text, opening):
        if found[0] == "(":
            depth += 1
        elif found[0] == ")":
            depth -= 1
            if depth == 0:
                return found.end()
    return len(text)


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def _attribute(text: str, before: str) -> str:
    """What pycparser reads of `__attribute__((…))`: vectors, and how types are laid out."""
    inside = text[text.index("(") + 1 : -1].strip()[1:-1]
    parts, depth, part = [], 0, ""
    for character in inside:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += character
    parts.append(part)
    start = max(before.rfind(";"), before.rfind("{"), before.rfind("}"))
    of_type = bool(re.match(r"\s*(?:typedef|struct|union)\b", before[start + 1 :])) or before.rstrip().endswith("}")
    kept = []
    for one in parts:
        name = one.strip().split("(")[0].strip().strip("_")
        if name == "vector_size" or (of_type and name in ("packed", "aligned")):
            kept.append(f"gnu::{name}{one.strip()[one.strip().find('(') :] if '(' in one else ''}")
    spelled = f"[[{', '.join(kept)}]]" if kept else ""
    newlines = text.count("\n")
    return spelled + " " * max(0, len(text) - len(spelled) - newlines) + "\n" * newlines


def _assembler(text: str) -> str:
    """Nothing for an empty template, which only orders things; a call of what nobody knows for any other."""
    inside = text[text.index("(") + 1 : -1]
    empty = re.match(r'\s*(?:""\s*)+(?::|$)', inside)
    new = "" if empty else "polydl_assembler()"
    return new + _blank(text[len(new) :])


def _types_as_arguments(text: str) -> str:
    """Types among the arguments of builtins are put into `sizeof`, which pycparser reads."""
    for name, numbers in (("__builtin_convertvector", (1,)), ("__builtin_types_compatible_p", (0, 1))):
        position = 0
        while (position := text.find(name, position)) >= 0:
            opening = text.find("(", position)
            end = _closing(text, opening)
            parts, depth, last = [], 0, opening + 1
            for at in range(opening + 1, end):
                if text[at] in "([{":
                    depth += 1
                elif text[at] in ")]}" and at < end - 1:
                    depth -= 1
                if (text[at] == "," and depth == 0) or at == end - 1:
                    parts.append(text[last:at])
                    last = at + 1
            parts = [f"sizeof({part})" if number in numbers else part for number, part in enumerate(parts)]
            text = text[: opening + 1] + ",".join(parts) + text[end - 1 :]
            position = opening
    return text


def _standard(text: str) -> str:
    """gcc's spellings as those that pycparser reads."""
    out, position = [], 0
    for found in re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|[A-Za-z_$][\w$]*').finditer(text):
        if found.start() < position:
            continue
        word = found[0]
        if word in ("__attribute__", "__attribute", "__asm__", "__asm", "asm", "__declspec"):
            opening = text.find("(", found.end())
            end = _closing(text, opening)
            out.append(text[position : found.start()])
            whole = text[found.start() : end]
            if "attribute" in word:
                out.append(_attribute(whole, text[: found.start()]))
            else:
                before = text[: found.start()].rstrip()
                statement = before.endswith((";", "{", "}", ")", "else", ":")) and not _declarator(before)
                out.append(_assembler(whole) if statement else _blank(whole))
            position = end
        elif word in _SPELLINGS:
            out.append(text[position : found.start()])
            out.append(_SPELLINGS[word].ljust(len(word)))
            position = found.end()
    out.append(text[position:])
    return _types_as_arguments("".join(out))


def _declarator(before: str) -> bool:
    """Whether `asm` after this text names a symbol: it stands behind a declarator at the outermost level."""
    return before.count("{") == before.count("}")


def _reals(text: str) -> str:
    """Constants whose suffix pycparser does not know."""
    text = re.sub(r"\b([\d.]+(?:[eE][+-]?\d+)?)(?:f16|F16)\b", r"((_Float16)\1)", text)
    return re.sub(r"\b([\d.]+(?:[eE][+-]?\d+)?)(?:bf16|BF16)\b", r"((__bf16)\1)", text)


def parsed(text: str) -> tuple[c_ast.FileAST, dict[str, Unsupported]]:
    """The tree, and functions whose bodies are not understood, with the reason."""
    pieces = _needed(_pieces(text))
    dropped: dict[str, Unsupported] = {}
    while True:
        lines: list[str] = []
        for piece in pieces:
            lines.append(f'# {piece.line} "{piece.file}"')
            lines.append(" " * (piece.column - 1) + _reals(_standard(piece.text)))
        types = " ".join(f"typedef float {name};" for name in _OWN_TYPES)
        whole = f'# 1 "<polydl>"\n{_BEFORE} {types}\n' + "\n".join(lines) + "\n"
        dialect = "c23" if "[[" in whole or re.search(r"\b(?:typeof|auto)\b", whole) else "legacy"
        try:
            return c_parser.CParser(dialect=dialect).parse(whole, "<polydl>"), dropped
        except c_parser.ParseError as error:
            found = re.match(r"(.*?):(\d+):(\d+): (.*)", str(error))
            place = Span(found[1], int(found[2]), int(found[3])) if found else Span("?", 0, 0)
            reason = f"pycparser does not read this ({found[4] if found else error})"
            guilty = _guilty(pieces, place) if found else None
            if guilty is None or not (guilty.system or guilty.body):
                raise Unsupported(reason, place) from error
            pieces = [piece for piece in pieces if piece is not guilty]
            for name in guilty.names():
                dropped.setdefault(name, Unsupported(reason, place))


def _guilty(pieces: list[_Piece], place: Span) -> _Piece | None:
    """The piece in which an error is."""
    found = None
    for piece in pieces:
        if piece.file == place.file and (piece.line, piece.column) <= (place.line, place.column):
            if place.line <= piece.line + piece.text.count("\n"):
                found = piece
    return found
